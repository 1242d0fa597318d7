import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposer_samples import criterion, library, pair, skill, view

from rewardharness.evolution.evolver import MAX_BODY, find_objects, problem_of, read_proposal, similarity
from rewardharness.evolution.proposal import OPERATORS, Proposal, RejectedProposal, View, criteria_of
from rewardharness.judging.answers import ReplyProblem
from rewardharness.library.entry import Entry
from rewardharness.library.store import AddEntry, ReplaceEntry

LOOK = "Find the new thing in each candidate, then compare its size, its light and its shadow with the scene around it."
ADDING = skill("adding", "add", criterion("new", "added_structure"), criterion("seam", "seam"), body=LOOK)
ALOUD = "Read every letter aloud, one by one."
TEXTS = skill("reading-text", "text, write", criterion("text", "text_match"), body=ALOUD)
METER = Entry("seam-meter", "tool", "Measures seams.", "Call it.", {"triggers": "add"}, measure="seam")
START = library(ADDING, TEXTS, METER)
CASES = {
    "p1": ("add a cat", "A", pair({"seam": 0.2}, {"seam": 0.8})),
    "p2": ("write hello on the sign", "B", pair({"seam": 0.2}, {"seam": 0.8}, "B")),
}
SEEN: View = view(START, CASES)
TINT = {"id": "tint", "text": "It follows the light.", "weight": 2, "measure": "color_target", "applies": ["add"]}
NEW = {
    "name": "sky-colour",
    "description": "How to judge the colour of a sky that an edit adds.",
    "triggers": ["add", "sky"],
    "body": "Compare the tint near the horizon with the tint overhead in every candidate; both follow the daylight.",
    "criteria": [TINT],
}
TOOL = {
    "name": "letter-reader",
    "description": "Reads the letters of a text.",
    "triggers": "text, write",
    "body": "Call it with one candidate when a text was asked for.",
    "system_prompt": 'Read the letters in the picture. Answer with one JSON object: {"letters": "what you read"}.',
    "output_schema": {"letters": "str"},
}


def read(value: object, seen: View = SEEN) -> Proposal | ReplyProblem | None:
    return read_proposal(value if isinstance(value, str) else json.dumps(value), seen, "model", ("p1",))


def accepted(value: object, seen: View = SEEN) -> Proposal:
    found = read(value, seen)
    assert isinstance(found, Proposal), found
    assert problem_of(found, seen) == ""
    return found


def refused(value: object, seen: View = SEEN) -> str:
    found = read(value, seen)
    assert isinstance(found, ReplyProblem), found
    return found.message


def edit(operator: str, **more: object) -> dict[str, object]:
    return {"operator": operator, "statement": "It helps.", **more}


def test_a_new_skill_is_read_whole() -> None:
    found = accepted(edit("add", entry=NEW))
    assert (found.operator, found.cited, found.source) == ("add", ("p1",), "model")
    entry = found.applied_to(START).get("sky-colour")
    assert entry is not None and entry.rubric is not None
    assert [str(trigger) for trigger in entry.triggers] == ["add", "sky"]
    assert (entry.rubric.criteria[0].measure, entry.rubric.criteria[0].weight) == ("color_target", 2.0)


@pytest.mark.parametrize(
    "wrapped",
    [
        "Here is my edit:\n```json\n{}\n```\nI hope that it helps {{sincerely}}.",
        '<think>Perhaps {"operator": "remove", "statement": "x", "name": "adding"}?</think>{}',
        'First draft: {"operator": "remove", "statement": "x", "name": "adding"}. On reflection:\n{}',
        "[{}]",
        '{"edits": [{}]}',
        '{"proposal": {}}',
    ],
)
def test_prose_fences_thoughts_drafts_and_lists_around_the_edit_are_forgiven(wrapped: str) -> None:
    found = accepted(wrapped.replace("{}", json.dumps(edit("add", entry=NEW))))
    assert found.operator == "add"


