"""Agreement of the judge of an arena with another judge, and with votes of people on the same edits."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rewardharness.data.source import Dataset
from rewardharness.editors.choice import Duel
from rewardharness.editors.making import Edits
from rewardharness.editors.result import ArenaAgreement
from rewardharness.errors import ImageError
from rewardharness.files import sha256
from rewardharness.judging.ranking import RatedEditor, comparisons_of, rate_editors
from rewardharness.measure.images import load_picture
from rewardharness.schema import LABELS, TIE, Candidate, ImageInput, Usage

SWAPPED: Mapping[str, str] = {LABELS[0]: LABELS[1], LABELS[1]: LABELS[0], TIE: TIE}
"""Answer about a comparison with its edits in the other order."""


def agreement_with(
    who: str, answers: Sequence[tuple[str, str]], editors: Sequence[RatedEditor], usage: Usage = Usage()
) -> ArenaAgreement:
    """Count agreement.

    Args:
        who: Who gave the second answers.
        answers: Two answers for each comparison that both have answered.
        editors: Ratings by the second answers.
        usage: What these cost.
    """
    decided = [pair for pair in answers if TIE not in pair]
    same, alike = (sum(one == other for one, other in pairs) for pairs in (answers, decided))
    return ArenaAgreement(who, len(answers), same, len(decided), alike, tuple(editors), usage)


def read_votes(
    votes: Dataset,
    tasks: Mapping[str, str],
    duels: Iterable[Duel],
    edits: Edits,
    run: Path,
) -> tuple[dict[str, str], tuple[RatedEditor, ...]]:
    """Find votes on comparisons of an arena: of pairs with its instruction, editors and pixels.

    Args:
        votes: Labeled examples.
        tasks: The instructions of the arena by task.
        duels: Its comparisons.
        edits: Its edits.
        run: Its run folder.

    Returns:
        The answers of people by id of the comparison, and ratings by all votes on these editors.
    """
    names, asked, hashes = {name for name, _ in edits}, set(tasks.values()), dict[tuple[str, str], str]()
    voted: dict[tuple[str, ...], str] = {}
    for example in votes.examples:
        if len(example.candidates) == 2 and example.instruction in asked:
            one, other = map(_pixels, example.candidates)
            for first, second, answer in comparisons_of([example]) if one and other else ():
                voted[example.instruction, first, one, second, other] = answer
                voted[example.instruction, second, other, first, one] = SWAPPED[answer]
    found, known = {}, {key[0] for key in voted}
    for duel in duels:
        if tasks[duel.task] in known:
            for key in ((duel.first, duel.task), (duel.second, duel.task)):
                hashes[key] = hashes.get(key) or _pixels(edits[key].image(run))
            shown = [(name, hashes[name, duel.task]) for name in duel.editors]
            if answer := voted.get((tasks[duel.task], *shown[0], *shown[1]), ""):
                found[duel.id] = answer
    return found, rate_editors(each for each in comparisons_of(votes.examples) if {*each[:2]} <= names)


def _pixels(image: Candidate) -> str:
    """Return a hash of the pixels of an image; empty for what is none or cannot be read."""
    try:
        pixels = load_picture(image).pixels if isinstance(image, ImageInput) else None
    except ImageError:
        return ""
    return "" if pixels is None else f"{pixels.shape} {sha256(pixels.tobytes())}"
