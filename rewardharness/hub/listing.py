"""List repositories on the Hugging Face Hub by tag."""

import logging
from itertools import islice
from typing import Any, Literal

from rewardharness.errors import shown
from rewardharness.hub.errors import Context, client, translated
from rewardharness.hub.repository import Access, is_repo

Order = Literal["likes", "downloads", "last_modified"]


def list_models(
    access: Access, tag: str, *, query: str = "", author: str = "", order: Order = "last_modified", limit: int = 50
) -> list[Any]:
    """List the model repositories with a tag that the token can see.

    Args:
        access: How the Hub is reached.
        tag: The tag.
        query: Text in the name; empty for any.
        author: User or organization; empty for any.
        order: What the list is sorted by, the highest first.
        limit: Maximum length, at least 1.

    Returns:
        A `ModelInfo` of the client for each. Its card is untrusted.

    Raises:
        HubError: If the Hub refuses, or cannot be reached.
    """
    api = client(access)
    logging.getLogger("huggingface_hub.repocard_data").setLevel(logging.ERROR)  # it warns of each invalid card
    with translated(Context("the Hub", "model", "", "list Libraries", "", access.token or None)):
        listed = api.list_models(
            filter=tag,
            search=shown(query.strip(), 200) or None,
            author=author.strip() or None,
            sort=order,
            expand=["likes", "downloads", "lastModified", "private", "cardData"],
            limit=limit,
        )
        return [repo for repo in islice(listed, limit) if is_repo(str(repo.id))]
