"""Accessibility checks that run in the page. Each returns a list of faults in words."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

WATCH_SHIFTS = """() => { window.shifts = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts += entry.value;
}).observe({ type: "layout-shift", buffered: true }); }"""
"""Adds up in `window.shifts` by how much the page shifts without user input (cumulative layout shift)."""

_OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

_RULES = {"target-size": {"enabled": True}}
"""Rules of axe-core beside its usual ones: controls have at least 24 x 24 CSS pixels (WCAG 2.5.8)."""


def faults(page: Page, *rules: str) -> list[str]:
    """Return the serious and critical findings of axe-core, and whether the page overflows.

    Args:
        page: The page.
        rules: Names of rules; by default all.
    """
    only = {"runOnly": {"type": "rule", "values": rules}} if rules else {"rules": _RULES}
    found = Axe().run(page, options={"resultTypes": ["violations"], **only}).response["violations"]
    overflow = page.evaluate(_OVERFLOW)
    return [
        *(
            f"{each['id']}: {node['html'][:150]}"
            for each in found
            for node in each["nodes"]
            if each["impact"] in SERIOUS
        ),
        *([f"overflow by {overflow} pixels"] if overflow > 0 else []),
    ]


SERIOUS = {"serious", "critical"}
