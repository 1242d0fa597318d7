"""Generate the demo dataset: edits with known labels, rendered by code or made from photographs of scikit-image.

The labels are not human judgments. They follow from how the candidates are made, which `label_kind` records:

    demo_no_edit     the correct edit against the unchanged source
    demo_over_edit   the correct edit against the same edit with an unrequested change
    demo_wrong_edit  the correct edit against a wrong color, object, direction, location or spelling
    demo_defect      the correct edit against the same edit with a visible defect
    demo_partial     the correct edit against an incomplete edit
    demo_tie         two correct edits
    demo_group       the correct edit among two or three of the others

The editor of the demo data (`paint`) makes the edit as asked, or, in a share of its edits, a known fault.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness import files
from rewardharness.demo import edits, photo_edits, scene_edits
from rewardharness.demo import folder as demo_folder
from rewardharness.demo.edits import Base, KnownEdit, pick
from rewardharness.demo.filters import Picture, Rng, spoil
from rewardharness.demo.folder import in_order
from rewardharness.demo.photos import PHOTOS, SIDE, photo
from rewardharness.demo.scenes import PLACES, Contents, Scene, furnish
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.schema import GROUPS, LABELS, PAIRS, TIE

VERSION = "1"
"""Version of the generator; the same version, seed and counts give the same images."""

_MAKER = demo_folder.MAKER
_ROLES = ("wrong_edit", "over_edit", "no_edit", "defect", "partial")
_TIE_EVERY = 20
_ATTEMPTS = 200

Progress = Callable[[int, int], None]
_SceneEdit = Callable[[Scene, Rng], KnownEdit | None]
_BaseEdit = Callable[[Base, Rng], KnownEdit | None]

_SCENE_EDITS: dict[str, _SceneEdit] = {
    "add": scene_edits.add,
    "remove": scene_edits.remove,
    "replace": scene_edits.exchange,
    "color": scene_edits.recolor,
    "material": scene_edits.remake,
    "background": scene_edits.change_background,
    "text": scene_edits.write,
    "count": scene_edits.count,
    "position": scene_edits.move,
    "pose": scene_edits.turn,
    "other": scene_edits.resize,
}
_CONTENTS: dict[str, Contents] = {"text": "sign", "count": "many"}
"""Contents of the scenes of a category, if not `mixed`."""
_PHOTO_EDITS: dict[str, _BaseEdit] = {
    "add": photo_edits.add,
    "remove": photo_edits.remove,
    "color": photo_edits.recolor,
    "background": photo_edits.change_background,
    "text": photo_edits.write,
}
_WHOLE_EDITS: dict[str, _BaseEdit] = {
    "style": edits.change_style,
    "tone": edits.change_tone,
    "pose": edits.flip,
    "keep": edits.keep,
}
CATEGORIES: tuple[str, ...] = tuple(dict.fromkeys([*_SCENE_EDITS, *_PHOTO_EDITS, *_WHOLE_EDITS]))
"""Edit categories of the dataset, each a member of `EDIT_KINDS`."""


@dataclass(frozen=True)
class _Item:
    """One example to generate."""

    name: str
    case: KnownEdit
    roles: tuple[str, ...]
    """Role of each candidate: `right`, one of `_ROLES`, or `again` for a second correct edit."""
    seed: int


@dataclass(frozen=True)
class _Plan:
    """Parameters of a dataset. Each process derives the same examples from them."""

    path: Path
    pairs: int
    groups: int
    seed: int
    ties: bool
    side: int

    @property
    def made_by(self) -> dict[str, Any]:
        counts = {"pairs": self.pairs, "groups": self.groups, "ties": self.ties}
        counts |= {"side": self.side} if self.side != SIDE else {}
        return {"made_by": _MAKER, "version": VERSION, "seed": self.seed, **counts}


def make_demo(  # noqa: PLR0913  (one argument per setting of the set, and two for the work)
    path: Path,
    *,
    pairs: int = 200,
    groups: int = 20,
    seed: int = 0,
    ties: bool = False,
    replace: bool = False,
    side: int = SIDE,
    workers: int = 1,
    progress: Progress | None = None,
) -> None:
    """Generate the demo dataset in a folder.

    The same version, counts and seed give identical files with the same versions of NumPy, OpenCV, Pillow and
    scikit-image. The better candidate has each position equally often. An interrupted run leaves an incomplete folder;
    running it again completes it. An existing identical dataset is not generated again. Other files are neither
    changed nor removed.

    Args:
        path: An empty or nonexistent folder, or one with the same dataset, complete or not.
        pairs: Number of pairs.
        groups: Number of groups of three and four.
        seed: Random seed, 0 or more.
        ties: Whether about 5% of the pairs have two equally good candidates.
        replace: Delete the folder of another generated dataset, or of this one if it was modified.
        side: Side of the images in pixels, at most `photos.SIDE`, at which they are rendered.
        workers: Number of processes; it does not affect the files.
        progress: Called with the number of finished examples and of all examples.

    Raises:
        InputError: If the folder has other content, its dataset was modified, or a number is out of range.
        MissingPackageError: If scikit-image is not installed.
    """
    if pairs < 0 or groups < 0 or pairs + groups == 0 or seed < 0:
        step = "Use at least one pair or group, and a seed of 0 or more."
        message = f"{pairs} pairs, {groups} groups and seed {seed} are not valid for a demo dataset."
        raise InputError(message, next_step=step)
    plan = _Plan(path, pairs, groups, seed, ties, side)
    lines = generate(path, plan.made_by, partial(_draw, plan), pairs + groups, replace, workers, progress)
    if lines:
        tables = {PAIRS: "".join(lines[:pairs]), GROUPS: "".join(lines[pairs:])}
        demo_folder.finish(path, plan.made_by, {file: text for file, text in tables.items() if text})


def generate(
    path: Path,
    made_by: Mapping[str, Any],
    draw: Callable[[int], str],
    count: int,
    replace_other: bool,
    workers: int,
    progress: Progress | None,
) -> list[str]:
    """Draw the images of the parts of a generated dataset, numbered from 0.

    Returns:
        The lines of the tables, to be given to `folder.finish`; none if the dataset exists.
    """
    if demo_folder.is_there(path, made_by, replace=replace_other):
        return []
    photo("cat")  # checks that the photographs are installed
    demo_folder.begin(path, made_by)
    report = progress or (lambda done, total: None)
    report(0, count)
    lines: list[str] = []
    for line in in_order(draw, range(count), workers):
        lines.append(line)
        report(len(lines), count)
    return lines


def known_edits(pairs: int, groups: int = 0, seed: int = 0) -> tuple[KnownEdit, ...]:
    """Return the edits of a dataset that `make_demo` generates, without drawing them."""
    return tuple(item.case for item in _items(_Plan(Path(), pairs, groups, seed, False, SIDE)))


@lru_cache(maxsize=2)
def _items(plan: _Plan) -> tuple[_Item, ...]:
    """Return all examples of a dataset."""
    counts = (plan.pairs, plan.groups, plan.seed)
    return (*_plan_pairs(*counts, plan.ties), *_plan_groups(*counts))


def _plan_pairs(pairs: int, groups: int, seed: int, ties: bool) -> Iterator[_Item]:
    """Yield all pairs, with the better candidate in each position equally often overall and per label kind."""
    rng = np.random.default_rng([seed, 1])
    used: set[tuple[str, str]] = set()
    chosen: list[tuple[KnownEdit, str]] = []
    for number in range(pairs):
        role = _ROLES[sum(divmod(number, len(CATEGORIES))) % len(_ROLES)]
        if ties and number % _TIE_EVERY == min(_TIE_EVERY, pairs) // 2:
            role = "again"
        fits = partial(_can, role=role)
        chosen.append((find_case(fits, number, rng, used, pairs + groups, seed), role))
    order = sorted(range(pairs), key=lambda index: chosen[index][1])
    first: dict[int, bool] = {}
    decided = [index for index in order if chosen[index][1] != "again"]
    for start in range(0, len(decided), 2):
        coin = bool(rng.integers(2))
        for index, value in zip(decided[start : start + 2], (coin, not coin), strict=False):
            first[index] = value
    for index, (case, role) in enumerate(chosen):
        roles = ("right", role) if first.get(index, True) else (role, "right")
        yield _Item(f"p{index:04d}", case, roles, int(rng.integers(1 << 30)))


def _plan_groups(pairs: int, groups: int, seed: int) -> Iterator[_Item]:
    """Yield all groups, alternating three and four candidates."""
    rng = np.random.default_rng([seed, 2])
    used: set[tuple[str, str]] = set()
    for number in range(groups):
        size = 3 + number % 2
        case = find_case(lambda case: len(ways(case)) >= len(LABELS) - 1, number, rng, used, pairs + groups, seed)
        worse = [str(role) for role in rng.permutation(ways(case))[: size - 1]]
        best = (number // 2) % size
        yield _Item(f"g{number:04d}", case, (*worse[:best], "right", *worse[best:]), int(rng.integers(1 << 30)))


def _can(case: KnownEdit, role: str) -> bool:
    return case.again is not None if role == "again" else role in ways(case)


def ways(case: KnownEdit) -> list[str]:
    """Return the possible roles of worse candidates of an edit."""
    ways = {
        "wrong_edit": bool(case.wrong),
        "over_edit": bool(case.over),
        "no_edit": case.category != "keep",
        "defect": bool(case.defects),
        "partial": case.half_done is not None,
    }
    return [role for role, possible in ways.items() if possible]


def find_case(
    fits: Callable[[KnownEdit], bool], number: int, rng: Rng, used: set[tuple[str, str]], total: int, seed: int
) -> KnownEdit:
    """Return a suitable edit of the next category, or of the first following category that has one."""
    for attempt in range(_ATTEMPTS):
        category = CATEGORIES[(number + attempt // 20) % len(CATEGORIES)]
        case = _make(category, rng, total, seed)
        if case is None or not fits(case):
            continue
        if (case.key, case.instruction) not in used or attempt % 20 > 15:
            used.add((case.key, case.instruction))
            return case
    raise AssertionError(f"no edit was found for example {number}")


def _make(category: str, rng: Rng, total: int, seed: int) -> KnownEdit | None:
    """Generate one edit of a category for a photograph or a scene."""
    # A sketch of dots is not recognizable.
    name = edits.pick([name for name in PHOTOS if category != "style" or name != "stars"], rng)
    if category in _WHOLE_EDITS and (category not in _SCENE_EDITS or rng.random() < 0.35):
        at_photo = rng.random() < 0.6
        base = photo_edits.base_of(name) if at_photo else scene_edits.base_of(_scene("mixed", rng, total, seed), rng)
        return _WHOLE_EDITS[category](base, rng)
    if category in _PHOTO_EDITS and rng.random() < 0.4:
        return _PHOTO_EDITS[category](photo_edits.base_of(name), rng)
    what = _CONTENTS.get(category, "mixed")
    return _SCENE_EDITS[category](_scene(what, rng, total, seed), rng)


def _scene(what: Contents, rng: Rng, total: int, seed: int) -> Scene:
    """Return a random scene. There are about half as many scenes as examples, so most have several edits."""
    place = edits.pick(list(PLACES), rng)
    number = int(rng.integers(max(2, total // 10)))
    first = seed * 300_007 + 100_003 * ("mixed", "sign", "many").index(what)
    return replace(furnish(place, first + number, what), key=f"{place}-{what}-{number}")


def _draw(plan: _Plan, number: int) -> str:
    """Render and write the images of one example; return its table line."""
    items = _items(plan)
    item, case = items[number], items[number].case
    rng = np.random.default_rng([item.seed, 3])
    keys = list(dict.fromkeys(entry.case.key for entry in items[: number + 1]))
    source_file = f"images/s{keys.index(case.key):04d}.jpg"
    source = case.source()
    source_data = encode(source, 95, plan.side)
    if all(entry.case.key != case.key for entry in items[:number]):
        files.write_bytes(plan.path / source_file, source_data)
    wear = float(rng.random())
    quality = int(rng.integers(90, 96)) if wear < 0.85 else int(rng.integers(50, 62))
    grain = 0.0 if wear < 0.5 else float(rng.uniform(0.5, 2.0))
    images, notes, right = [], [], case.right()
    for letter, role in zip(LABELS, item.roles, strict=False):
        picture, note = draw_candidate(case, role, source, right, rng)
        file = f"images/{item.name}_{letter.lower()}.jpg"
        if role == "no_edit" and rng.random() < 0.5:
            data = source_data
        else:
            noise = rng.standard_normal(picture.shape, dtype=np.float32) * grain if grain else 0.0
            data = encode(np.clip(np.round(picture + noise), 0, 255).astype(np.uint8), quality, plan.side)
        files.write_bytes(plan.path / file, data)
        images.append(file)
        notes.append(note)
    row = {"id": item.name, "source": source_file, **_labelled(item, images)}
    row |= {"category": case.category, "source_id": case.key, "candidate_notes": notes}
    row |= {"made_by": {key: plan.made_by[key] for key in ("made_by", "version", "seed")}}
    return json.dumps(row, ensure_ascii=False) + "\n"


def _labelled(item: _Item, images: list[str]) -> dict[str, Any]:
    """Return the candidates and the label of one example for its row."""
    instruction = item.case.instruction
    if len(images) > 2:
        best = item.roles.index("right")
        return {"candidates": images, "instruction": instruction, "best": best, "label_kind": "demo_group"}
    tie = "again" in item.roles
    kind = "tie" if tie else next(role for role in item.roles if role != "right")
    preference = TIE if tie else LABELS[item.roles.index("right")]
    row = {"candidate_a": images[0], "candidate_b": images[1], "instruction": instruction}
    return row | {"preference": preference, "label_kind": f"demo_{kind}"}


def draw_candidate(case: KnownEdit, role: str, source: Picture, right: Picture, rng: Rng) -> tuple[Picture, str]:
    """Return the image of one candidate and its description. Roles are `right`, `again`, and those of `ways`."""
    if role == "right":
        return right, "the edit as asked"
    if role == "again" and case.again is not None:
        return case.again(), "the edit as asked, done in another way"
    if role == "no_edit":
        return source, "the source, not edited"
    if role == "partial" and case.half_done is not None:
        return case.half_done(), "the edit done in part"
    if role == "defect":
        defect = edits.pick(sorted(case.defects), rng)
        return spoil(source, right, defect, rng), f"the edit as asked, with a defect: {defect}"
    what, draw = edits.pick(case.wrong if role == "wrong_edit" else case.over, rng)
    return draw(), f"{'another edit' if role == 'wrong_edit' else 'the edit as asked, and more'}: {what}"


def encode(picture: Picture, quality: int, side: int = SIDE) -> bytes:
    """Return an image as JPEG."""
    if side != SIDE:
        picture = cv2.resize(picture, (side, side), interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(".jpg", np.ascontiguousarray(picture[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return bytes(data)


Gray = npt.NDArray[np.float32]
_KNOWN = 100
"""Number of pairs of the dataset `demo`, whose edits are known."""
_SIDE = 32
_LIKE = 12.0
"""Mean difference of gray values, of 255, up to which two small images show the same."""


def paint(pixels: Picture, instruction: str, faulty: float, seed: int) -> tuple[Picture, str]:
    """Edit a source image of the demo data.

    Args:
        pixels: The image, of any size.
        instruction: An instruction of the demo data; more text may follow it.
        faulty: Probability of a fault, in [0, 1].
        seed: Seed; the same seed gives the same edit.

    Returns:
        The edited image in the size of the demo data, and its role: `right`, or the kind of fault.

    Raises:
        InputError: If the demo data have no such image with this instruction.
    """
    case = _case_of(pixels, instruction)
    key = content_id([case.key, case.instruction, seed])
    rng = np.random.default_rng(int(key[:16], 16))
    role = pick(ways(case), rng) if rng.random() < faulty else "right"
    picture, _ = draw_candidate(case, role, case.source(), case.right(), rng)
    return picture, role


def _case_of(pixels: Picture, instruction: str) -> KnownEdit:
    small = _small(pixels)
    for number, case in enumerate(known_edits(_KNOWN)):
        if instruction.startswith(case.instruction) and np.abs(_source(number) - small).mean() < _LIKE:
            return case
    step = f"Use it with the data `demo`, or their first {_KNOWN} pairs."
    raise InputError("The painter knows only the images and instructions of the demo data.", next_step=step)


@lru_cache(maxsize=_KNOWN)
def _source(number: int) -> Gray:
    return _small(known_edits(_KNOWN)[number].source())


def _small(pixels: Picture) -> Gray:
    gray = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(gray, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), dtype=np.float32)
