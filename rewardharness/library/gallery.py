"""Search Libraries on the Hugging Face Hub. What their cards say is untrusted: it is bounded, and never a path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rewardharness.codec import finite
from rewardharness.errors import shown
from rewardharness.hub.listing import Order, list_models
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
    limit = min(MOST, max(1, limit))
    found = list_models(access or Access(), LIBRARY_TAG, query=query, author=author, order=order, limit=limit)
    return tuple(map(_read, found))


def _read(repo: Any) -> ListedLibrary:
    card = repo.card_data.to_dict() if repo.card_data is not None else {}
    own = card.get("rewardharness")
    version = f"v{own.get('version')}" if isinstance(own, dict) else ""
    likes, downloads = (value if isinstance(value, int) else 0 for value in (repo.likes, repo.downloads))
    results = list(_results(card))
    return ListedLibrary(
        str(repo.id),
        version if parse_version(version) else "",
        _text(card.get("license"), 40),
        likes,
        downloads,
        repo.last_modified,
        bool(repo.private),
        next((result for result, reward in results if reward is None), None),
        max((reward for _, reward in results if reward is not None), default=None),
    )


def _results(card: Mapping[str, Any]) -> Iterator[tuple[ClaimedResult, float | None]]:
    """Yield each result in the `model-index` of a card, and the reward of the exploit if it is about an attack."""
    results = [result for model in _items(card.get("model-index")) for result in _items(model.get("results"))]
    for dataset, metric in [(row.get("dataset"), metric) for row in results for metric in _items(row.get("metrics"))]:
        data, args = (value if isinstance(value, dict) else {} for value in (dataset, metric.get("args")))
        accuracy = _share(metric.get("value"))
        reward, low, high = (_share(args.get(key)) for key in ("exploit_reward", "low", "high"))
        if metric.get("type") != "accuracy" or accuracy is None:
            continue
        low, high = (low, high) if low is not None and high is not None and low <= high else (None, None)
        n = args.get("judged")
        n = n if isinstance(n, int) and 0 <= n <= 10**9 else 0
        texts = _text(data.get("name"), 80), _text(args.get("judge"), 80)
        yield ClaimedResult(accuracy, n, low, high, *texts, args.get("evolved_on_these_data") is True), reward


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value[:1000] if isinstance(item, dict)] if isinstance(value, list) else []


def _share(value: Any) -> float | None:
    number = finite(value)
    return number if number is not None and 0 <= number <= 1 else None


def _text(value: Any, most: int) -> str:
    return shown(value, most) if isinstance(value, str) else ""
