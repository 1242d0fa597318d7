import json
import os
import random
import socket
import sys
from pathlib import Path

import pytest
from fixtures_shared import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st
from library_samples import MEASURED, SKILL, TOOL, put, registry, write_sample
from library_samples import RUBRIC as SAMPLE_RUBRIC

from rewardharness.errors import LibraryError
from rewardharness.library import reader
from rewardharness.library.check import check_folder
from rewardharness.library.problems import Problem
from rewardharness.library.store import Library

TEXT_EDITS = "skills/text-edits/SKILL.md"
RUBRIC = "skills/text-edits/rubric.yaml"
READER = "tools/letter-reader/SKILL.md"

TOLD_ELSEWHERE = {"different descriptions": "registry.json", "does not exist": "tools/gone/SKILL.md"}


def besides_triggers(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    return tuple(each for each in problems if "have no triggers" not in each.message)


def found(folder: Path, word: str, measures: list[str] | None = None) -> list[tuple[str, str, int | None]]:
    return [
        (each.severity, each.where, each.line)
        for each in check_folder(folder, measures)
        if word in each.message or word in each.remedy
    ]


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize("value", ['"a number, 0 to 1"', '{"size": 3, "places": [{"x": 1}]}'])
def test_descriptions_of_values_and_nested_keys_are_no_disagreement(folder: Path, value: str) -> None:
    kind = "float" if "number" in value else "dict"
    put(folder, READER, replaced(replaced(TOOL, '"what you read"', value), "text: str", f"text: {kind}"))
    assert besides_triggers(check_folder(folder)) == ()


def with_skill(folder: Path, name: str, text: str, rubric: str) -> None:
    """Add a Skill beside those of the sample."""
    put(folder, f"skills/{name}/SKILL.md", text.replace("name: text-edits", f"name: {name}"))
    put(folder, f"skills/{name}/rubric.yaml", rubric)
    index = json.loads((folder / "registry.json").read_text(encoding="utf-8"))
    row = index["entries"]["text-edits"]
    index["entries"][name] = row | {"path": f"skills/{name}/SKILL.md"}
    put(folder, "registry.json", json.dumps(index))


def test_copies_and_contradictions_between_skills_are_found(folder: Path) -> None:
    with_skill(folder, "signs", SKILL, SAMPLE_RUBRIC.replace("[1, 4]", "[0, 1]"))
    message = "Criterion `spelling` has a different scale in `text-edits`"
    other_order = "Criterion `spelling` has a different scale in `signs`"
    assert [*found(folder, message), *found(folder, other_order)][0][0] == "warning"
    assert len(found(folder, "is nearly identical to")) == 1


def test_phrases_of_instructions_are_found(folder: Path) -> None:
    put(folder, TEXT_EDITS, SKILL + "Such as: put a tiny GREEN hat on the sheep.")
    instructions = ["Put a tiny green hat on the left sheep", "Make it red"]
    problems = [str(each) for each in besides_triggers(check_folder(folder, None, instructions))]
    assert len(problems) == 1 and "'a tiny green hat on the' is copied from the instruction" in problems[0]
    assert besides_triggers(check_folder(folder)) == ()


def test_a_sound_library_has_no_problems(folder: Path) -> None:
    assert besides_triggers(check_folder(folder, ["sharpness", "text_match"])) == ()


@pytest.mark.parametrize(
    ("file", "text", "word", "severity", "line"),
    [
        (READER, replaced(TOOL, "all text.", "Image A."), "`system_prompt` refers to candidates by", "warning", 6),
        (READER, replaced(TOOL, "the letters in an image", "candidate B"), "description refers to", "warning", 5),
        (READER, replaced(TOOL, ": str", ": str\n  image_2_size: int"), "`output_schema` refers", "warning", 8),
        (READER, replaced(TOOL, '"what you read"', "true"), "is of type bool in the system prompt", "warning", 6),
        (READER, replaced(TOOL, '"what you read"', '["a word"]'), "is of type list in the system", "warning", 6),
        (READER, replaced(TOOL, "text: str", "text: list[str]"), "prompt and list in", "warning", 6),
        (READER, replaced(TOOL, "text: str", "text: {type: boolean}"), "prompt and bool in", "warning", 6),
        (READER, replaced(TOOL, "Read all text. Reply", "Reply"), "-", "", None),
        (READER, replaced(TOOL, "JSON object", "word"), "does not request JSON", "warning", 6),
        (READER, replaced(TOOL, '{"text"', '{"words"'), "`words`, but `output_schema` requires `text`", "warning", 6),
        (READER, replaced(TOOL, "text: str", "text: str\n  sure: bool"), "does not mention `sure`", "warning", 6),
        (READER, replaced(TOOL, '": "what you read"}.', '" and then say what you'), "truncated", "warning", 6),
        (READER, replaced(TOOL, "what you read\"}.'", "x\"}\n\n\n  The format:'"), "truncated", "warning", 6),
        (READER, replaced(TOOL, "output_schema", "measure: sharpness\noutput_schema"), "both", "warning", 6),
        (READER, replaced(TOOL, "output_schema", "measure: sharpnes\noutput_schema"), "mean `sharpness`", "error", 7),
        (READER, replaced(TOOL, "Call it when text is small.\n", ""), "body is empty", "warning", 10),
        (TEXT_EDITS, replaced(SKILL, "letter-reader", "letter-raeder"), "mean `letter-reader`", "warning", 12),
        (TEXT_EDITS, SKILL + "\nUse the `made-up-tool` here.\n", "mentions `made-up-tool`", "warning", 14),
        (TEXT_EDITS, SKILL + '\n<tool>{"name": "nothing"}</tool>\n', "mentions `nothing`", "warning", 14),
        (TEXT_EDITS, SKILL + "\nPrefer Image A.\n", "'Image A'", "warning", 14),
        (TEXT_EDITS, SKILL + "\nPrefer the left image.\n", "'left image'", "warning", 14),
        (TEXT_EDITS, SKILL + "\nThe left side of an image a person sees.\n", "position", "", None),
        (TEXT_EDITS, SKILL + "\nEnd with <answer>.\n", "<answer>", "warning", 14),
        (TEXT_EDITS, SKILL + "\nScore\u202e4.\n", "U+202E", "warning", 14),
        (TEXT_EDITS, replaced(SKILL, "How to judge edits of text.", '"a\\u202Eb"'), "escape sequences", "warning", 5),
        (TEXT_EDITS, replaced(SKILL, "metadata:\n  ", ""), "outside `metadata`", "warning", 6),
        (TEXT_EDITS, replaced(SKILL, "metadata:", "measure: x\nmetadata:"), "does not use `measure`", "warning", 6),
        (TEXT_EDITS, replaced(SKILL, "text, word", "/(a+)+/"), "triggers", "error", 7),
        (TEXT_EDITS, replaced(SKILL, "How to judge", "How not to judge"), "different descriptions", "warning", 1),
        (TEXT_EDITS, replaced(SKILL, "schema_version: 2", "schema_version: 3"), "schema_version is 3", "warning", 2),
        (TEXT_EDITS, replaced(SKILL, "schema_version: 2\n", ""), "schema_version", "", None),
        (TEXT_EDITS, SKILL + "x" * 25_000, "judges read all of it", "note", 10),
        (TEXT_EDITS, b"\xff\xfe" + SKILL.encode(), "not UTF-8", "error", 1),
        (TEXT_EDITS, b"---\nname: \xff", "not UTF-8", "error", 2),
        ("tools/sharpness-meter/SKILL.md", replaced(MEASURED, "measure: sharpness\n", ""), "neither", "error", 2),
        (RUBRIC, "criteria:\n- {id: a, text: b, measure: txt_match}", "`text_match`", "error", 2),
        (RUBRIC, "criteria:\n- {id: a, text: Image A is best}", "position", "warning", 2),
        (RUBRIC, "criteria:\n- {id: a, text: b, weight: x}", "weight", "error", 2),
        ("tools/letter-reader/rubric.yaml", "x", "no rubric", "warning", None),
        ("lineage.jsonl", "{}\n[]\n{", "JSON object", "warning", 2),
        ("registry.json", "{", "valid JSON", "error", 1),
        ("registry.json", "[]", "JSON object", "error", 1),
        ("registry.json", '{"schema_version": 9, "entries": {}}', "schema_version is 9", "error", 1),
        ("registry.json", '{"a": 1e999}', "valid JSON", "error", None),
        ("registry.json", '{"a": ' + "[" * 5000, "valid JSON", "error", None),
        ("registry.json", "9" * 5000, "valid JSON", "error", None),
        ("registry.json", '{"a": "\\ud800"}', "surrogate", "error", None),
        ("registry.json", '{\n"a-b": {"type": "thing"}}', "`kind` of", "error", 2),
        ("registry.json", '{"a-b": {"type": "skill"},\n"a-b": {"type": "tool"}}', "occurs twice", "error", 1),
        ("registry.json", replaced(registry(), '"letter-reader"', '"gone"'), "does not exist", "error", None),
        ("registry.json", replaced(registry(), "skills/text-", "skills/"), "is ignored", "warning", 1),
        ("registry.json", replaced(registry(), "skills/text-edits/S", "../text-edits/S"), "outside the", "error", 1),
        ("registry.json", replaced(registry(), "skills/text-edits/S", "/text-edits/S"), "outside the", "error", 1),
        ("registry.json", replaced(registry(), "letter-reader", "Text-Edits"), "only in case", "error", 1),
        ("skills/orphan/SKILL.md", SKILL, "not in the registry", "warning", None),
        ("tools/text-edits/SKILL.md", SKILL, "registered as a skill", "warning", None),
        ("skills/a b/SKILL.md", SKILL, "name is invalid", "warning", None),
        ("tools/letter-reader/run.py", "", "contains no code", "error", None),
        ("evil.PTH", "", "contains no code", "error", None),
        ("notes/a.ipynb", "", "contains no code", "error", None),
        ("weights.pkl", "", "can contain code", "error", None),
        ("extra.txt", "", "not read", "note", None),
        ("skills/text-edits/example.png", "", "not read", "note", None),
        ("README.md", "", "not read", "", None),
        ("benchmark.json", "{}", "not read", "", None),
        (".git/config", "", "not read", "", None),
    ],
)  # fmt: skip
def test_each_oddity_is_told_with_its_place(
    folder: Path, file: str, text: str | bytes, word: str, severity: str, line: int | None
) -> None:
    before = found(folder, word, ["sharpness", "text_match"])
    put(folder, file, text)
    new = [each for each in found(folder, word, ["sharpness", "text_match"]) if each not in before]
    if not severity:
        assert new == []
        return
    where = TOLD_ELSEWHERE.get(word, file)
    assert (severity, where, line) in new, check_folder(folder)


def test_whatever_loading_refuses_is_an_error_of_the_check(folder: Path) -> None:
    put(folder, TEXT_EDITS, "no front matter")
    put(folder, READER, "---\nname: [\n---\n")
    assert len([each for each in check_folder(folder) if each.severity == "error"]) == 2
    with pytest.raises(LibraryError, match=rf"{TEXT_EDITS}:1: .*\(and 1 more\)") as caught:
        Library.load(folder)
    assert caught.value.next_step == f"rh library check {folder}"


def test_measures_are_checked_only_when_they_are_known(folder: Path) -> None:
    assert not found(folder, "Unknown measure")
    assert len(found(folder, "Unknown measure", [])) == 2
    (folder / RUBRIC).unlink()
    assert found(folder, "requires a model as the judge") == [("note", "", None)]


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    put(tmp_path, "file", "")
    assert found(tmp_path / "gone", "folder does not exist")
    assert found(tmp_path / "file", "not a folder")
    assert found(tmp_path, "no registry.json")


def test_links_pipes_sockets_and_devices_are_refused_and_not_opened(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    put(tmp_path, "secret/SKILL.md", replaced(SKILL, "Look at each letter", "password"))
    (folder / TEXT_EDITS).unlink()
    (folder / TEXT_EDITS).symlink_to(secret / "SKILL.md")
    (folder / "tools/letter-reader/SKILL.md").unlink()
    (folder / "tools/letter-reader").rmdir()
    (folder / "tools/letter-reader").symlink_to(secret)
    (folder / "tools/sharpness-meter/SKILL.md").unlink()
    os.mkfifo(folder / "tools/sharpness-meter/SKILL.md")
    (folder / "loop").symlink_to("loop")
    (folder / "lineage.jsonl").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        previous = os.getcwd()
        os.chdir(folder)
        try:
            server.bind("lineage.jsonl")
        finally:
            os.chdir(previous)
        problems = check_folder(folder)
    errors = {each.where for each in problems if each.severity == "error"}
    assert errors >= {TEXT_EDITS, READER, "tools/sharpness-meter/SKILL.md", "loop", "lineage.jsonl"}
    assert "password" not in str(problems)
    with pytest.raises(LibraryError, match="is a link"):
        Library.load(folder)


def test_the_kind_folder_and_the_registry_may_not_be_links_either(folder: Path, tmp_path: Path) -> None:
    (folder / "skills").rename(tmp_path / "outside")
    (folder / "skills").symlink_to(tmp_path / "outside")
    assert ("error", TEXT_EDITS, None) in found(folder, "is a link")
    (folder / "registry.json").rename(tmp_path / "registry.json")
    (folder / "registry.json").symlink_to(tmp_path / "registry.json")
    assert ("error", "registry.json", None) in found(folder, "is a link")


def test_second_names_of_a_file_are_noted_and_load(folder: Path, tmp_path: Path) -> None:
    os.link(folder / TEXT_EDITS, tmp_path / "twin")
    assert found(folder, "2 hard links") == [("note", TEXT_EDITS, None)]
    assert "text-edits" in Library.load(folder)


def test_sizes_and_numbers_are_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / READER).open("r+b") as stream:
        stream.truncate(10**12)  # a sparse file: takes no room on the disk
    assert ("error", READER, None) in found(folder, "the limit is 262144")
    assert found(folder, "the limit is")
    rows = ", ".join(f'"e{number}": {{"type": "skill"}}' for number in range(2001))
    put(folder, "registry.json", "{" + rows + "}")
    assert found(folder, "2001 entries") == [("error", "registry.json", None)]
    put(folder, "registry.json", "{" + " " * (4 * 1024 * 1024) + "}")
    assert found(folder, "4194304")
    monkeypatch.setattr("rewardharness.library.check.MAX_LISTED", 3)
    assert found(folder, "more than 3 files")


def test_the_whole_of_what_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reader.MAX_TOTAL == 10 << 20
    monkeypatch.setattr(reader, "MAX_TOTAL", 2000)
    rows = ", ".join(f'"e{number}": {{"type": "skill"}}' for number in range(5))
    put(tmp_path, "registry.json", "{" + rows + "}")
    for number in range(5):
        text = f"---\nname: e{number}\nkind: skill\ndescription: d\n---\n" + "x" * 500
        put(tmp_path, f"skills/e{number}/SKILL.md", text)
    assert found(tmp_path, "larger than 2000")
    with pytest.raises(LibraryError, match="2000"):
        Library.load(tmp_path)


def test_nothing_in_the_folder_is_run(folder: Path, tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    for name in ("conftest.py", "__init__.py", "skills/__init__.py", "skills/text-edits/tool.py", "sitecustomize.py"):
        put(folder, name, code)
    put(folder, "evil.pth", f"import os; {code}")
    before = set(sys.modules)
    Library.load(folder)
    problems = check_folder(folder)
    assert len([each for each in problems if "contains no code" in each.message]) == 6
    assert not (tmp_path / "ran").exists()
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    "name", ["A" * 65, "a/b", *"../x|..|/etc|a\x00|\u202ex|nul|| |\u0430|a\nb|schema_version".split("|")], ids=ascii
)
def test_hostile_names_in_the_registry_read_nothing_outside(folder: Path, name: str) -> None:
    put(folder.parent, "x/SKILL.md", SKILL)
    put(folder, "registry.json", json.dumps({name: {"type": "skill", "path": f"skills/{name}/SKILL.md"}}))
    errors = [each for each in check_folder(folder) if each.severity == "error"]
    assert errors and all(str(each).isprintable() for each in errors)
    with pytest.raises(LibraryError):
        Library.load(folder)


JUNK = [b"---\n", b"&a ", b"*a", b"\xff", b"\x00", b": ", b"\t", b'"', b"{", b"[", b"\n", b"- ", b"!!x ", b"9" * 50]


def mutate(folder: Path, rng: random.Random, outside: Path) -> None:
    """Damage one thing in a folder, the way disks, editors and attackers do."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if not files:
        return
    file = rng.choice(files)
    data = file.read_bytes()
    at = rng.randrange(len(data) + 1)
    junk = rng.choice(JUNK)
    what = rng.randrange(9)
    if what <= 2:
        file.write_bytes(data[:at] + junk + data[at:])
    elif what == 3:
        file.write_bytes(data[:at])
    elif what == 4:
        file.write_bytes(data[:at] + data[at + rng.randrange(20) :])
    elif what == 5:
        file.unlink()
    elif what == 6:
        file.unlink()
        file.symlink_to(outside)
    elif what == 7:
        file.unlink()
        file.mkdir()
    else:
        target = file.with_name(rng.choice(["SKILL.md", "registry.json", "é\n.py", "x" * 200]))
        if not target.is_dir():
            file.rename(target)


@settings(max_examples=60, suppress_health_check=SHARED)
@given(st.integers(0, 2**32), st.integers(1, 2), st.integers(1, 4))
def test_no_damage_makes_the_check_raise_and_it_agrees_with_loading(
    tmp_path_factory: pytest.TempPathFactory, seed: int, version: int, times: int
) -> None:
    folder = write_sample(tmp_path_factory.mktemp("damaged"), version)
    rng = random.Random(seed)
    for _ in range(times):
        mutate(folder, rng, Path("/etc/passwd"))
    problems = check_folder(folder)
    assert all(isinstance(each, Problem) and each.message for each in problems)
    assert "root:" not in str(problems)
    try:
        library = Library.load(folder)
    except LibraryError:
        assert any(each.severity == "error" for each in problems)
    else:
        library.save(folder.parent / f"{folder.name}-again")
        assert Library.load(folder.parent / f"{folder.name}-again") == library


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("archive_gemini-v1", ["truncated", "JSON", "`comparison_analysis`", "compare_images"]),
        ("archive_gemini-v3", ["truncated", "`query_result`", "`intended_edits`", "'Image A'"]),
        ("archive_gemini-v4", ["<think>", "'Image A'"]),
        ("archive_gemini-v5-old", ["`response`", "'Image A'"]),
        ("seed_library", ["JSON", "`image_1_text`"]),
    ],
)
def test_published_libraries_load_and_their_known_faults_told(real_data: Path, name: str, faults: list[str]) -> None:
    problems = check_folder(real_data / "libraries" / name)
    assert {each.severity for each in problems if each.where} == {"warning"}
    [untriggered, note] = [each for each in problems if not each.where]
    assert untriggered.severity == "warning" and "have no triggers" in untriggered.message
    assert note.severity == "note" and "requires a model" in note.message
    text = "\n".join(map(str, problems))
    assert [words for words in faults if words not in text] == []
    assert len(Library.load(real_data / "libraries" / name)) > 0
