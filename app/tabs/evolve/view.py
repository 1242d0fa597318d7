"""The parts that show a run."""

from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.tabs.evolve.edits import Edits
from app.tabs.evolve.labels import Labels
from app.tabs.evolve.versions import Versions


@dataclass(frozen=True)
class RunView:
    """All of them."""

    current: gr.State
    """Name of the run that is shown; empty for none."""
    known: gr.State
    """`Sight.mark` of what is shown."""
    chosen: gr.State
    """Key of the edit that is shown; empty for none."""
    browser: gr.BrowserState
    """Name of the run, remembered by the browser."""
    timer: gr.Timer
    """Ticks while a run is shown that goes on."""
    standing: gr.Markdown
    stop: gr.Button
    resume: gr.Button
    keys: gr.Row
    judge_key: gr.Textbox
    other_key: gr.Textbox
    told: gr.Markdown
    area: gr.Column
    accuracy: gr.HTML
    judgments: gr.HTML
    about: gr.Markdown
    edits: Edits
    findings: gr.Markdown
    labels: Labels
    versions: Versions
    report: gr.Markdown
    download: gr.DownloadButton

    @property
    def parts(self) -> list[Any]:
        """All that events may change, flat."""
        found: list[Any] = []
        for each in vars(self).values():
            found += each.parts if isinstance(each, Edits | Labels | Versions) else [each]
        return found
