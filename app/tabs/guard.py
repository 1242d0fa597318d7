"""What the page says when something goes wrong while it answers a click."""

import logging

from app import views
from rewardharness.errors import HarnessError, describe

log = logging.getLogger(__name__)


def explain(error: Exception, hint: str = "") -> str:
    """Put an error on the page, so that the page stays usable. A defect of ours goes to the log as well.

    Args:
        error: What was caught.
        hint: What else may help.
    """
    if not isinstance(error, HarnessError):
        log.error("a click could not be answered", exc_info=error)
    return views.trouble(describe(error), hint)
