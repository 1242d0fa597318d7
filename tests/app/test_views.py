import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hostile import HOSTILE, HOSTILE_DOCUMENT, read_own
from PIL import Image

from app.failures import error_message, failure
from app.library import hub_views
from app.library import views as library_views
from app.score import views
from app.score.comparisons import recorded_orders
from app.viewer import chain_views
from app.vote import views as vote_views
from app.vote.feedback import Stored
from rewardharness.critique import Critique
from rewardharness.errors import Description
from rewardharness.judging.router import route
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.gallery import ClaimedResult, ListedLibrary
from rewardharness.library.problems import Problem
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library
from rewardharness.schema import TIE, ChainStep, Failure, Judgment, RoutedEntry, Scores, Usage


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


FOREIGN = ListedLibrary(
    "ann/odd",
    "v1.0.0",
    HOSTILE,
    1,
    2,
    None,
    True,
    ClaimedResult(0.5, 10, 0.2, 0.8, HOSTILE, HOSTILE, True),
    0.3,
)


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
        lambda: vote_views.about(HOSTILE, HOSTILE, lasting=True),
        lambda: vote_views.revealed("A", Stored(HOSTILE, HOSTILE), None, lasting=True),
    ],
)
def test_foreign_text_stays_text_in_every_view(view: Callable[[], str]) -> None:
    assert read_own(view()).text


def shown(markup: str) -> str:
    return read_own(markup).text


def test_the_verdict_names_the_winner_and_how_sure() -> None:
    text = shown(views.verdict(PLAIN))
    assert "People would most likely prefer B." in text
    assert "Fairly sure: B leads A by 0.21 in reward" in text


@pytest.mark.parametrize(
    ("confidence", "words"),
    [
        (0.9, "Quite sure"),
        (0.75, "Quite sure"),
        (0.74, "Fairly sure"),
        (0.3, "Not very sure"),
        (0.0, "Little more than a guess"),
        (None, "Confidence unknown"),
    ],
)
def test_confidence_in_words(confidence: float | None, words: str) -> None:
    assert views.sureness(confidence) == words


def test_level_candidates_and_close_ones_are_told_apart() -> None:
    level = replace(PLAIN, preference=TIE, ranking=(("A", "B"), ("C",)), margin=0.0)
    close = replace(PLAIN, preference=TIE, margin=0.004)
    assert "A and B are level." in shown(views.verdict(level))
    assert "Too close to call." in shown(views.verdict(close)) and "only 0.004" in shown(views.verdict(close))


@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("image", "One of the images cannot be used"),
        ("input", "Missing input"),
        ("nothing_to_measure", "This Library has no criteria for this instruction"),
        ("new-code", "There is no judgment"),
    ],
)
def test_a_failure_is_named_and_is_no_tie(code: str, title: str) -> None:
    text = shown(views.verdict(replace(PLAIN, preference=None, failure=Failure(code, "Candidate A is damaged."))))
    assert title in text and "Candidate A is damaged." in text and "never counted as a tie" in text


def test_notes_that_change_the_verdict_stand_next_to_it() -> None:
    notes = ("A: turned upright.", "A and B are the same image.", "No OCR: text in the images was not read.")
    text = shown(views.verdict(replace(PLAIN, notes=notes)))
    assert "same image" in text and "reward-harness-library[ocr]" in text and "upright" not in text


def test_the_score_table_is_best_first_and_says_what_was_not_measured() -> None:
    text = shown(views.score_table(PLAIN))
    assert text.index("B") < text.index("A") or text.index("3.5") < text.index("2.0")
    assert "not measured" in text and "0.71" in text and "Instruction following: whether the edit does" in text


def test_reasons_are_in_plain_words_with_the_numbers_on_demand() -> None:
    markup = views.reasons(PLAIN)
    assert markup.index("A lacks the color") < markup.index("<details>") < markup.index("It is red")
    text = read_own(markup).text
    assert "It is blue." in text and "It is red." in text and "Something else." in text
    assert "Color target of" not in text


def test_the_steps_of_a_candidate_are_its_own() -> None:
    first, second = shown(chain_views.candidate_steps(PLAIN, "A")), shown(chain_views.candidate_steps(PLAIN, "B"))
    assert "change map grade 0.25" in first and "Half was edited." in first and "noise" not in first
    assert "noise" in second and "no JSON at all" in second and "B: weighed." in second


def test_long_steps_are_folded() -> None:
    reader = read_own(chain_views.overall_steps(replace(PLAIN, steps=(ChainStep("think", "word " * 100),))))
    assert reader.tags.count("details") == 1


def test_pictures_belong_to_their_candidate_and_tool() -> None:
    [(picture, tool)] = chain_views.pictures(PLAIN, "A")
    assert tool == "change-map" and picture.getpixel((0, 0)) == (255, 0, 0)


