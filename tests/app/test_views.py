"""What the Score tab, the Library tab and the Vote tab say, and that foreign text in it stays text."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hostile import HOSTILE, HOSTILE_DOCUMENT, read_own, says
from PIL import Image

from app.benchmark import views as benchmark_views
from app.failures import error_message, failure, in_browser
from app.library import hub_views
from app.library import views as library_views
from app.score import model_views, views
from app.score.comparisons import ModelRun, OrderProgress, recorded_orders
from app.score.judges import ENDPOINT, ENVIRONMENT, GEMINI, HUGGING_FACE, AnswerCost
from app.viewer import chain_views
from app.vote import page as vote_page
from app.vote.feedback import Stored
from app.vote.service import Ballot, Cast
from rewardharness.certainty import CalibratedBy
from rewardharness.critique import Critique
from rewardharness.editors.report import ArenaAgreement, ArenaResult, EditCounts
from rewardharness.errors import Description
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig
from rewardharness.judging.presentation import PresentationOrder
from rewardharness.judging.ranking import RatedEditor
from rewardharness.judging.router import route
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.hub import ClaimedResult, ListedLibrary
from rewardharness.library.problems import Problem
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library
from rewardharness.models.base import ErrorCode, ModelError, Reply
from rewardharness.models.probe import Probe
from rewardharness.models.wire import Capabilities
from rewardharness.schema import (
    TIE,
    ChainStep,
    Example,
    Failure,
    ImageInput,
    Interval,
    Judgment,
    RoutedEntry,
    Scores,
    Usage,
)


def png(color: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), color).save(buffer, "PNG")
    return buffer.getvalue()


PLAIN = Judgment(
    "x",
    "measured (no VLM)",
    "measured",
    "0123456789abcdef",
    preference="B",
    ranking=(("B",), ("A",)),
    margin=0.21,
    confidence=0.6,
    scores={"A": Scores(2.0, 3.0, 0.5), "B": Scores(3.5, None, 0.71)},
    entries=(RoutedEntry("color-change", "skill", "always"),),
    steps=(
        ChainStep("think", "The instruction is short."),
        ChainStep("tool", json.dumps({"name": "change-map", "images": ["source", "A"]}), subject="A"),
        ChainStep("obs", json.dumps({"grade": 0.25, "share": 0.5, "says": "Half was edited."}), png("red"), "A"),
        ChainStep("tool", json.dumps({"name": "noise", "images": ["source", "B"]}), subject="B"),
        ChainStep("obs", "no JSON at all", png("blue"), "B"),
        ChainStep("think", "B: weighed.", subject="B"),
        ChainStep("answer", "{}"),
    ),
    reasons=(
        "A lacks the color; B has it. Color target of B: It is blue. Color target of A: It is red.",
        "Something else.",
    ),
    notes=("A: turned upright.",),
    position_consistent=True,
    usage=Usage(seconds=1.25),
)

EVIL = replace(
    PLAIN,
    judge=HOSTILE,
    library_id=HOSTILE,
    entries=(RoutedEntry(HOSTILE, "tool", HOSTILE),),
    steps=(
        ChainStep("think", HOSTILE),
        ChainStep("tool", json.dumps({"name": HOSTILE}), subject="A"),
        ChainStep("obs", json.dumps({HOSTILE: HOSTILE, "says": HOSTILE, "grade": HOSTILE}), subject="A"),
        ChainStep("obs", json.dumps({"says": HOSTILE, "grade": 10**400, "share": 10**400}), subject="A"),
        ChainStep("obs", HOSTILE, subject="A"),
        ChainStep("think", HOSTILE, subject="A"),
    ),
    reasons=(HOSTILE, f"{HOSTILE}. Noise of B: {HOSTILE} Noise of A: {HOSTILE}"),
    notes=(HOSTILE, f"No OCR {HOSTILE}", f"{HOSTILE} same image"),
)


EDITS = tuple(ImageInput(HOSTILE, data=b"x", editor=HOSTILE) for _ in range(3))
EVIL_ARENA = ArenaResult(
    editors=(RatedEditor(HOSTILE, 1000.0, Interval(900, 1100), 1.0, 2, 1),),
    categories={HOSTILE: (RatedEditor(HOSTILE, 1000.0, Interval(900, 1100), 1.0, 2, 1),)},
    edits={HOSTILE: EditCounts(1, 1, HOSTILE)},
    n=2,
    judged=1,
    choice="active",
    judge={"judge": HOSTILE},
    data=HOSTILE,
    failures={HOSTILE: 1},
    agreements=(ArenaAgreement(HOSTILE, 1, 1, 0, 0, ()),),
)
HOSTILE_BALLOT = Ballot(Example(HOSTILE, HOSTILE, EDITS[0], EDITS[1:]), 1, 2, frozenset())
HOSTILE_CAST = Cast(HOSTILE_BALLOT, (("A",), ("B",)), Stored(HOSTILE, HOSTILE))


CLAIMED = ClaimedResult(0.5, 10, 0.2, 0.8, HOSTILE, HOSTILE, True)
FOREIGN = ListedLibrary("ann/odd", "v1.0.0", HOSTILE, 1, 2, None, True, CLAIMED, 0.3)


def test_the_verdict_names_the_winner_how_sure_and_what_stands_next_to_it() -> None:
    untested = "Lead. How often verdicts with this judge and Library are right has not been tested."
    says(views.verdict(PLAIN), "People would most likely prefer B.", f"{untested} Reward: A 0.50, B 0.71.")
    scores = dict.fromkeys("ABCD", Scores(2.0, 3.0, 0.5))
    says(views.verdict(replace(PLAIN, scores=scores, confidence=0.9)), "Clear lead. How often verdicts on four edits")
    tested = replace(PLAIN, confidence=0.866, calibration=CalibratedBy("all kinds", 557, False, "id"))
    says(views.verdict(tested), "Verdicts like this one were right 87% of the time (557 tested). Reward: A 0.50, B")
    says(views.verdict(replace(tested, calibration=CalibratedBy("color", 9, True, "id", None, False))), "of another")
    level = replace(PLAIN, preference=TIE, ranking=(("A", "B"), ("C",)), margin=0.0)
    says(views.verdict(level), "A and B are level.")
    says(views.verdict(replace(PLAIN, preference=TIE, margin=0.004)), "Too close to call.", "only 0.004")
    notes = ("A: turned upright.", "A and B are the same image.", "No OCR: text in the images was not read.")
    noted = views.verdict(replace(PLAIN, notes=notes))
    says(noted, "same image", "reward-harness-library[ocr]", no=["upright"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Check the network, then run the same command again.", "Check the network, then try again."),
        ("Run the same command again later.", "Try again later."),
        ("Judge with a model: --judge vllm:NAME@URL or openai:NAME@URL.", "Choose a model under Judge."),
        ("Use --judge vllm:NAME@URL, or add a rubric.", "Choose a model under Judge, or add a rubric."),
        ("Use it, or a model: --judge vllm:NAME@URL.", "Use it, or choose a model under Judge."),
        ("The price is unknown (--price).", "The price is unknown."),
    ],
)
def test_the_page_says_what_to_do_in_the_page(text: str, words: str) -> None:
    assert in_browser(text) == words


@pytest.mark.parametrize(
    "note",
    [
        "A: has several frames; only the first is used",
        "Candidate A: an animation, of which only the first frame is judged and shown.",
        "B does not show the scene of the source; both of its scores are low for that.",
        "The pixel-based judge reads English, and the instruction appears to be in another language.",
        "Whether the requested pose edit was done cannot be measured; the judgment has low confidence.",
    ],
)
def test_what_limits_a_verdict_stands_beside_it(note: str) -> None:
    assert 'class="callout warning"' in views.verdict(replace(PLAIN, notes=(note,)))
    assert 'class="callout warning"' in model_views.verdict(replace(JUDGED, notes=(note,)), RUN)


def test_a_single_candidate_has_a_reward_and_its_faults_and_no_comparison() -> None:
    fault = Critique(("The edit added noise. Noise of 23.2 gray levels.",), "")
    alone = replace(
        PLAIN, preference=None, ranking=(("A",),), margin=None, scores={"A": Scores(2, 3, 0.5)}, reasons=(),
        critiques={"A": fault},
    )  # fmt: skip
    says(views.verdict(alone), "Reward 0.50 of 1.", "there is no comparison", no=["prefer", "right"])
    says(views.reasons(alone), "Why", "The edit added noise.", "23.2 gray levels", no=["separates"])
    says(model_views.verdict(alone, RUN), "Reward 0.50 of 1.", "there is no comparison", no=["finds no difference"])
    scores, failed = {"A": Scores(None, 3, None)}, Failure("not_gradable", "x")
    unknown = replace(alone, scores=scores, failure=failed, notes=("It cannot be measured.",))
    says(views.verdict(unknown), "Reward: not measurable.", "It cannot be measured.", no=["0.00", "tie"])
    scores = dict.fromkeys("ABC", Scores(2, 3, 0.5))
    groups = replace(PLAIN, scores=scores, critiques={"B": Critique((), ""), "C": fault})
    says(views.reasons(groups), "A lacks the color", "BNo fault was measured.", "CThe edit added noise.")
    rated = replace(RUN, how=ModelJudgeConfig(protocol="pointwise"), showings=tuple(
        OrderProgress(PresentationOrder((label,)), (ChainStep("think", f"{label} is blurred."),)) for label in "AB"
    ))  # fmt: skip
    says(model_views.reasons(replace(JUDGED, reasons=()), rated), "A is blurred.", "B is blurred.")


def test_what_is_understood_of_an_instruction_is_said() -> None:
    assert views.understood(" ") == ""
    says(views.understood("Make the car red."), "color of car → red, rest unchanged")
    says(views.understood("Hello"), "Nothing specific was understood")
    read_own(views.understood(f"Make {HOSTILE} red."))


def test_failures_are_shown_by_name() -> None:
    for code, title in (
        ("image", "One of the images cannot be used"),
        ("nothing_to_measure", "This Library has no criteria for this instruction"),
        ("new-code", "There is no judgment"),
    ):
        failed = replace(PLAIN, preference=None, failure=Failure(code, "Candidate A is damaged."))
        says(views.verdict(failed), title, "Candidate A is damaged.", "never counted as a tie")


def test_scores_reasons_entries_and_notes() -> None:
    scores, markup = read_own(views.score_table(PLAIN)).text, views.reasons(PLAIN)
    assert scores.index("3.5") < scores.index("2.0"), "best first"
    says(views.score_table(PLAIN), "not measured", "0.71", "Instruction following: whether the edit does")
    assert markup.index("<details><summary>A lacks the color") < markup.index("</summary>") < markup.index("It is red")
    says(markup, "It is blue.", "It is red.", "Something else.", no=["Color target of"])
    says(views.consulted(PLAIN), "color-changeSkillalways")
    says(views.consulted(replace(PLAIN, entries=())), "No entry")
    notes = views.notes(PLAIN, "the built-in Library")
    says(notes, "turned upright", "the built-in Library", "the answer is the same", "Protocol: measured")


def test_the_steps_and_pictures_of_a_candidate_are_its_own_and_long_steps_are_folded() -> None:
    says(chain_views.candidate_steps(PLAIN, "A"), "change map grade 0.25", "Half was edited.", no=["noise"])
    says(chain_views.candidate_steps(PLAIN, "B"), "noise", "no JSON at all", "B: weighed.")
    [(picture, tool)] = chain_views.pictures(PLAIN, "A")
    assert tool == "change-map" and picture.getpixel((0, 0)) == (255, 0, 0)
    reader = read_own(chain_views.overall_steps(replace(PLAIN, steps=(ChainStep("think", "word " * 100),))))
    assert reader.tags.count("details") == 1


def test_feedback_says_where_it_went_and_how_many_there_are() -> None:
    here = views.feedback_stored("A", Stored("/home/x/feedback", count=2), lasting=True)
    says(here, "/home/x/feedback, which now holds 2 examples")
    in_space = views.feedback_stored(TIE, Stored("/home/x/feedback", count=1), lasting=False)
    says(in_space, "until it restarts", "1 example.", no=["/home"])


RUBRIC = Rubric((Criterion("done", "Is it done?", 3.0), Criterion("whole", "Is it whole?", measure="noise")))
COLORS = {"triggers": "colour, /re[d]+/"}
SKILL = Entry("color-change", "skill", "How to judge colours.", "# Colours\n\nLook.", COLORS, rubric=RUBRIC)
TOOL = Entry("noise-meter", "tool", "Measures noise.", "Call it.", {"triggers": "always"}, measure="noise")
PROMPTED = Entry(
    "reader", "tool", "Reads the text that is in a picture.", system_prompt="Read.", output_schema={"text": "string"}
)
LIBRARY = Library((SKILL, TOOL, PROMPTED))
EVIL_ENTRY = Entry(
    "evil",
    "tool",
    HOSTILE,
    HOSTILE_DOCUMENT,
    {"triggers": "<script>, always"},
    system_prompt=HOSTILE,
    measure=HOSTILE,
    input_schema={HOSTILE: HOSTILE},
    rubric=Rubric((Criterion("x", HOSTILE, measure=HOSTILE),)),
)
EVIL_LIBRARY = Library((EVIL_ENTRY,))


@pytest.mark.parametrize(
    "view",
    [
        lambda: views.judge_line(HOSTILE, local=True),
        lambda: views.about_judge(True),
        lambda: views.about_judge(False),
        lambda: error_message(Description(HOSTILE, HOSTILE, HOSTILE)),
        lambda: failure(Failure(HOSTILE, HOSTILE)),
        lambda: views.verdict(EVIL),
        lambda: views.verdict(replace(EVIL, failure=Failure("image", HOSTILE))),
        lambda: views.score_table(EVIL),
        lambda: views.reasons(EVIL),
        lambda: chain_views.overall_steps(EVIL),
        lambda: chain_views.candidate_steps(EVIL, "A"),
        lambda: views.consulted(EVIL),
        lambda: views.notes(EVIL, HOSTILE),
        lambda: views.feedback_stored("A", Stored(HOSTILE, HOSTILE), lasting=True),
        lambda: views.feedback_hint(HOSTILE, repo=None, lasting=True),
        lambda: views.feedback_hint("", repo=HOSTILE, lasting=True),
        lambda: hub_views.gallery([], HOSTILE),
        lambda: vote_page.about(HOSTILE, HOSTILE, lasting=True),
        lambda: vote_page.revealed(HOSTILE_CAST, None, lasting=True),
        lambda: vote_page.question(HOSTILE_CAST.ballot),
        lambda: vote_page.leaderboard([RatedEditor(HOSTILE, 1000.0, Interval(900, 1100), 1.0, 2, 1)]),
        lambda: benchmark_views.arenas([(Path("/runs"), EVIL_ARENA)]),
        lambda: library_views.summary(EVIL_LIBRARY, HOSTILE),
        lambda: library_views.entry_head(EVIL_ENTRY),
        lambda: library_views.entry_document(EVIL_ENTRY),
        lambda: library_views.entry_rubric(EVIL_ENTRY),
        lambda: library_views.entry_tool(EVIL_ENTRY),
        lambda: library_views.routed(route(EVIL_LIBRARY, HOSTILE), EVIL_LIBRARY),
        lambda: library_views.problems([Problem("error", HOSTILE, 3, HOSTILE, HOSTILE)]),
        lambda: library_views.differences(diff_libraries(Library(), EVIL_LIBRARY), HOSTILE, HOSTILE),
        lambda: library_views.differences(
            diff_libraries(EVIL_LIBRARY, Library((replace(EVIL_ENTRY, body=HOSTILE, metadata={"k": HOSTILE}),)))
        ),
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
def test_foreign_text_stays_text_in_every_view(view: Callable[[], str]) -> None:
    assert read_own(view()).text


def test_the_list_of_entries_is_searched_by_all_words() -> None:
    assert [name for _, name in library_views.entry_choices(LIBRARY, "")] == ["color-change", "noise-meter", "reader"]
    assert [name for _, name in library_views.entry_choices(LIBRARY, "TOOL noise")] == ["noise-meter"]
    assert library_views.entry_choices(LIBRARY, "noise colours") == []
    [(label, _)] = library_views.entry_choices(LIBRARY, "colours")
    assert label.split("\n") == ["color-change", "Skill · on colour, /re[d]+/", "How to judge colours."]


def test_an_entry_says_when_it_applies_how_it_is_weighed_and_what_it_runs() -> None:
    says(library_views.entry_head(SKILL), "colour", "1 expression")
    says(library_views.entry_head(TOOL), "every instruction")
    says(library_views.entry_head(PROMPTED), "names no triggers")
    says(library_views.entry_rubric(SKILL), "75%", "25%", "VLM only", "noise")
    says(library_views.entry_rubric(TOOL), "No rubric")
    says(library_views.entry_tool(TOOL), "How much noise the edit added.")
    says(library_views.entry_tool(PROMPTED), "System prompt", '"text"')
    says(library_views.entry_tool(replace(TOOL, measure="no-such")), "no such measure")


def test_routing_says_which_and_why() -> None:
    told = library_views.routed(route(LIBRARY, "Make the car red."), LIBRARY)
    left = "decides itself on entries without triggers: reader. 0 of them"  # a word of its description is missing
    says(told, "2 of 3 entries", "the instruction says 'red'", left)
    one = Library((SKILL,))
    says(library_views.routed(route(one, "hello"), one), "No entry would be consulted")


def test_problems_are_listed_gravest_first_and_differences_line_by_line() -> None:
    problems = Problem("note", "b", None, "Odd."), Problem("error", "a", 4, "Broken.", "Mend it.")
    found = library_views.problems(problems)
    says(found, "a:4", "Mend it.", "1 error, 1 note")
    assert read_own(found).text.index("Broken.") < read_own(found).text.index("Odd.")
    says(library_views.problems(()), "Nothing to complain about")
    changed = Library((replace(SKILL, body="# Colours\n\nLook twice."), PROMPTED))
    told = library_views.differences(diff_libraries(LIBRARY, changed), "old", "new")
    says(told, "0 added, 1 removed, 1 changed", "-Look.", "+Look twice.")
    says(library_views.differences(diff_libraries(LIBRARY, LIBRARY)), "No difference")


def test_recorded_steps_are_grouped_by_presentation_order() -> None:
    placed = [(str(number), ("A", "B") if number % 2 else ("B", "A"), number // 2 % 2) for number in range(8)]
    steps = tuple(ChainStep("think", text, order=order, sample=sample) for text, order, sample in placed)
    orders = recorded_orders(replace(PLAIN, steps=(*PLAIN.steps, *steps)))
    shown = [("".join(item.showing.labels), item.showing.sample, [step.text for step in item.steps]) for item in orders]
    seen = [f"{labels} {sample} {''.join(texts)}" for labels, sample, texts in shown]
    assert seen == ["BA 0 04", "AB 0 15", "BA 1 26", "AB 1 37"]


def test_critiques_are_shown_by_candidate_as_text() -> None:
    assert views.critiques(PLAIN) == ""
    critiques = {"A": Critique((HOSTILE,), HOSTILE, HOSTILE), "B": Critique((), "")}
    seen = read_own(views.critiques(replace(PLAIN, critiques=critiques)))
    assert "Nothing wrong was found." in seen.text
    assert seen.tags.count("blockquote") == 1
    assert seen.text.count("<script>") == 3
    failed = replace(PLAIN, critiques={"B": Critique((), "")}, notes=(f"No critique of A: {HOSTILE}",))
    seen = read_own(views.critiques(failed))
    assert seen.text.index("No critique of A") < seen.text.index("Nothing wrong")


def test_the_gallery_links_to_the_library_alone() -> None:
    reader = read_own(hub_views.gallery([FOREIGN], ""))
    assert reader.links == ["?library=ann/odd@v1.0.0", "?library=ann/odd@v1.0.0&before=builtin"]
    assert HOSTILE.split()[0] in reader.text and "Claims 50% [20%, 80%], n 10" in reader.text


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
RUN = ModelRun(ModelJudgeConfig(), (FIRST, SECOND), AnswerCost(Usage(3, 12345, 678, 4.2)))
SCORES = {"A": Scores(2, 3, 0.5), "B": Scores(4, 3, 0.8)}
JUDGED = Judgment(
    "x", "vllm:m", "chain, both orders", "0123456789abcdef", preference="B", ranking=(("B",), ("A",)), margin=1.0,
    confidence=1.0, scores=SCORES, position_consistent=True,
)  # fmt: skip
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


def test_a_showing_tells_in_the_candidates_own_letters() -> None:
    markup = chain_views.showings((FIRST, SECOND), live=False)
    says(markup, "A first, then B answered", "B first, then A answered", no=["Shown as"])
    says(markup, "B: instruction 4, quality 3.")
    says(markup, "Calls change-map on source, A: “where”", "A Half was edited.")
    says(markup, "In this order the model calls candidate B “A” and candidate A “B”.")
    assert read_own(markup).text.count("Prefers candidate B.") == 2, "the second model said A, and meant B"
    assert read_own(chain_views.showings((FIRST,), live=False)).tags.count("strong") == 4  # its Markdown is rendered


def test_showings_under_way_of_one_candidate_and_of_several_samples() -> None:
    alone = OrderProgress(
        PresentationOrder(("C",)), (ChainStep("answer", '{"candidate": "C", "instruction": 3}', subject="C"),)
    )
    begun, calling = replace(FIRST, steps=()), replace(FIRST, steps=FIRST.steps[:3])
    samples = tuple(replace(FIRST, showing=PresentationOrder(("A", "B"), number)) for number in range(2))
    odds = replace(FIRST, steps=(ChainStep("answer", '{"odds": {"A": 0.25, "B": 0.75}}'),))
    for orders, live, words in (
        ((begun,), True, "thinking …"),
        ((calling,), True, "running change-map …"),
        ((calling,), False, "no answer"),
        ((alone,), False, "Candidate C only answeredGives instruction 3."),
        (samples, False, "A first, then B · sample 2"),
        ((odds,), False, "Odds: A 0.25, B 0.75."),
    ):
        says(chain_views.showings(orders, live=live), words)
    long = replace(FIRST, steps=(ChainStep("think", "word " * 400),))
    tags = [read_own(chain_views.showings((long,), live=live)).tags.count("details") for live in (True, False)]
    assert tags == [0, 1], "long thoughts are folded only at the end"


def test_the_verdict_says_whether_order_mattered_and_what_it_took() -> None:
    verdict = model_views.verdict(JUDGED, RUN)
    says(verdict, "People would most likely prefer B.", "preferred B over A in every query", no=["trust it little"])
    says(verdict, "The answer is the same in both presentation orders.")
    says(verdict, "4 s · 3 calls · 12,345 tokens in · 678 tokens out · cost unknown: no price is set")
    torn = replace(JUDGED, preference=TIE, ranking=(("A", "B"),), margin=0.0, position_consistent=False)
    says(model_views.verdict(torn, RUN), "The judge was inconsistent.", "cancel out", no=["level", "no difference"])
    says(model_views.reasons(torn, RUN), "The answers differ")
    leaning = replace(JUDGED, margin=0.1, position_consistent=False)
    says(model_views.verdict(leaning, RUN), "The answer changed with the order, so trust it little")
    several = replace(RUN, how=ModelJudgeConfig(samples=3))
    says(model_views.verdict(leaning, several), "not the same in all orders and samples")


def test_a_lead_means_something_else_in_each_protocol() -> None:
    for protocol, consistent, words in (
        ("chain", None, "Only one presentation order was used, so position consistency is unknown."),
        ("logprob", True, "The probabilities favor B over A by 0.40"),
        ("pointwise", None, "by 0.40 in reward, which runs from 0 to 1. Each candidate was judged separately"),
        ("direct", True, "B leads A by 0.40, where 1 means preferred in every query."),
    ):
        run = replace(RUN, how=ModelJudgeConfig(protocol=protocol))  # type: ignore[arg-type]
        judgment = replace(JUDGED, margin=0.4, position_consistent=consistent)
        says(model_views.verdict(judgment, run), words)


def test_what_it_took_in_words() -> None:
    for spent, words in (
        (AnswerCost(Usage(2, 1_000_000, 500_000), price=(1.0, 4.0)), "about $3.00"),
        (AnswerCost(Usage(2, 1000, 10), price=(1.0, 1.0)), "about $0.0010"),
        (AnswerCost(Usage(2, 1000, 10), price=(0.0, 0.0)), "free of charge"),
        (AnswerCost(Usage(2, 0, 0), price=(1.0, 1.0)), "cost unknown: the server does not count tokens"),
        (AnswerCost(Usage(seconds=0.1), 2), "no calls · 2 answers were cached and free"),
        (AnswerCost(Usage(1, 5, 5), 1), "5 tokens out · cost unknown: no price is set · 1 answer was cached"),
    ):
        says(model_views.stopped(replace(RUN, spent=spent)), words)
    says(model_views.stopped(None), "StoppedNothing was judged. Your images are still here.")


@pytest.mark.parametrize("code", [*get_args(ErrorCode), "no_answer", "truncated", "no_logprobs", "no_criteria"])
def test_every_trouble_with_a_model_has_a_name_and_a_remedy(code: str) -> None:
    mine, theirs = failure(Failure(code, "It said so.")), failure(Failure(code, ""), own_judge=False)
    says(mine, "never counted as a tie", "It said so.", no=["There is no judgment"])
    assert 'class="remedy"' in mine
    says(theirs, "Ask the owner of this app to correct it")


def test_the_check_says_what_works_and_what_to_mend() -> None:
    good = model_views.checked((Probe("host:1", Capabilities(models=("m",), max_model_len=32768)),))
    says(good, "host:1 answers", "The model sees images.", "Models: m.")
    poor = Capabilities(vision=False, schema=False, logprobs=False, max_model_len=4096)
    bad = model_views.checked((Probe("host:1", poor),))
    says(bad, "does not see images", "--limit-mm-per-prompt", "Logprob is not available", "--max-model-len 32768")
    says(bad, "does not list its models")
    refused = model_views.checked((Probe("h", None, ModelError("unauthorized", "h answered 401.")),))
    says(refused, "Correct the key above.")
    says(model_views.checked(Reply("yes", seconds=0.5)), "The model answers in 0.50 seconds")


def test_protocols_and_where_the_pictures_go_are_told_in_one_sentence() -> None:
    choices = model_views.protocol_choices()
    assert tuple(name for _, name in choices) == PROTOCOLS
    assert all(label.count("\n") == 1 and label.endswith(".") and label.count(".") == 1 for label, _ in choices)
    for kind in (ENDPOINT, ENVIRONMENT, GEMINI, HUGGING_FACE):
        says(model_views.judge_line(kind, "x", local=False), "sends the images and the instruction to")
