import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewardharness.errors import LibraryError
from rewardharness.library import entry as entries
from rewardharness.library.entry import Entry, check_entry, entry_files, name_problem, parse_entry, print_entry
from rewardharness.library.plaintext import invisible, tidy
from rewardharness.library.problems import Findings
from rewardharness.library.rubric import Criterion, Rubric

CHARS = st.characters(exclude_categories=["Cs"])
HOSTILE = st.sampled_from(
    "---|\n---\n|- ---\n|name: x|# no comment|'\"|\\|\r\n|\r|\x00|\ufeff|\u2028|\x85|&a *a !t|{{x}}|%YAML|\t| |\n\n|"
    "    code|e\u0301|\U0001f468\u200d\U0001f469".split("|")
)
TEXT = st.lists(st.text(CHARS, max_size=20) | HOSTILE, max_size=6).map("".join)
SAID = TEXT.filter(lambda text: text.strip())
JSON = st.recursive(
    TEXT | st.booleans() | st.none() | st.integers(-(10**9), 10**9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(["license", "allowed-tools", "compatibility", "x y", "1", "null"])
COMMON: dict[str, Any] = {
    "name": st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True).filter(lambda n: not name_problem(n)),
    "description": SAID.map(lambda text: text[:200]).filter(lambda text: text.strip()),
    "body": TEXT,
    "metadata": st.dictionaries(st.sampled_from(["author", "note", "1"]), TEXT, max_size=3),
    "extra": st.dictionaries(KEYS, JSON, max_size=3),
}
SCHEMAS = st.none() | st.dictionaries(TEXT, JSON, max_size=3)
SKILLS = st.builds(Entry, kind=st.just("skill"), **COMMON)
PROMPTED = {"system_prompt": SAID, "input_schema": SCHEMAS, "output_schema": SCHEMAS}
TOOLS = st.builds(Entry, kind=st.just("tool"), **PROMPTED, **COMMON)
ENTRIES = (SKILLS | TOOLS).filter(lambda entry: entry.description and (entry.kind == "skill" or entry.system_prompt))

SKILL = """---
schema_version: 2
name: text-edits
kind: skill
description: How to judge
  edits of text.
license: MIT
metadata:
  triggers: text, /\\bsays\\b/
---

# Text

Look at each letter.
"""
RUBRIC = "# weights\ncriteria:\n- {id: spelling, text: Spelled right.}\n"


def skill(text: str = SKILL, rubric: str | None = None) -> Entry:
    return parse_entry(text, name="text-edits", kind="skill", rubric_text=rubric, where="skills/text-edits/SKILL.md")


@settings(max_examples=25)
@given(ENTRIES)
@example(Entry("a", "skill", "x", "\n\ufeffa"))
@example(Entry("a", "skill", "x", "y\n\n---\n\n| a |\n|---|\n\n---\n", system_prompt="a\n---\nb"))
def test_what_is_written_is_read_back(entry: Entry) -> None:
    again = parse_entry(print_entry(entry), name=entry.name, kind=entry.kind)
    assert again == entry
    assert again.entry_id == entry.entry_id
    check_entry(entry)


def test_files_that_nobody_changed_come_out_as_they_were() -> None:
    entry = skill(rubric=RUBRIC)
    assert entry_files(entry) == {"SKILL.md": SKILL, "rubric.yaml": RUBRIC}
    changed = replace(entry, body="New.")
    assert entry_files(changed)["rubric.yaml"] == RUBRIC
    assert "New." in entry_files(changed)["SKILL.md"] and "license: MIT" in entry_files(changed)["SKILL.md"]
    weighed = replace(entry, rubric=Rubric((Criterion("spelling", "Spelled right.", weight=2),)))
    assert entry_files(weighed)["SKILL.md"] == SKILL
    assert "weight: 2" in entry_files(weighed)["rubric.yaml"]
    assert entry_files(replace(entry, rubric=None)) == {"SKILL.md": SKILL}
    assert entry_files(replace(entry, name="other"))["SKILL.md"] != SKILL


def test_the_id_is_over_the_meaning() -> None:
    entry = skill()
    quoted = SKILL.replace("How to judge\n  edits of text.", '"How to judge edits of text."')
    spaced = SKILL.replace("---\n\n# Text", "---\n# Text") + "\n\n"
    same = (SKILL.replace("\n", "\r\n"), "\ufeff" + SKILL, quoted, spaced, SKILL.replace("license: MIT\n", ""))
    assert {skill(text).entry_id for text in same} == {entry.entry_id}
    for old, new in (("letter", "word"), ("text, /", "texts, /"), ("edits of", "changes of")):
        assert skill(SKILL.replace(old, new)).entry_id != entry.entry_id
    assert skill(rubric=RUBRIC).entry_id != entry.entry_id
    assert skill(SKILL.replace("letter", "caf\u00e9")) == skill(SKILL.replace("letter", "cafe\u0301"))


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("", 1, "first line"),
        ("text\n---\nname: a\n---\n", 1, "first line"),
        ("\n \n---\nname: text-edits\n", 3, "closing line"),
        ("<!-- made\nby x -->\n" + SKILL.replace("name: text-edits", "name: other"), 5, "folder"),
        ("# Text\n", 1, "first line"),
        ("---\nname: text-edits\n", 1, "closing line"),
        ("---\nname: text-edits\n----\n --- \n", 1, "closing line"),
        (SKILL.replace("How to judge\n  edits of text.", ""), 5, "no `description`"),
        (SKILL.replace("name: text-edits", "name: other"), 3, "folder"),
        (SKILL.replace("name: text-edits", "name: [a]"), 3, "not text"),
        (SKILL.replace("kind: skill", "kind: tool"), 4, "folder"),
        (SKILL.replace("license: MIT", "description: again"), 7, "twice"),
        (SKILL.replace("license: MIT", "system_prompt: [a]"), 7, "not text"),
        (SKILL.replace("license: MIT", "output_schema: a"), 7, "mapping"),
        (SKILL.replace("  triggers: text, /\\bsays\\b/", "  triggers: /(a+)+/"), 9, "triggers"),
        (SKILL.replace("  triggers: text, /\\bsays\\b/", "  a: [b]"), 9, "`metadata.a`"),
        (SKILL.replace("\n  triggers: text, /\\bsays\\b/", " a"), 8, "mapping"),
        (SKILL.replace("license: MIT", "license: " + "x" * 17_000), 2, "16384"),
        (SKILL.replace("How to judge", "x" * 1100), 5, "1024"),
        (SKILL + "x" * 300_000, None, "262144"),
    ],
)
def test_what_breaks_the_format_is_named_with_its_line(text: str, line: int | None, word: str) -> None:
    findings = Findings("SKILL.md")
    entry, _ = entries.read_entry(text, "text-edits", "skill", None, findings)
    assert entry is None
    assert [(each.severity, each.line) for each in findings.found] == [("error", line)]
    with pytest.raises(LibraryError, match=re.escape(word)):
        skill(text)


