import json
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest
from hostile import HOSTILE, HOSTILE_DOCUMENT, read_own

from app.failures import failure
from app.score import model_views
from app.score.comparisons import ModelRun, OrderProgress
from app.score.judges import ENDPOINT, ENVIRONMENT, GEMINI, HUGGING_FACE, Spent
from app.viewer import chain_views
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig
from rewardharness.judging.presentation import PresentationOrder
from rewardharness.models.base import ErrorCode, ModelError, Reply
from rewardharness.models.probe import Probe
from rewardharness.models.wire import Capabilities
from rewardharness.schema import TIE, ChainStep, Failure, Judgment, Scores, Usage


def answer(preference: str, labels: str = "AB") -> ChainStep:
    scores = {label: {"instruction": 4 if label == preference else 2, "quality": 3} for label in labels}
    return ChainStep("answer", json.dumps({"preference": preference, "scores": scores}))


FIRST = OrderProgress(
    PresentationOrder(("A", "B")),
    (
        ChainStep("think", "Shown as: A as A, B as B."),
        ChainStep("think", "I look at the **suit**."),
        ChainStep("tool", json.dumps({"name": "change-map", "images": ["source", "A"], "query": "where"})),
        ChainStep("obs", json.dumps({"A": {"grade": None, "says": "Half was edited."}})),
        ChainStep("think", "B is better."),
        answer("B"),
    ),
)
SECOND = OrderProgress(PresentationOrder(("B", "A")), (ChainStep("think", "Shown as: B as A, A as B."), answer("A")))
RUN = ModelRun(ModelJudgeConfig(), (FIRST, SECOND), Spent(Usage(3, 12345, 678, 4.2)))
JUDGED = Judgment(
    "x",
    "vllm:m",
    "chain, both orders",
    "0123456789abcdef",
    preference="B",
    ranking=(("B",), ("A",)),
    margin=1.0,
    confidence=1.0,
    scores={"A": Scores(2, 3, 0.5), "B": Scores(4, 3, 0.8)},
    position_consistent=True,
)
EVIL_SEEN = OrderProgress(
    PresentationOrder(("A", "B")),
    (
        ChainStep("think", HOSTILE_DOCUMENT),
        ChainStep("tool", json.dumps({"name": HOSTILE, "images": [HOSTILE], "query": HOSTILE})),
        ChainStep("obs", json.dumps({HOSTILE: HOSTILE, "A": {"says": HOSTILE}, "B": {HOSTILE: {HOSTILE: 1}}})),
        ChainStep("obs", HOSTILE),
        ChainStep("answer", json.dumps({"preference": HOSTILE, "scores": {HOSTILE: {HOSTILE: HOSTILE}}})),
        ChainStep("answer", json.dumps({HOSTILE: HOSTILE})),
        ChainStep("answer", json.dumps({"odds": {HOSTILE: HOSTILE}})),
        ChainStep("answer", HOSTILE),
    ),
)
EVIL_RUN = replace(RUN, showings=(EVIL_SEEN,))


def shown(markup: str) -> str:
    return read_own(markup).text


@pytest.mark.parametrize(
    "view",
    [
        lambda: chain_views.showings((EVIL_SEEN,), live=True),
        lambda: chain_views.showings((EVIL_SEEN,), live=False),
        lambda: model_views.judge_line(ENDPOINT, HOSTILE, local=True),
        lambda: model_views.verdict(replace(JUDGED, preference=HOSTILE, notes=(f"same image {HOSTILE}",)), EVIL_RUN),
        lambda: model_views.reasons(replace(JUDGED, reasons=(HOSTILE,)), EVIL_RUN),
        lambda: model_views.reasons(JUDGED, EVIL_RUN),
        lambda: model_views.checked((Probe(HOSTILE, Capabilities(models=(HOSTILE,))),)),
        lambda: model_views.checked((Probe("a", None, ModelError("server_error", HOSTILE)),)),
        lambda: model_views.unchecked(ModelError("timeout", HOSTILE, next_step=HOSTILE)),
        lambda: failure(Failure("unreachable", HOSTILE), own_judge=False),
    ],
)
def test_what_a_model_says_stays_text_in_every_view(view: Callable[[], str]) -> None:
    read_own(view())


def test_a_showing_tells_in_the_candidates_own_letters() -> None:
    text = shown(chain_views.showings((FIRST, SECOND), live=False))
    assert "A first, then B answered" in text and "B first, then A answered" in text
    assert "Calls change-map on source, A: “where”" in text and "A Half was edited." in text
    assert text.count("Prefers candidate B.") == 2, "the second model said A, and meant B"
    assert "In this order the model calls candidate B “A” and candidate A “B”." in text and "Shown as" not in text
    assert "B: instruction 4, quality 3." in text
    assert read_own(chain_views.showings((FIRST,), live=False)).tags.count("strong") == 4  # its Markdown is rendered


def test_a_showing_under_way_says_what_is_awaited() -> None:
    begun, calling = replace(FIRST, steps=()), replace(FIRST, steps=FIRST.steps[:3])
    assert "thinking …" in shown(chain_views.showings((begun,), live=True))
    assert "running change-map …" in shown(chain_views.showings((calling,), live=True))
    assert "no answer" in shown(chain_views.showings((calling,), live=False))


def test_showings_of_one_candidate_and_of_several_samples_are_named() -> None:
    alone = OrderProgress(
        PresentationOrder(("C",)), (ChainStep("answer", '{"candidate": "C", "instruction": 3}', subject="C"),)
    )
    text = shown(chain_views.showings((alone,), live=False))
    assert "Candidate C only answered" in text and "Gives instruction 3." in text
    samples = tuple(replace(FIRST, showing=PresentationOrder(("A", "B"), number)) for number in range(2))
    assert "A first, then B · sample 2" in shown(chain_views.showings(samples, live=False))
    odds = replace(FIRST, steps=(ChainStep("answer", '{"odds": {"A": 0.25, "B": 0.75}}'),))
    assert "Odds: A 0.25, B 0.75." in shown(chain_views.showings((odds,), live=False))


