"""Rewards from a judge in this process, in the form in which a reward server gives them."""

from collections.abc import Sequence

from rewardharness.errors import ImageError, InputError
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.judge import Judge, with_ungradable
from rewardharness.library.store import Library
from rewardharness.schema import Candidate, Example, FramesInput, ImageInput, Judgment, TextInput
from rewardharness.serving.client_wire import Ask, EncodedMedia, Reward, encode_media, encode_sources, instruction_text


class InProcessRewards:
    """Scores edits with a judge and a Library, without a server.

    Args:
        judge: The judge.
        library: The Library.
        allow_ungradable: Whether an edit whose instruction the judge cannot grade gets a reward of low confidence.
    """

    def __init__(self, judge: Judge, library: Library, *, allow_ungradable: bool = False) -> None:
        self.judge, self.library, self.allow_ungradable = judge, library, allow_ungradable

    def score(self, asks: Sequence[Ask]) -> list[Reward]:
        """Score edits, each alone; one reward per edit, in order."""
        found: dict[int, Reward] = {}
        examples: list[Example] = []
        for index, ask in enumerate(asks):
            try:
                text = instruction_text(ask.instruction)
                sources = [
                    _media(f"image {number}", each)
                    for number, each in enumerate(encode_sources(ask.source, ask.references), 1)
                ]
                candidate = _media("the edited image", encode_media(ask.edited, "the edited image"))
            except InputError as error:
                found[index] = Reward.none("image" if isinstance(error, ImageError) else "input", error.message)
                continue
            source = next((each for each in sources if not isinstance(each, TextInput)), None)
            references = tuple(each for each in sources[1:] if isinstance(each, ImageInput))
            examples.append(Example(str(index), text, source, (candidate,), references=references))
        for example, judgment in evaluate(self.judge, self.library, examples, concurrency=self.judge.concurrency):
            found[int(example.id)] = _reward(with_ungradable(judgment) if self.allow_ungradable else judgment)
        return [found[index] for index in range(len(asks))]

    def close(self) -> None:
        """There is nothing to close."""


def _media(name: str, encoded: EncodedMedia) -> Candidate:
    if isinstance(encoded, str):
        return TextInput(name, encoded)
    if isinstance(encoded, tuple):
        return FramesInput(name, tuple(ImageInput(name, data=frame) for frame in encoded))
    return ImageInput(name, data=encoded)


def _reward(judgment: Judgment) -> Reward:
    scores = judgment.scores.get("A")
    if judgment.failure is not None or scores is None:
        failure = judgment.failure
        return Reward.none(*((failure.code, failure.message) if failure else ("missing", "There is no score.")))
    if scores.reward is None:
        return Reward.none("not_gradable", "No measurement shows whether the instruction was followed.")
    return Reward(
        scores.reward,
        instruction=scores.instruction,
        quality=scores.quality,
        confidence=judgment.confidence,
        variance=scores.variance,
    )
