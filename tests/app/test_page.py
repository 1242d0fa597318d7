"""The page as Gradio builds it: answers to events, its start, and a queue that visitors share."""

import asyncio
import gc
import inspect
from collections import Counter
from typing import Any

import gradio as gr
import pytest
from gradio.data_classes import PredictBodyInternal
from gradio.state_holder import SessionState
from starlette.requests import Request

from app.fairness import ADDRESS_PLACES, PLACES, SESSION_PLACES, FairQueue, network_of
from app.page import Page
from app.starting import quick_imports, started


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


def test_gradio_is_whole_after_a_quick_import() -> None:
    """As `conftest.py` has imported it; the app does the same."""
    before = inspect.getfile
    with quick_imports():
        assert not gc.isenabled()
        with pytest.raises(OSError, match="not needed"):
            inspect.getfile(gr.Button)
    assert inspect.getfile is before and inspect.getfile(gr.Button).endswith("button.py")
    started()
    assert gc.isenabled() and gc.get_freeze_count() > 10_000 and gr.Button("Go").value == "Go"


def request_from(address: str, forwarded: str = "") -> Request:
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    return Request({"type": "http", "client": (address, 1), "headers": headers})


class Line:
    """A page with a cheap event and an expensive one, of which four can be at work."""

    def __init__(self, *, local: bool = False, proxied: bool = False) -> None:
        async def make() -> FairQueue:  # outside of a loop Gradio makes one and leaves it open
            with gr.Blocks(analytics_enabled=False) as blocks:
                button = gr.Button()
                button.click(lambda: None, concurrency_id="dear", concurrency_limit=4)
                button.click(lambda: None, concurrency_id="cheap", concurrency_limit=4)
            return FairQueue(blocks, local=local, proxied=proxied)

        self.queue = asyncio.run(make())
        self.queue.active_jobs = [None] * 40

    def join(self, session: str, address: str = "10.0.0.1", *, event: int = 0, forwarded: str = "") -> bool:
        body = PredictBodyInternal(data=[], fn_index=event, session_hash=session)
        waiting = self.queue.push(body, request_from(address, forwarded), None)
        try:
            waiting.send(None)  # a loop for each of thousands would take long; there is nothing to wait for
        except StopIteration as done:
            return bool(done.value[0])
        raise AssertionError("it waits")

    def begin(self) -> str | None:
        """Take the next event up, as Gradio does; returns its session."""
        found = self.queue.get_events()
        if found is None:
            return None
        events, _, line = found
        self.queue.active_jobs[self.queue.active_jobs.index(None)] = events
        self.queue.event_queue_per_concurrency_id[line].current_concurrency += 1
        return str(events[0].session_hash)


def test_one_session_leaves_places_to_others() -> None:
    line = Line()
    assert [line.join("greedy") for _ in range(34)] == [True] * SESSION_PLACES + [False] * (34 - SESSION_PLACES)
    assert line.join("other", "10.0.0.1"), "another session of the same address"
    assert line.join("greedy", event=1), "another line"


def test_many_sessions_of_one_address_leave_places_to_others() -> None:
    line = Line()
    assert sum(line.join(f"s{number}") for number in range(200)) == ADDRESS_PLACES < PLACES
    assert line.join("other", "10.0.0.2") and line.join("s1", event=1)
    addresses = [line.join(f"a{number}", f"10.0.1.{number % 250}") for number in range(200)]
    assert sum(addresses) == PLACES - ADDRESS_PLACES - 1


def test_one_network_of_ipv6_is_one_visitor_and_a_forged_header_none() -> None:
    line = Line(proxied=True)
    hops = [f"8.8.{number}.8, 2001:4860:4860:8::{number:x}, 10.1.1.1" for number in range(60)]
    assert sum(line.join(f"s{number}", forwarded=each) for number, each in enumerate(hops)) == ADDRESS_PLACES
    assert line.join("other", forwarded="2001:4860:4860:9::1")
    plain = Line()
    assert sum(plain.join(f"s{number}", forwarded=each) for number, each in enumerate(hops)) == ADDRESS_PLACES


@pytest.mark.parametrize(
    ("peer", "forwarded", "network"),
    [
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "1.1.1.1, 8.8.8.8", "8.8.8.8"),
        ("10.0.0.1", "8.8.8.8, 10.2.2.2, ::1", "8.8.8.8"),
        ("10.0.0.1", "unknown, 'x'", "10.0.0.1"),
        ("::ffff:8.8.8.8", "", "8.8.8.8"),
        ("2001:4860:4860::8888", "", "2001:4860:4860::/64"),
        ("", "", ""),
    ],
)
def test_who_a_visitor_is(peer: str, forwarded: str, network: str) -> None:
    assert network_of(peer, forwarded) == network


def test_workers_are_shared() -> None:
    line = Line()
    for number in range(10):
        line.join(f"greedy{number}")
    assert line.begin() == "greedy0" and line.begin() == "greedy1"
    assert line.begin() is None, "the other half of the workers is for others"
    line.join("other", "10.0.0.2")
    assert line.begin() == "other", "before eight who came earlier"
    alone = Line(local=True)
    for _ in range(6):
        alone.join("mine")
    assert [alone.begin() for _ in range(5)] == ["mine"] * 4 + [None], "at one's own computer nobody else waits"


def test_sessions_of_one_address_do_not_push_out_those_of_others() -> None:
    line = Line()
    line.join("victim", "10.0.0.2")
    for number in range(2100):
        line.join(f"s{number}", event=number % 2)
        for group in line.queue.event_queue_per_concurrency_id.values():
            group.queue = [event for event in group.queue if event.session_hash == "victim"]
    assert "victim" in line.queue.pending_messages_per_session
    assert Counter(key[0] for key in line.queue.pending_messages_per_session)["s"] <= 100