def test_consulted_entries_and_notes() -> None:
    assert "color-changeSkillalways" in shown(views.consulted(PLAIN))
    assert "No entry" in shown(views.consulted(replace(PLAIN, entries=())))
    text = shown(views.notes(PLAIN, "the built-in Library"))
    assert "turned upright" in text and "the built-in Library" in text and "the answer is the same" in text
    assert "Protocol: measured" in text


def test_feedback_says_where_it_went_and_how_many_there_are() -> None:
    assert "/home/x/feedback, which now holds 2 examples" in shown(
        views.feedback_stored("A", Stored("/home/x/feedback", count=2), lasting=True)
    )
    in_space = shown(views.feedback_stored(TIE, Stored("/home/x/feedback", count=1), lasting=False))
    assert "until it restarts" in in_space and "/home" not in in_space and "1 example." in in_space


SKILL = Entry(
    "color-change",
    "skill",
    "How to judge colours.",
    "# Colours\n\nLook.",
    {"triggers": "colour, /re[d]+/"},
    rubric=Rubric((Criterion("done", "Is it done?", 3.0), Criterion("whole", "Is it whole?", measure="noise"))),
)
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
    ],
)
def test_foreign_text_stays_text_in_every_view_of_a_library(view: Callable[[], str]) -> None:
    assert read_own(view()).text


def test_the_list_of_entries_is_searched_by_all_words() -> None:
    assert [name for _, name in library_views.entry_choices(LIBRARY, "")] == ["color-change", "noise-meter", "reader"]
    assert [name for _, name in library_views.entry_choices(LIBRARY, "TOOL noise")] == ["noise-meter"]
    assert library_views.entry_choices(LIBRARY, "noise colours") == []
    [(label, _)] = library_views.entry_choices(LIBRARY, "colours")
    assert label.split("\n") == ["color-change", "Skill · on colour, /re[d]+/", "How to judge colours."]


def test_an_entry_tells_when_it_applies() -> None:
    assert "colour" in shown(library_views.entry_head(SKILL)) and "1 expression" in shown(
        library_views.entry_head(SKILL)
    )
    assert "every instruction" in shown(library_views.entry_head(TOOL))
    assert "names no triggers" in shown(library_views.entry_head(PROMPTED))


def test_a_rubric_shows_shares_and_what_measures_them() -> None:
    text = shown(library_views.entry_rubric(SKILL))
    assert "75%" in text and "25%" in text and "VLM only" in text and "noise" in text
    assert "No rubric" in shown(library_views.entry_rubric(TOOL))


def test_a_tool_shows_what_it_runs() -> None:
    assert "How much noise the edit added." in shown(library_views.entry_tool(TOOL))
    assert "System prompt" in shown(library_views.entry_tool(PROMPTED)) and '"text"' in shown(
        library_views.entry_tool(PROMPTED)
    )
    unknown = library_views.entry_tool(replace(TOOL, measure="no-such"))
    assert "no such measure" in shown(unknown)


def test_routing_says_which_and_why() -> None:
    text = shown(library_views.routed(route(LIBRARY, "Make the car red."), LIBRARY))
    assert "2 of 3 entries" in text and "the instruction says 'red'" in text
    assert "decides itself on entries without triggers: reader. 0 of them" in text, (
        "a word of its description is missing"
    )
    one = Library((SKILL,))
    assert "No entry would be consulted" in shown(library_views.routed(route(one, "hello"), one))


def test_problems_are_listed_gravest_first() -> None:
    found = (Problem("note", "b", None, "Odd."), Problem("error", "a", 4, "Broken.", "Mend it."))
    text = shown(library_views.problems(found))
    assert text.index("Broken.") < text.index("Odd.") and "a:4" in text and "Mend it." in text
    assert "1 error, 1 note" in text
    assert "Nothing to complain about" in shown(library_views.problems(()))


def test_differences_are_shown_line_by_line() -> None:
    changed = Library((replace(SKILL, body="# Colours\n\nLook twice."), PROMPTED))
    reader = read_own(library_views.differences(diff_libraries(LIBRARY, changed), "old", "new"))
    assert "0 added, 1 removed, 1 changed" in reader.text
    assert "-Look." in reader.text and "+Look twice." in reader.text
    assert "No difference" in shown(library_views.differences(diff_libraries(LIBRARY, LIBRARY)))


def test_recorded_steps_are_grouped_by_presentation_order() -> None:
    steps = tuple(
        ChainStep("think", str(number), order=("A", "B") if number % 2 else ("B", "A"), sample=number // 2 % 2)
        for number in range(8)
    )
    orders = recorded_orders(replace(PLAIN, steps=(*PLAIN.steps, *steps)))
    assert [(item.showing.labels, item.showing.sample, [step.text for step in item.steps]) for item in orders] == [
        (("B", "A"), 0, ["0", "4"]),
        (("A", "B"), 0, ["1", "5"]),
        (("B", "A"), 1, ["2", "6"]),
        (("A", "B"), 1, ["3", "7"]),
    ]


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
