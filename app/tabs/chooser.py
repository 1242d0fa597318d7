"""The choice of a Library, the same on both tabs."""

from dataclasses import dataclass

import gradio as gr

from app.services import FOLDER, AppServices


@dataclass(frozen=True)
class Chooser:
    """The parts of one choice. Handlers take both as inputs and make a `Choice` of them."""

    kind: gr.Radio
    folder: gr.Textbox

    @property
    def parts(self) -> list[gr.components.Component]:
        """Both parts, in order."""
        return [self.kind, self.folder]


def make_chooser(services: AppServices, name: str, label: str) -> Chooser:
    """Draw a choice of Libraries; the path can be typed only where folders may be named.

    Args:
        services: The services.
        name: Beginning of the ids of its parts, unique in the page.
        label: What is chosen here.
    """
    choices = services.choices()
    kind = gr.Radio(choices, value=choices[0][1], label=label, elem_id=f"{name}-kind", visible=len(choices) > 1)
    folder = gr.Textbox(
        label="Folder of the Library",
        info="The one with registry.json in it.",
        placeholder="/home/me/my-library",
        max_lines=1,
        max_length=1000,
        visible=False,
        elem_id=f"{name}-folder",
    )
    kind.input(
        lambda chosen: gr.Textbox(visible=chosen == FOLDER),
        kind,
        folder,
        queue=False,
        show_progress="hidden",
        api_visibility="private",
    )
    return Chooser(kind, folder)