def test_known_entries_are_changed_only_where_it_says_so() -> None:
    fresh = {"id": "light", "text": "Light fits the scene."}
    row = {"name": "adding", "description": "How to judge additions.", "criteria": [fresh], "remove_criteria": ["seam"]}
    after = accepted(edit("modify", entry=row)).applied_to(START).get("adding")
    assert after is not None and [each.id for each in criteria_of(after)] == ["new", "light"]
    wanted = ADDING.body, "How to judge additions.", ADDING.metadata
    assert (after.body, after.description, after.metadata) == wanted


def test_each_operator_makes_its_change() -> None:
    assert read(edit("none")) is None
    weighed = accepted(edit("reweight", name="adding", weights={"seam": 3})).applied_to(START).get("adding")
    assert [each.weight for each in criteria_of(weighed)] == [1.0, 3.0]
    triggered = accepted(edit("retrigger", name="adding", triggers="add, put a")).applied_to(START).get("adding")
    assert triggered is not None and triggered.metadata["triggers"] == "add, put a"
    assert "adding" not in accepted(edit("remove", name="adding")).applied_to(START)
    for name in ("adding", "sky-colour"):
        both = edit("merge", names=["adding", "reading-text"], entry={**NEW, "name": name})
        assert [entry.name for entry in accepted(both).applied_to(START).skills] == [name]
    body = "Letters keep one height, and one slant, along the line."
    other = {**NEW, "name": "letter-shapes", "triggers": "write", "body": body}
    parts = accepted(edit("split", name="adding", entries=[NEW, other])).applied_to(START)
    assert [each.name for each in parts.skills] == ["letter-shapes", "reading-text", "sky-colour"]