def test_a_tool_needs_something_to_do_and_has_no_rubric() -> None:
    text = SKILL.replace("kind: skill", "kind: tool")
    with pytest.raises(LibraryError, match="neither"):
        parse_entry(text, name="text-edits", kind="tool")
    measured = text.replace("license: MIT", "measure: sharpness")
    assert parse_entry(measured, name="text-edits", kind="tool").measure == "sharpness"
    with pytest.raises(LibraryError, match="no rubric"):
        parse_entry(measured, name="text-edits", kind="tool", rubric_text=RUBRIC)


@pytest.mark.parametrize(
    "text",
    [
        SKILL.replace("---\n", "--- \t\n"),
        f"\n  \n{SKILL}",
        f"<!-- made by x\n\n-->\n# a comment\n{SKILL}",
        f"\ufeff\n{SKILL}".replace("\n", "\r\n"),
    ],
    ids=["white space after the fences", "blank lines", "comments", "mark and line ends of Windows"],
)
def test_what_cannot_be_seen_around_the_front_matter_is_accepted(text: str) -> None:
    assert skill(text) == skill()
    assert entry_files(skill(text))["SKILL.md"] == text


@pytest.mark.parametrize(
    ("description", "cut"),
    [
        ("Colors # and light", True),
        ("Colors\n  of things # and light", True),
        ('"Colors # and light"', False),
        (">-\n  Colors # and light", False),
        ("Issue #4 of C# code#", True),
        ("C#code", False),
    ],
)
def test_a_description_that_is_cut_by_a_comment_is_said(description: str, cut: bool) -> None:
    findings = Findings("SKILL.md")
    text = SKILL.replace("How to judge\n  edits of text.", description)
    entries.read_entry(text, "text-edits", "skill", None, findings)
    said = [(each.severity, each.line) for each in findings.found if "begins a comment" in each.message]
    assert said == ([("warning", 5)] if cut else [])


