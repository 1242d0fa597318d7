"""Formats the gallery of Libraries on the Hub. Pure: records in, markup out. What cards claim is foreign text."""

from collections.abc import Sequence

from app.markup import block, callout, escape, paragraph, to_library
from rewardharness.library.gallery import ClaimedResult, ListedLibrary


def hint() -> str:
    """Return the placeholder before the first search."""
    text = "Libraries on the Hugging Face Hub appear here, with the results that their cards claim."
    return block(callout("empty", "Search the Hub", paragraph(text)))


def searching() -> str:
    """Return the placeholder during a search."""
    return block(callout("empty busy", "Searching…", paragraph("The Hub is being asked.")))


def gallery(found: Sequence[ListedLibrary], query: str) -> str:
    """List Libraries as cards."""
    if not found:
        what = f"for {query.strip()!r} " if query.strip() else ""
        return block(callout("empty", "No Library was found", paragraph(f"The Hub has none {what}that you may see.")))
    about = "Results are claims of the cards, and compare only on the same data with the same judge."
    return block(f'<p class="faint">{about}</p><div class="gallery">{"".join(map(_card, found))}</div>')


def _card(each: ListedLibrary) -> str:
    facts = [
        _result(each.result),
        "" if each.exploit_reward is None else f"Worst attack: mean reward {each.exploit_reward:.2f}",
        f"{each.likes} likes · {each.downloads} downloads",
        " · ".join(
            filter(
                None,
                [
                    f"License {each.license}" if each.license else "No license stated",
                    each.updated.strftime("updated %Y-%m-%d") if each.updated else "",
                    "private" if each.private else "",
                ],
            )
        ),
    ]
    version = f'<span class="pill">{escape(each.version)}</span>' if each.version else ""
    lines = "".join(f"<p>{escape(fact)}</p>" for fact in facts if fact)
    links = (
        f"{to_library(each.spec, f'Open {each.repo}')} · {to_library(each.spec, 'Compare with built-in', 'builtin')}"
    )
    return f'<section class="card"><h4>{escape(each.repo)} {version}</h4>{lines}<p>{links}</p></section>'


def _result(result: ClaimedResult | None) -> str:
    if result is None:
        return "No result: agreement with people was not measured."
    interval = "" if result.low is None else f" [{result.low:.0%}, {result.high:.0%}]"
    same = ", on data that it was evolved on" if result.evolved_on else ""
    return f"Claims {result.accuracy:.0%}{interval}, n {result.n}, on {result.data} with {result.judge}{same}"