def test_tools_are_read_in_their_own_round() -> None:
    tools = replace(SEEN, phase="tools")
    found = accepted(edit("add_tool", entry=TOOL), tools)
    entry = found.applied_to(START).get("letter-reader")
    assert entry is not None and entry.output_schema == {"letters": "str"}
    texts = {"name": "noise-meter", "description": "Measures noise.", "body": "Call it."}
    measured = {**texts, "triggers": "add", "measure": "noise"}
    assert accepted(edit("add_tool", entry=measured), tools).names == ("noise-meter",)
    fixed = accepted(edit("fix_tool", entry={"name": "seam-meter", "triggers": "add, put"}), tools)
    assert fixed.operator == "fix_tool"
    assert "This round is about skills" in refused(edit("add_tool", entry=TOOL))
    assert "This round is about tools" in refused(edit("add", entry=NEW), tools)
    assert "remove or merge" in refused(edit("add", entry=NEW), replace(SEEN, phase="prune"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("I am sorry, I cannot help with that.", "no JSON object"),
        ("", "no JSON object"),
        ('{"operator": "add", "statement": "x", "entry": {"name": "cut', "no JSON object"),
        (edit("conquer"), "no operator"),
        ({"operator": "remove", "name": "adding"}, '"statement"'),
        ({"operator": "remove", "statement": 5, "name": "adding"}, '"statement"'),
        (edit("remove", name="unknown"), "Entries: adding"),
        (edit("remove"), '"name" is missing'),
        (edit("add"), 'no object "entry"'),
        (edit("add", entry=[NEW]), 'no object "entry"'),
        *(
            (edit("add", entry={**NEW, "name": name}), "not consist of lowercase words")
            for name in ("../../etc/passwd", "/tmp/x", "..", "skills/adding", "con\x00trol", "x" * 80)
        ),
        (edit("add", entry={**NEW, "name": "con"}), "reserved"),
        (edit("add", entry={**NEW, "name": "adding"}), "already exists"),
        (edit("add", entry={**NEW, "body": " "}), "The body is empty"),
        (edit("add", entry={**NEW, "body": 5}), '"body" is missing or is not a text'),
        (edit("add", entry={**NEW, "body": "long words " * MAX_BODY}), "characters of body"),
        (edit("add", entry={**NEW, "measure": "seam"}), "A Skill does not use `measure`"),
        (edit("add", entry={**NEW, "triggers": "/(a+)+b/"}), "repeats a group"),
        (edit("add", entry={**NEW, "triggers": "/unclosed"}), "closing slash"),
        (edit("add", entry={**NEW, "triggers": "zeppelin"}), "match no instruction"),
        *(
            (edit("add", entry={**NEW, "criteria": [{"id": "a", "text": "b", **row}]}), problem)
            for row, problem in (
                ({"measure": "beauty"}, "Unknown measure `beauty`"),
                ({"measure": ["seam"]}, '"measure" is missing or is not a text'),
                ({"weight": -1}, "weight of `a`"),
                ({"weight": True}, "weight of `a`"),
                ({"applies": ["fly"]}, "is not a kind of edit"),
                ({"dimension": "taste"}, "dimension"),
                ({"id": "../a"}, "`id` is missing or invalid"),
            )
        ),
        (edit("add", entry={**NEW, "criteria": [{"id": "a", "text": "b"}] * 2}), "same id"),
        (edit("add", entry={**NEW, "criteria": "none"}), "not a list of objects"),
        (edit("modify", entry={"name": "adding"}), "changes nothing"),
        (edit("modify", entry={"name": "seam-meter", "body": "x"}), "is a tool"),
        (edit("modify", entry={"name": "adding", "remove_criteria": ["gone"]}), "no criterion `gone`"),
        (edit("reweight", name="adding", weights={}), "criteria new, seam"),
        (edit("reweight", name="adding", weights={"gone": 1}), "not gone"),
        *((edit("reweight", name="adding", weights={"new": n}), "up to 20") for n in (1e9, 10**400, float("nan"))),
        (edit("retrigger", name="adding", triggers=""), '"triggers"'),
        (edit("merge", names=["adding", "adding"], entry=NEW), "two different"),
        (edit("merge", names=["adding", "seam-meter"], entry=NEW), "one kind"),
        (edit("split", name="adding", entries=[NEW]), "two entries"),
        (edit("split", name="adding", entries=[NEW, NEW]), "different names"),
    ],
)
def test_what_cannot_be_used_is_named(value: object, problem: str) -> None:
    assert problem in refused(value)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"body": "If image A is sharper, prefer it."}, "by position"),
        ({"description": "How to judge the first candidate."}, "by position"),
        ({"body": "如果候选 A 更清晰，就选它。"}, "by position"),
        ({"description": "如何评审左边的图像。"}, "by position"),
        ({"criteria": [{"id": "a", "text": "Candidate B is brighter."}]}, "by position"),
        ({"body": "As in example e3, the cat was lost among the leaves of the tree."}, "one example"),
        ({"body": "End with <answer> and the letter of your choice."}, "tags of the reasoning chain"),
        ({"body": "Use the `cat-finder` tool on every candidate."}, "which this Library does not have"),
        ({"body": "Look closely\u200b\u202e at the edges of every candidate."}, "invisible characters"),
        ({"body": LOOK + " Look again."}, "nearly the same as `adding`"),
    ],
)
def test_wording_that_would_mislead_a_judge_is_refused(change: dict[str, object], problem: str) -> None:
    assert problem in refused(edit("add", entry={**NEW, **change}))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"output_schema": None}, "no output_schema"),
        ({"output_schema": {"letters": ["str"]}}, "names and types"),
        ({"output_schema": {"letters": "str", "sure": "bool"}}, "sure"),
        ({"system_prompt": "Read the letters in the picture and tell us."}, "does not request JSON"),
        ({"system_prompt": None}, "does nothing"),
        ({"system_prompt": 'Answer with JSON {"letters": "..."} and then go on to'}, "truncated"),
        ({"measure": "beauty"}, "Unknown measure `beauty`"),
        ({"criteria": [{"id": "a", "text": "b"}]}, "A Tool has no rubric"),
    ],
)
def test_tools_that_could_not_be_called_are_refused(change: dict[str, object], problem: str) -> None:
    entry = {key: value for key, value in {**TOOL, **change}.items() if value is not None}
    assert problem in refused(edit("add_tool", entry=entry), replace(SEEN, phase="tools"))