@pytest.mark.parametrize(
    "bad",
    [
        {"extra": {"name": "other"}},
        {"extra": {"a": (1, 2)}},
        {"extra": {"a": object()}},
        {"extra": {"a": {1: 2}}},
        {"extra": {"a": float("nan")}},
        {"metadata": {"a": 1}},
        {"metadata": {"triggers": "/(/"}},
        {"description": ""},
        {"body": "\ud800"},
        {"body": "x" * 300_000},
        {"name": "../x"},
    ],
)
def test_an_entry_that_could_not_be_read_back_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(LibraryError):
        check_entry(replace(skill(), **bad))


TRAVERSALS = (
    "..|.|../a|a/b|/etc/passwd|a\\b|C:|c:\\a|a\x00b|%2e%2e|\uff0e\uff0e|a.|a |.git|~|a/../b|\u202ea|con|NUL|com1|lpt9|"
    "a\nb|-a|a:b|*|?|\u0430|e\u0301||" + "a" * 65
).split("|")


@pytest.mark.parametrize("name", TRAVERSALS, ids=ascii)
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    assert name_problem(name)
    assert entries.loadable_name_problem(name)


@given(st.text(max_size=70))
def test_a_loadable_name_is_one_plain_step_of_a_path(name: str) -> None:
    if entries.loadable_name_problem(name) is None:
        path = Path("/srv/skills") / name / "SKILL.md"
        assert path.resolve().relative_to("/srv/skills").parts == (name, "SKILL.md")
        assert name.isascii()
        assert "." not in name
    else:
        assert name_problem(name)


def test_old_names_load_with_a_warning() -> None:
    findings = Findings("SKILL.md")
    text = "---\nname: Compare_images\nkind: skill\ndescription: x\n---\n"
    entry, _ = entries.read_entry(text, "Compare_images", "skill", None, findings)
    assert entry is not None
    assert [each.severity for each in findings.found] == ["warning"]
    assert name_problem("text-edits") is name_problem("a") is name_problem("a" * 64) is None


@settings(max_examples=40)
@given(TEXT)
def test_tidying_twice_changes_nothing(text: str) -> None:
    assert tidy(tidy(text)) == tidy(text)
    assert "\r" not in tidy(text)


def test_unseen_characters_are_found_and_useful_joiners_are_not() -> None:
    text = "a\u202eb\u200bc\U000e0041d\x1b\ue000\tx\n\U0001f468\u200d\U0001f469 na\u00efve 汉字"
    assert [char for _, char in invisible(text)] == ["\u202e", "\u200b", "\U000e0041", "\x1b", "\ue000"]
    assert [char for _, char in invisible("a\u200db")] == ["\u200d"]
