"""What the page gets as the answer to an event."""

import asyncio
from typing import Any

import gradio as gr
import pytest
from gradio.state_holder import SessionState

from app.page import Page


@pytest.mark.parametrize("chosen", [(), ("text",), ("kept",), ("text", "kept"), ("shown", "text", "kept", "box")])
def test_an_answer_gives_the_page_what_gradio_would_give_it(chosen: tuple[str, ...]) -> None:
    async def compare() -> None:  # outside of a loop Gradio makes one and leaves it open
        with Page("Title", (60, 60), local=True, proxied=False) as page:
            widgets = {"text": gr.Textbox("before"), "kept": gr.State(0), "shown": gr.Column(), "box": gr.Checkbox()}
            gr.Button().click(lambda: None, None, list(widgets.values()))
        new: dict[str, Any] = {"text": "after", "kept": 7, "shown": gr.Column(visible=False), "box": gr.Checkbox(True)}
        answer = {widgets[name]: new[name] for name in chosen} or {widgets["box"]: gr.skip()}
        (event,) = page.fns.values()
        ours, theirs = SessionState(page), SessionState(page)
        given = await page.postprocess_data(event, answer, ours)
        assert given == await gr.Blocks.postprocess_data(page, event, answer, theirs)
        assert len(given) == len(widgets)
        assert ours[widgets["kept"]._id] == theirs[widgets["kept"]._id] == (7 if "kept" in chosen else 0)

    asyncio.run(compare())


def test_an_answer_with_a_widget_that_is_no_output_is_an_error() -> None:
    async def answer() -> None:
        with Page("Title", (60, 60), local=True, proxied=False) as page:
            shown, other = gr.Textbox(), gr.Textbox()
            gr.Button().click(lambda: None, None, [shown, gr.Checkbox()])
        with pytest.raises(ValueError, match="not specified as output"):
            await page.postprocess_data(page.fns[0], {shown: "a", other: "b"}, SessionState(page))

    asyncio.run(answer())
