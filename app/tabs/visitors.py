"""Tells who is at the page.

Gradio fills in what a login left. On a computer of one's own there is no login, and nobody is at the page.
"""

import gradio as gr

from app.hub_services import NOBODY, Visitor


def visitor_of(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None) -> Visitor:
    """Who asks. A token is only ever used in requests to the Hub, which knows whose it is."""
    return NOBODY if token is None else Visitor(profile.username if profile is not None else "", token.token)
