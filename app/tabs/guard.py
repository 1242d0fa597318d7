"""Error messages of event handlers."""

import logging

from app import views
from rewardharness.errors import HarnessError, describe

log = logging.getLogger(__name__)


def explain(error: Exception, hint: str = "") -> str:
    """Format an error for the page, so that the page stays usable. Log internal errors.

    Args:
        error: The error.
        hint: Further help.
    """
    if not isinstance(error, HarnessError):
        log.error("an event handler failed", exc_info=error)
    return views.error_message(describe(error), hint)
