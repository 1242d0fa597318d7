"""A share of the served requests as a dataset without labels, which people can label and a Library can evolve from.

A row is one source with two to four candidates of one instruction. It holds what was judged and the rewards, and
nothing about the caller: no header, token, address, id or time. Images are stored as they were sent, including their
metadata.
"""

import errno
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.folder import FEEDBACK_MARKER
from rewardharness.data.tables import store_image
from rewardharness.schema import GROUPS, LABELS, PAIRS, Json
from rewardharness.serving.media import Edit, RequestImage
from rewardharness.serving.monitoring import BackgroundWriter
from rewardharness.serving.results import ItemResult

MAX_SAMPLE = 1 << 30
"""Size of the folder in bytes beyond which nothing is added."""

_WAITING = 8
"""Maximum number of rows, with their images, that wait to be written."""
_LOOK_AGAIN = 100
"""Rows after which the size of the folder is added up again, since other processes may write there."""

Sample = tuple[str, Sequence[RequestImage], Sequence[tuple[RequestImage, float]]]
"""An instruction, the source and its references, and the candidates with their rewards."""


class RequestSample(BackgroundWriter[Sample]):
    """Writes a share of the requests into a dataset folder, in a background thread.

    Args:
        folder: The folder; created if missing, for this user only.
        share: Share of the requests, in [0, 1].
        on_drop: Called for each request that was drawn and is not written.
        about: What is stored with the rewards, such as the judge.
        chance: Draws the requests.
    """

    def __init__(
        self,
        folder: Path,
        share: float,
        on_drop: Callable[[], None],
        about: Json,
        chance: random.Random = random.Random(),  # noqa: B008
    ) -> None:
        self._folder, self._share, self._about, self._chance = folder, share, about, chance
        self._size, self._rows = 0, 0
        super().__init__("sample of requests", self._store, on_drop, _WAITING)

    def draw(self, edits: Sequence[Edit], results: Sequence[ItemResult]) -> None:
        """Queue a request for writing, if it is drawn and has candidates to compare.

        Args:
            edits: The edits of the request.
            results: The result of each candidate, in order.
        """
        if self._chance.random() < self._share and (sample := self._sample(edits, results)):
            self.put(sample)

    def _sample(self, edits: Sequence[Edit], results: Sequence[ItemResult]) -> Sample | None:
        """Return a row about one of the sources of a request; None without two different judged candidates."""
        alike: dict[tuple[str, ...], tuple[Sequence[RequestImage], dict[str, tuple[RequestImage, float]]]] = {}
        judged = [(edit, candidate) for edit in edits for candidate in edit.candidates]
        for (edit, candidate), result in zip(judged, results, strict=True):
            source, reward = edit.source, result.reward
            if isinstance(source, RequestImage) and isinstance(candidate, RequestImage) and reward is not None:
                given = source, *edit.references
                key = (edit.instruction.strip(), *(image.sha256 for image in given))
                alike.setdefault(key, (given, {}))[1][candidate.sha256] = candidate, reward
        several = [key for key, (_, found) in alike.items() if key[0] and len(found) > 1]
        if not several:
            return None
        key = self._chance.choice(several)
        sources, found = alike[key]
        return key[0], sources, self._chance.sample([*found.values()], min(len(LABELS), len(found)))

    def _store(self, sample: Sample) -> None:
        instruction, given, judged = sample
        if self._rows % _LOOK_AGAIN == 0:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._size = sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())
            if not (self._folder / FEEDBACK_MARKER).exists():  # a line that a crash tore is passed over
                files.write_json(self._folder / FEEDBACK_MARKER, {"format": 1})
        images = [*given, *(candidate for candidate, _ in judged)]
        self._size += sum(len(image.data) for image in images)
        if self._size > MAX_SAMPLE:
            raise OSError(errno.EFBIG, f"it has reached {MAX_SAMPLE >> 20} MiB")
        source, *names = [store_image(self._folder, image.data) for image in images]
        row: dict[str, Any] = {"instruction": instruction, "source": source, "references": names[: len(given) - 1]}
        row["candidates"] = names[len(given) - 1 :]
        row["context"] = {"rewards": [reward for _, reward in judged], **self._about}
        files.append_jsonl(self._folder / (PAIRS if len(judged) == 2 else GROUPS), row)
        self._rows += 1
