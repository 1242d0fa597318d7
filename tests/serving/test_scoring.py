"""The core without HTTP: sharing, remembering, deadlines, both orders."""

import asyncio
from dataclasses import replace

import pytest
from serving_parts import ONE, SOURCE, TWO, ReadyJudge, picture, reward_of

from rewardharness.files import sha256
from rewardharness.library.store import EMPTY, Library
from rewardharness.schema import Example, Failure, Judgment, Scores
from rewardharness.serving.limits import Limits
from rewardharness.serving.media import RequestImage
from rewardharness.serving.scoring import Edit, Scorer

pytestmark = pytest.mark.anyio


def given(data: bytes) -> RequestImage:
    return RequestImage(data, sha256(data))


def edit(*candidates: bytes) -> Edit:
    return Edit("make it lighter", given(SOURCE), tuple(map(given, candidates or (ONE,))))


def soon() -> float:
    return asyncio.get_running_loop().time() + 10


class Leaning(ReadyJudge):
    """Prefers whoever is shown first, by so much, over what it thinks of the images."""

    def __init__(self, lean: float, fails: int = -1) -> None:
        super().__init__(both_orders=False)
        self.lean = lean
        self.fails = fails

    async def judge(self, example: Example, library: Library) -> Judgment:
        self.asked.append(example)
        if len(self.asked) - 1 == self.fails:
            self.trouble = lambda example: Failure("timeout", "late")
            return await super().judge(example, library)
        judgment = self.answer(example, library)
        lead = judgment.scores["A"].reward - judgment.scores["B"].reward + self.lean
        return replace(
            judgment,
            preference="A" if lead > 0 else "B" if lead < 0 else "tie",
            margin=abs(lead),
            scores={**judgment.scores, "A": Scores(None, 2.0, judgment.scores["A"].reward)},
        )


async def compared(scorer: Scorer, *images: bytes) -> tuple:
    result = await scorer.score(edit(*images), soon(), both_orders=True)
    return result.results, result.comparison


@pytest.mark.parametrize("lean", [0.0, 0.001, 5.0])
async def test_a_lean_to_one_place_cancels_out(lean: float) -> None:
    scorer = Scorer(Leaning(lean), EMPTY, Limits())
    for first, second in ((ONE, TWO), (TWO, ONE)):
        items, comparison = await compared(scorer, first, second)
        difference = reward_of(first) - reward_of(second)
        assert comparison.preference == ("A" if difference > 0 else "B")
        assert comparison.margin == pytest.approx(abs(difference)) and comparison.position_consistent is (lean < 1)
        assert [item.reward for item in items] == [reward_of(first), reward_of(second)]
        assert items[0].margin == pytest.approx(difference)
        assert items[0].scores is not None and items[0].scores.instruction is None


async def test_two_images_that_are_one_are_level() -> None:
    items, comparison = await compared(Scorer(Leaning(0.3), EMPTY, Limits()), ONE, ONE)
    assert (comparison.preference, comparison.ranking, comparison.margin) == ("tie", (("A", "B"),), 0.0)
    assert items[0].ok


@pytest.mark.parametrize("fails", [0, 1])
async def test_half_a_comparison_is_none(fails: int) -> None:
    items, comparison = await compared(Scorer(Leaning(0.0, fails), EMPTY, Limits()), ONE, TWO)
    assert (comparison.preference, comparison.margin) == (None, None)
    assert comparison.error is not None and comparison.error.code == "timeout"
    assert [item.reward for item in items] == [None, None]


async def test_failures_are_asked_again_and_judgments_are_not() -> None:
    failing = ReadyJudge(lambda example: Failure("timeout", "late"))
    scorer = Scorer(failing, EMPTY, Limits())
    for _ in range(3):
        assert (await scorer.judge_edit(edit(), soon())).fault is not None
    failing.trouble = lambda example: None
    outcomes = [await scorer.judge_edit(edit(), soon()) for _ in range(3)]
    assert [outcome.cached for outcome in outcomes] == [False, True, True] and len(failing.asked) == 4


async def test_only_so_many_are_remembered() -> None:
    judge = ReadyJudge()
    scorer = Scorer(judge, EMPTY, Limits(remembered=2))
    for image in (ONE, TWO, ONE, picture(3), ONE, TWO):
        await scorer.judge_edit(edit(image), soon())
    assert [example.candidates[0].data for example in judge.asked] == [ONE, TWO, picture(3), TWO]
    forgetful = Scorer(judge := ReadyJudge(), EMPTY, Limits(remembered=0))
    for _ in range(2):
        await forgetful.judge_edit(edit(), soon())
    assert len(judge.asked) == 2


def test_other_words_other_sources_and_another_order_are_other_questions() -> None:
    same = edit(ONE, TWO)
    others = [replace(same, instruction="x"), replace(same, source=given(ONE)), same.reversed(), edit(ONE)]
    assert len({each.key for each in (same, *others)}) == 5 and replace(same, id="i", group="g").key == same.key


async def test_a_judge_is_told_nothing_but_images_and_instruction() -> None:
    judge = ReadyJudge()
    await Scorer(judge, EMPTY, Limits()).judge_edit(replace(edit(ONE, TWO), id="secret-name", group="secret"), soon())
    assert "secret" not in repr(judge.asked[0])


async def test_no_more_than_allowed_are_judged_at_once() -> None:
    class Counting(ReadyJudge):
        now = most = 0

        async def judge(self, example: Example, library: Library) -> Judgment:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return self.answer(example, library)

    judge = Counting()
    scorer = Scorer(judge, EMPTY, Limits(concurrency=3))
    await scorer.batch([edit(picture(shade)) for shade in range(30)], soon())
    assert judge.most == 3 and scorer.under_way == 0


async def test_a_judge_that_will_not_be_given_up_holds_nobody_up() -> None:
    class Stubborn(ReadyJudge):
        def __init__(self) -> None:
            super().__init__()
            self.free = asyncio.Event()

        async def judge(self, example: Example, library: Library) -> Judgment:
            while not self.free.is_set():
                try:
                    await self.free.wait()
                except asyncio.CancelledError:
                    continue
            return self.answer(example, library)

    judge = Stubborn()
    scorer = Scorer(judge, EMPTY, Limits())
    outcome = await scorer.judge_edit(edit(), asyncio.get_running_loop().time() + 0.01)
    assert outcome.fault is not None and outcome.fault.code == "deadline"
    judge.free.set()
    await scorer.close()


async def test_after_the_end_nothing_is_judged() -> None:
    judge = ReadyJudge()
    scorer = Scorer(judge, EMPTY, Limits())
    await scorer.close()
    outcome = await scorer.judge_edit(edit(), soon())
    assert outcome.fault is not None and outcome.fault.code == "shutting_down"
    assert (judge.asked, judge.closed) == ([], 1)


async def test_a_win_rate_leaves_out_what_was_not_judged() -> None:
    bad = picture(200)
    images = sorted((picture(shade) for shade in (1, 2, 3)), key=reward_of)

    judge = ReadyJudge(
        lambda example: Failure("image", "damaged") if bad in [each.data for each in example.candidates] else None
    )
    result = await Scorer(judge, EMPTY, Limits()).rank(edit(*images, bad), soon(), "win_rate")
    items = result.results
    assert [item.reward for item in items] == [0.0, 0.5, 1.0, None]
    assert [item.comparisons and item.comparisons.judged for item in items] == [2, 2, 2, 0]
    assert items[3].error is not None and items[3].error.code == "image" and result.usage.calls == 3