def test_old_faults_of_an_entry_do_not_forbid_its_repair() -> None:
    bad = skill("adding", "add", body="Image A is often better. " + "Long. " * MAX_BODY)
    seen = view(library(bad), CASES)
    shorter = "Image A is often better. " + "Short. " * 1000 + "Mind the shadows under things."
    accepted(edit("modify", entry={"name": "adding", "body": bad.body[: MAX_BODY * 2]}), seen)
    assert "by position" in refused(edit("modify", entry={"name": "adding", "body": shorter + " Option B, too."}), seen)


def test_what_was_tried_before_is_not_tried_again_in_the_same_or_nearly_the_same_words() -> None:
    first = accepted(edit("add", entry=NEW))
    seen = replace(SEEN, rejected=(RejectedProposal.of(first, "no"),))
    assert "tried before" in refused(edit("add", entry=NEW), seen)
    nearly = {**NEW, "name": "heaven", "body": NEW["body"] + " Look twice."}
    assert "Nearly the same wording" in refused(edit("add", entry=nearly), seen)
    clouds = {"name": "x", "description": "Clouds.", "body": "Clouds have soft rims.", "criteria": []}
    accepted(edit("add", entry={**NEW, **clouds}), seen)


def test_changes_of_one_long_entry_are_compared_by_what_they_change() -> None:
    def longer(more: str) -> dict[str, object]:
        return edit("modify", entry={"name": "adding", "body": f"{LOOK} {more}"})

    one = accepted(longer("A missing contact shadow betrays a pasted object."))
    seen = replace(SEEN, rejected=(RejectedProposal.of(one, "no"),))
    accepted(longer("Count the legs of every animal that was added."), seen)
    assert "tried before" in refused(longer("A missing contact shadow betrays a pasted object!"), seen)


def test_similarity_is_a_share_of_what_the_shorter_text_says() -> None:
    others = (LOOK, f"Before that. {LOOK} After that.", "Nothing of the sort is written here, not a word.", "")
    assert [similarity(LOOK, other) for other in others] == [1, 1, 0, 0]


def test_entries_of_any_proposer_are_checked_for_lone_surrogates() -> None:
    lone = Proposal("modify", (ReplaceEntry(replace(ADDING, body="\ud800")),), "x", (), "me")
    assert "cannot be written" in problem_of(lone, SEEN)
    unnamed = Proposal("add", (AddEntry(replace(ADDING, name="Not A Name")),), "x", (), "me")
    assert "not consist of lowercase words" in problem_of(unnamed, SEEN)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.sampled_from(["adding", "seam", "add", "new"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("name", "names", "entry", "entries", "triggers", "weights", "criteria", "statement")
INNER = "name description body triggers criteria remove_criteria measure output_schema system_prompt".split()
ROW = st.dictionaries(st.sampled_from(("id", "text", "weight", "measure", "applies", "dimension")), json_values)
ENTRY = st.dictionaries(st.sampled_from(INNER), json_values | st.lists(ROW, max_size=2), max_size=6)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(OPERATORS),
    st.dictionaries(st.sampled_from(FIELDS), json_values | ENTRY | st.lists(ENTRY, max_size=2), max_size=6),
    st.booleans(),
)
def test_no_edit_that_a_model_may_write_is_more_than_a_problem(operator: str, fields: dict, sensible: bool) -> None:
    extra = {"statement": "x", "name": "adding"} if sensible else {}
    found = read({**fields, **extra, "operator": operator})
    assert isinstance(found, (ReplyProblem, Proposal))
    if isinstance(found, Proposal):
        assert found.applied_to(START).id != START.id


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='{}[]":,a\\e1 <>/think\ud800\n', max_size=120))
def test_no_text_makes_the_search_for_objects_fail(text: str) -> None:
    assert all(isinstance(each, dict) for each in find_objects(text))


def test_the_search_for_objects_ends_soon_on_long_nonsense() -> None:
    assert list(find_objects('{"a":[' * 30_000)) == []
    assert list(find_objects("{" * 200_000)) == []
    assert list(find_objects('x {"a": 1} y {"b": {"c": 2}} z')) == [{"a": 1}, {"b": {"c": 2}}]