def test_long_thoughts_are_folded_only_at_the_end() -> None:
    long = replace(FIRST, steps=(ChainStep("think", "word " * 400),))
    tags = [read_own(chain_views.showings((long,), live=live)).tags.count("details") for live in (True, False)]
    assert tags == [0, 1]


def test_the_verdict_says_whether_order_mattered_and_what_it_took() -> None:
    text = shown(model_views.verdict(JUDGED, RUN))
    assert "People would most likely prefer B." in text and "preferred B over A in every query" in text
    assert "The answer is the same in both presentation orders." in text and "trust it little" not in text
    assert "4 s · 3 calls · 12,345 tokens in · 678 tokens out · cost unknown: no price is set" in text


def test_an_answer_that_changed_with_the_order_is_not_to_be_trusted() -> None:
    torn = replace(JUDGED, preference=TIE, ranking=(("A", "B"),), margin=0.0, position_consistent=False)
    text = shown(model_views.verdict(torn, RUN))
    assert "The judge was inconsistent." in text and "cancel out" in text and "level" not in text
    assert "no difference" not in text and "The answers differ" in shown(model_views.reasons(torn, RUN))
    leaning = replace(JUDGED, margin=0.1, position_consistent=False)
    assert "The answer changed with the order, so trust it little" in shown(model_views.verdict(leaning, RUN))
    several = replace(RUN, how=ModelJudgeConfig(samples=3))
    assert "not the same in all orders and samples" in shown(model_views.verdict(leaning, several))


@pytest.mark.parametrize(
    ("protocol", "consistent", "words"),
    [
        ("chain", None, "Only one presentation order was used, so position consistency is unknown."),
        ("logprob", True, "The probabilities favor B over A by 0.40"),
        (
            "pointwise",
            None,
            "B leads A by 0.40 in reward, which runs from 0 to 1. Each candidate was judged separately",
        ),
        ("direct", True, "B leads A by 0.40, where 1 means preferred in every query."),
    ],
)
def test_a_lead_means_something_else_in_each_protocol(protocol: str, consistent: bool | None, words: str) -> None:
    run = replace(RUN, how=ModelJudgeConfig(protocol=protocol))  # type: ignore[arg-type]
    judgment = replace(JUDGED, margin=0.4, position_consistent=consistent)
    assert words in shown(model_views.verdict(judgment, run))


@pytest.mark.parametrize(
    ("spent", "words"),
    [
        (Spent(Usage(2, 1_000_000, 0), price=(1.5, 9.0)), "about $1.50"),
        (Spent(Usage(2, 1000, 10), price=(1.0, 1.0)), "about $0.0010"),
        (Spent(Usage(2, 1000, 10), price=(0.0, 0.0)), "free of charge"),
        (Spent(Usage(2, 0, 0), price=(1.0, 1.0)), "cost unknown: the server does not count tokens"),
        (Spent(Usage(seconds=0.1), 2), "no calls · 2 answers were cached and free"),
        (
            Spent(Usage(1, 5, 5), 1),
            "5 tokens out · cost unknown: no price is set · 1 answer was cached",
        ),
    ],
)
def test_what_it_took_in_words(spent: Spent, words: str) -> None:
    assert words in shown(model_views.stopped(replace(RUN, spent=spent)))


def test_stopping_without_a_model_says_only_that() -> None:
    assert shown(model_views.stopped(None)) == "StoppedNothing was judged. Your images are still here."


@pytest.mark.parametrize("code", [*get_args(ErrorCode), "no_answer", "truncated", "no_logprobs", "no_criteria"])
def test_every_trouble_with_a_model_has_a_name_and_a_remedy(code: str) -> None:
    mine, theirs = failure(Failure(code, "It said so.")), failure(Failure(code, ""), own_judge=False)
    assert "There is no judgment" not in shown(mine) and "never counted as a tie" in shown(mine)
    assert "It said so." in shown(mine) and 'class="remedy"' in mine
    assert "Ask the owner of this app to correct it" in shown(theirs)


def test_the_check_says_what_works_and_what_to_mend() -> None:
    good = shown(model_views.checked((Probe("host:1", Capabilities(models=("m",), max_model_len=32768)),)))
    assert "host:1 answers" in good and "The model sees images." in good and "Models: m." in good
    poor = Capabilities(vision=False, schema=False, logprobs=False, max_model_len=4096)
    bad = shown(model_views.checked((Probe("host:1", poor),)))
    assert "does not see images" in bad and "--limit-mm-per-prompt" in bad and "Logprob is not available" in bad
    assert "--max-model-len 32768" in bad and "does not list its models" in bad
    refused = shown(model_views.checked((Probe("h", None, ModelError("unauthorized", "h answered 401.")),)))
    assert "Correct the key above." in refused
    assert "The model answers in 0.50 seconds" in shown(model_views.checked(Reply("yes", seconds=0.5)))


def test_every_protocol_is_told_in_one_sentence() -> None:
    choices = model_views.protocol_choices()
    assert tuple(name for _, name in choices) == PROTOCOLS
    assert all(label.count("\n") == 1 and label.endswith(".") and label.count(".") == 1 for label, _ in choices)


@pytest.mark.parametrize("kind", [ENDPOINT, ENVIRONMENT, GEMINI, HUGGING_FACE])
def test_it_is_said_where_the_pictures_go(kind: str) -> None:
    assert "sends the images and the instruction to" in shown(model_views.judge_line(kind, "x", local=False))
