"""List repositories on the Hugging Face Hub by tag."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from rewardharness.errors import shown
from rewardharness.hub.errors import Context, require_client, translated
from rewardharness.hub.repository import CLIENT, Access, is_repo

Order = Literal["likes", "downloads", "last_modified"]


@dataclass(frozen=True)
class ListedRepo:
    """A repository in a list. The card is untrusted."""

    name: str
    """`org/name`."""
    likes: int
    downloads: int
    """In the last 30 days."""
    updated: datetime | None
    private: bool
    card: Mapping[str, Any] = field(repr=False)
    """Header of the card, parsed by the Hub; empty if it has none."""


def list_models(
    access: Access, tag: str, *, query: str = "", author: str = "", order: Order = "last_modified", limit: int = 50
) -> tuple[ListedRepo, ...]:
    """List the model repositories with a tag that the token can see.

    Args:
        access: How the Hub is reached.
        tag: The tag.
        query: Text in the name; empty for any.
        author: User or organization; empty for any.
        order: What the list is sorted by, the highest first.
        limit: Maximum length, at least 1.

    Raises:
        HubError: If the Hub refuses, or cannot be reached.
    """
    require_client("hub", "Libraries on the Hub")
    from huggingface_hub import HfApi

    logging.getLogger("huggingface_hub.repocard_data").setLevel(logging.ERROR)  # it warns of each invalid card
    api = HfApi(endpoint=(access.endpoint or "").rstrip("/") or None, token=access.token, **CLIENT)
    with translated(Context("the Hub", "model", "", "list Libraries", "", access.token or None)):
        listed = api.list_models(
            filter=tag,
            search=shown(query.strip(), 200) or None,
            author=author.strip() or None,
            sort=order,
            expand=["likes", "downloads", "lastModified", "private", "cardData"],
            limit=limit,
        )
        return tuple(_listed(repo) for repo in islice(listed, limit) if is_repo(str(repo.id)))


def _listed(repo: Any) -> ListedRepo:
    card = repo.card_data.to_dict() if repo.card_data is not None else {}
    likes, downloads = (value if isinstance(value, int) else 0 for value in (repo.likes, repo.downloads))
    return ListedRepo(str(repo.id), likes, downloads, repo.last_modified, bool(repo.private), card)
