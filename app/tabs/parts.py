"""What all tabs are made of."""

from typing import Any

import gradio as gr

QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
"""How events behave that are no part of the public API and whose progress we show ourselves."""

KEPT = 6 * 3600
"""Seconds for which a visitor's session remembers what it holds."""

Updates = dict[Any, Any]
"""Parts of the page, and what becomes of them. Parts that are not named stay as they are."""


def markup(value: str = "", **options: Any) -> gr.Markdown:
    """A place for markup of the views. Formulas are off: foreign text must not be typeset."""
    return gr.Markdown(value, latex_delimiters=[], **options)
