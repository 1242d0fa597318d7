"""The visitor of a request, from Gradio's login. On a local computer there is no login."""

import gradio as gr

from app.hub_services import ANONYMOUS, Visitor


def visitor_of(token: gr.OAuthToken | None, profile: gr.OAuthProfile | None) -> Visitor:
    """Return the visitor. A token is used only in requests to the Hub, which verifies it."""
    return ANONYMOUS if token is None else Visitor(profile.username if profile is not None else "", token.token)
