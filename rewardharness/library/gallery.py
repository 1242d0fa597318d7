"""Search Libraries on the Hugging Face Hub. What their cards say is untrusted: it is bounded, and never a path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rewardharness.codec import finite
from rewardharness.errors import shown
from rewardharness.hub.listing import ListedRepo, Order, list_models
from rewardharness.hub.repository import Access
from rewardharness.library.card import LIBRARY_TAG
from rewardharness.library.hub_files import parse_version

MOST = 100
"""Maximum length of a list."""


@dataclass(frozen=True)
class ClaimedResult:
    """Accuracy of a Library as its card claims it."""

    accuracy: float
    """In [0, 1]."""
    n: int
    """Number of judged examples; 0 if unknown."""
    low: float | None
    high: float | None
    """Bounds of the 95% interval; None if unknown."""
    data: str
    """Name of the dataset."""
    judge: str
    evolved_on: bool
    """Whether the card says that the Library was evolved on the same data."""


@dataclass(frozen=True)
class ListedLibrary:
    """A Library in the gallery."""

    repo: str
    """`org/name`."""
    version: str
    """Such as `v1.2.0`; empty if the card does not say."""
    license: str
    likes: int
    downloads: int
    updated: datetime | None
    private: bool
    result: ClaimedResult | None
    """The first result of the card that is no attack; None without one."""
    exploit_reward: float | None
    """Highest mean reward of an exploit over all attacks of the card, in [0, 1]; None if not measured."""

    @property
    def spec(self) -> str:
        """`org/name@version`, or without a version."""
        return f"{self.repo}@{self.version}" if self.version else self.repo


def search_libraries(
    query: str = "", *, author: str = "", order: Order = "last_modified", limit: int = 50, access: Access | None = None
) -> tuple[ListedLibrary, ...]:
    """Return the Libraries on the Hub that the token can see.

    Args:
        query: Text in the name; empty for any.
        author: User or organization; empty for any.
        order: What the list is sorted by, the highest first.
        limit: Maximum length, 1 to `MOST`.
        access: Access settings; None for the usual ones.

    Raises:
        HubError: If the Hub refuses, or cannot be reached.
    """
    listed = list_models(
        access or Access(), LIBRARY_TAG, query=query, author=author, order=order, limit=min(MOST, max(1, limit))
    )
    return tuple(map(_read, listed))


def _read(listed: ListedRepo) -> ListedLibrary:
    own = listed.card.get("rewardharness")
    version = f"v{own.get('version')}" if isinstance(own, dict) else ""
    claimed = [*_results(listed.card)]
    rewards = [reward for _, reward in claimed if reward is not None]
    return ListedLibrary(
        listed.name,
        version if parse_version(version) else "",
        _text(listed.card.get("license"), 40),
        listed.likes,
        listed.downloads,
        listed.updated,
        listed.private,
        next((result for result, reward in claimed if reward is None), None),
        max(rewards, default=None),
    )


def _results(card: Mapping[str, Any]) -> Iterator[tuple[ClaimedResult, float | None]]:
    """Yield each result in the `model-index` of a card, and the reward of the exploit if it is about an attack."""
    for model in _items(card.get("model-index")):
        for result in _items(model.get("results")):
            data = result.get("dataset")
            for metric in _items(result.get("metrics")):
                raw_args = metric.get("args")
                args: Mapping[str, Any] = raw_args if isinstance(raw_args, dict) else {}
                accuracy, reward = finite(metric.get("value")), finite(args.get("exploit_reward"))
                if metric.get("type") != "accuracy" or accuracy is None or not 0 <= accuracy <= 1:
                    continue
                low, high = (finite(args.get(key)) for key in ("low", "high"))
                bounded = low is not None and high is not None and 0 <= low <= high <= 1
                n = args.get("judged")
                yield (
                    ClaimedResult(
                        accuracy,
                        n if isinstance(n, int) and 0 <= n <= 10**9 else 0,
                        low if bounded else None,
                        high if bounded else None,
                        _text(data.get("name") if isinstance(data, dict) else "", 80),
                        _text(args.get("judge"), 80),
                        args.get("evolved_on_these_data") is True,
                    ),
                    reward if reward is not None and 0 <= reward <= 1 else None,
                )


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value[:1000] if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any, most: int) -> str:
    return shown(value, most) if isinstance(value, str) else ""
