"""Declared benchmarks of editors: their own data, prompts, scale and categories, and published grades beside ours."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_server import Call, ModelServer
from profile_parts import marker, stand_in

from rewardharness.cli.arena import arena_rows
from rewardharness.cli.main import main
from rewardharness.editors.benchmark import OVERALL, find_benchmark, list_benchmarks
from rewardharness.editors.report import read_ratings
from rewardharness.files import write_bytes
from rewardharness.judging.profile_opening import load_profile
from rewardharness.measure.images import encode_png
from rewardharness.settings import Settings

KINDS = [*find_benchmark("imgedit-bench").categories, "add", "style", "extract"]  # type: ignore[union-attr]
REPLIES = "Object Identity: {0}\nMask Precision: {1}\nVisual Quality: {1}"
FALLBACK = "Prompt Compliance: {0}\nVisual Naturalness: {1}\nPhysical Consistency: {1}"


def drawn(number: int, *, changed: bool = False) -> bytes:
    """An image of its own for each number."""
    pixels = np.random.default_rng(number).integers(60, 200, (32, 32, 3), dtype=np.uint8)
    pixels[8:24, 8:24] = (200, 30, 30) if changed else (90, 90, 90)
    return encode_png(pixels)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of ImgEdit-Bench with twelve rows in its own form."""
    rows = {}
    for number, kind in enumerate(KINDS):
        name = f"animal/{number:09d}.png"
        write_bytes(tmp_path / "copy" / name, drawn(number))
        rows[str(100 + number)] = {"id": name, "prompt": f"Do it, number {number}.", "edit_type": kind}
        for folder, made in (("same", drawn(number)), ("painted", drawn(number, changed=True))):
            if (folder, number) != ("painted", 0):
                write_bytes(tmp_path / folder / f"{100 + number}.png", made)
    (tmp_path / "copy" / "basic_edit.json").write_text(json.dumps(rows, indent=4), encoding="utf-8")
    return tmp_path / "copy"


@pytest.fixture
def graders() -> Iterator[tuple[ModelServer, list[str]]]:
    """A model that grades an untouched copy 1 for compliance, else 5, and everything else 4; and the texts it got."""
    asked: list[str] = []
    profile = load_profile("imgedit-judge")[0]

    def respond(call: Call) -> str | None:
        text = next((name for name in profile.texts if marker(profile, name) in call.text), "")
        if not text:
            return None
        asked.append(text)
        [message] = call.json["messages"]
        before, after = (part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url")
        return (REPLIES if text == "extract" else FALLBACK).format(1 if before == after else 5, 4)

    with ModelServer(respond, uuid_cache=False) as server:
        yield server, asked


def test_a_copy_of_imgedit_bench_is_graded_in_its_own_scale(
    copy: Path,
    graders: tuple[ModelServer, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server, asked = graders
    monkeypatch.setenv("RH_HOME", str(copy.parent / "home"))
    run = copy.parent / "run"
    words = ["arena", "imgedit-bench", "--source", str(copy), "--run", str(run), "--quiet", "--yes"]
    words += ["--editors", f"folder:{copy.parent / 'same'},folder:{copy.parent / 'painted'}"]
    words += ["--judge", f"{stand_in('imgedit-judge', copy.parent)}:gpt-4.1@{server.url}"]
    assert main(words) == 3, "one edit is missing"
    printed = capsys.readouterr().out
    assert "GPT-4o-Image" in printed and "4.20" in printed and "same" in printed
    assert sorted(asked) == sorted([*KINDS, *KINDS[1:]]), "the category of the data decides about the prompt"
    found = read_ratings(run)
    best, other = found.grades
    assert (best.name, best.overall.n, best.overall.judged) == ("painted", 12, 11)
    assert (other.name, other.overall.mean, other.overall.judged) == ("same", pytest.approx(3.0), 12)
    assert best.overall.mean == pytest.approx(13 / 3) and best.grades["extract"].mean == pytest.approx(13 / 3)
    assert best.grades["add"].n == 2 and best.grades["add"].judged == 1 and best.overall.interval is None
    assert found.n == 24 and found.judged == 23 and found.edits["painted"].failed == 1 and found.usage.calls == 23
    assert [text for text in found.differs if "12 of 737" in text] and any("1 of 24" in text for text in found.differs)
    assert not any("gpt-4.1" in text for text in found.differs) and any("prompts" in text for text in found.differs)
    page = (run / "report.html").read_text("utf-8")
    assert "Not comparable" in page and "Published grades by category" in page and "4.96" not in page
    rows = {(row.part, row.editor): row for row in arena_rows(found)}
    assert len(rows) == 2 * 10 and rows["overall", "same"].value == pytest.approx(3) and rows["add", "same"].n == 2
    before = len(asked)
    assert main(words) == 3 and len(asked) == before and read_ratings(run).grades == found.grades
    shutil.rmtree(copy.parent / "same")
    (copy.parent / "same").mkdir()
    assert main([word.replace(str(run), str(copy.parent / "other")) for word in words]) == 3
    again = read_ratings(copy.parent / "other").grades
    assert [each.overall.judged for each in again] == [11, 0], "an editor that makes nothing takes nothing from others"


def test_the_declarations_are_whole(copy: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    known = {each.name: each for each in list_benchmarks()}
    assert {name: sum(each.categories.values()) for name, each in known.items()} == {
        "gedit-bench-en": 606, "gedit-bench-cn": 606, "imgedit-bench": 737, "risebench": 360, "kris-bench": 1118,
        "edit-compass-general-en": 0, "imagenhub-edits": 179,
    }  # fmt: skip
    for each in known.values():
        low, high = each.scale
        assert load_profile(each.profile)[0].score is not None and each.model
        for table in each.published:
            assert OVERALL in table.columns and {*table.columns} <= {*each.categories, OVERALL}
            assert {len(row) for row in table.rows.values()} == {len(table.columns)}
            assert all(low <= value <= high for row in table.rows.values() for value in row) and table.url
    table = known["imgedit-bench"].published[0]
    means = {name: sum(row[:-1]) / 9 - row[-1] for name, row in table.rows.items()}
    assert [name for name, apart in means.items() if abs(apart) > 0.011] == ["Kontext-dev", "Ovis-U1", "GPT-4o-Image"]
    monkeypatch.setenv("RH_HOME", str(copy.parent / "home"))
    row = {"key": "k1", "task_type": "ps_human", "instruction": "A", "input_image": "animal/000000001.png"}
    lines = [json.dumps({**row, "instruction_language": each, "instruction": each * 2}) for each in ("en", "cn")]
    (copy / "gedit.jsonl").write_text("\n".join(lines), encoding="utf-8")
    [example] = known["gedit-bench-cn"].open(Settings.from_env(), copy / "gedit.jsonl").examples
    assert (example.id, example.instruction, example.category) == ("k1", "cncn", "ps_human")
    assert main(["arena", "imgedit-bench", "--editors", "painter:0"]) == 1
    assert "Benchmark.tar" in capsys.readouterr().err
    assert main(["arena", str(copy), "--editors", "painter:0"]) == 1 and "benchmark list" in capsys.readouterr().err
    assert main(["benchmark", "list"]) == 0 and "gedit-bench-cn" in capsys.readouterr().out
    assert main(["arena", "imgedit-bench", "--editors", "painter:0", "--votes", str(copy)]) == 1
    assert "compares no edits" in capsys.readouterr().err
    rows = json.loads((copy / "basic_edit.json").read_text("utf-8"))
    rows["100"]["id"] = "../same/100.png"
    (copy / "basic_edit.json").write_text(json.dumps(rows), encoding="utf-8")
    assert main(["arena", "imgedit-bench", "--source", str(copy), "--editors", "painter:0"]) == 1
    assert "same/100" in capsys.readouterr().err


def rise_rows(folder: Path) -> None:
    """Twelve rows of RISEBench: all forms that its authors ask about in different ways."""
    kinds = ["temporal_reasoning", "causal_reasoning", "spatial_reasoning", "spatial_reasoning"]
    told = [{}, {"consistency_free": 1}, {"reasoning_img": 1}, {"reference_img": "spatial/ref.png", "reference": None}]
    rows = [{"category": kind, "reference": "EXPECTED", **more} for kind, more in zip(kinds * 2, told * 2, strict=True)]
    logic = [{"reference_txt": "EXPECTED"}, {"reference_img": "spatial/ref.png"}]
    logic += [{"reference_img": "spatial/ref.png", "reasoning_wo_ins": 1}, {"reference_txt": "EXPECTED"}]
    rows += [{"category": "logical_reasoning", **more} for more in logic]
    write_bytes(folder / "spatial" / "ref.png", drawn(99))
    for number, row in enumerate(rows):
        write_bytes(folder / "spatial" / f"{number}.png", drawn(number))
        row |= {"index": f"e{number}", "instruction": f"Do it, number {number}.", "image": f"spatial/{number}.png"}
    (folder / "datav2_total_w_subtask.json").write_text(json.dumps(rows), encoding="utf-8")


def kris_rows(folder: Path) -> None:
    """Twelve rows of KRIS-Bench in four groups, and one of a group with several images, which is left out."""
    for kind in ("color_change", "viewpoint_change", "biology", "anomaly_correction"):
        truth = "gt.png" if kind == "viewpoint_change" else ""
        rows = {str(n): {"ori_img": f"{n}.png", "gt_img": truth, "ins_en": f"Do {n}.", "explain_en": "EXPECTED"}
                for n in range(3)}  # fmt: skip
        for name in (*map(str, range(3)), "gt"):
            write_bytes(folder / kind / f"{name}.png", drawn(len(kind) + 7 * len(name) + ord(name[0])))
        (folder / kind / "annotation.json").write_text(json.dumps(rows), encoding="utf-8")
    row = {"ori_img": ["1.png", "2.png"], "gt_img": "", "ins_en": "Guess.", "explain_en": ""}
    write_bytes(folder / "temporal_prediction" / "1.png", drawn(1))
    (folder / "temporal_prediction" / "annotation.json").write_text(json.dumps({"1": row}), encoding="utf-8")


def compass_rows(folder: Path) -> None:
    """Twelve rows of Edit-Compass, whose paths of images begin in the folder of the copy."""
    for kind in ("ADD", "Style_Transfer", "Extract"):
        place = f"Part1/{kind}"
        rows = [{"save_id": n, "prompt_en": f"Do {n}.", "source_image": f"{place}/{n}.png", "IF": True, "VQ": True,
                 "IC": kind != "Style_Transfer"} for n in range(4)]  # fmt: skip
        for n in range(4):
            write_bytes(folder / place / f"{n}.png", drawn(len(kind) * 10 + n))
        (folder / place / f"{kind}.json").write_text(json.dumps(rows), encoding="utf-8")


def hub_rows(folder: Path) -> None:
    """Twelve rows of ImagenHub."""
    lines = []
    for n in range(12):
        write_bytes(folder / f"{n}.png", drawn(n))
        row = {"img_id": n // 2, "turn_index": n % 2, "instruction": f"Do {n}.", "source_img": f"{n}.png"}
        lines.append(json.dumps(row))
    (folder / "rows.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "make", "calls", "grade"),
    [
        ("risebench", rise_rows, 2 * (3 + 2 + 3 + 3) + 8, 100 * 8 / 12),
        ("kris-bench", kris_rows, 36, 75.0),
        ("edit-compass-general-en", compass_rows, 4 * 8, 4.0),
        ("imagenhub-edits", hub_rows, 24, 0.4),
    ],
)
def test_a_copy_of_twelve_rows_is_graded_with_the_prompts_that_each_row_needs(
    name: str, make: Any, calls: int, grade: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    source, benchmark = tmp_path / "copy", find_benchmark(name)
    assert benchmark is not None
    make(source)
    profile = load_profile(benchmark.profile)[0]
    data = benchmark.open(Settings.from_env(), source / "rows.jsonl" if "hub" in name else source)
    assert len(data.examples) == 12 and {each.category for each in data.examples} <= {*benchmark.categories}
    for number, example in enumerate(data.examples):
        write_bytes(tmp_path / "edits" / f"{example.id}.png", drawn(1000 + number))
    asked: dict[str, list[Call]] = {}

    def respond(call: Call) -> str | None:
        text = next((each for each in profile.texts if marker(profile, each) in call.text), "")
        form = next((each.reply for each in profile.calls.values() for part in each.user if text in part.uses), None)
        if form is None:
            return None
        asked.setdefault(text, []).append(call)
        value = 1 if text.startswith("logic") else 5 if name == "risebench" and "reason" not in text else 4
        if form.lines:
            return f"**Final Score:** **{value}**"
        if name == "imagenhub-edits":
            return '{"score": [4, 4]}'
        return json.dumps({path[0]: value for path in form.json.values()})

    with ModelServer(respond, uuid_cache=False) as server:
        judge = f"{stand_in(benchmark.profile, tmp_path)}:{benchmark.model}@{server.url}"
        words = ["arena", name, "--source", str(source / "rows.jsonl" if "hub" in name else source), "--quiet", "--yes"]
        words += ["--editors", f"folder:{tmp_path / 'edits'}", "--judge", judge, "--run", str(tmp_path / "run")]
        assert main(words) == 0
    found = read_ratings(tmp_path / "run")
    assert found.judged == found.n == 12 and found.grades[0].overall.mean == pytest.approx(grade)
    assert sum(map(len, asked.values())) == calls == found.usage.calls
    if benchmark.told and "EXPECTED" in json.dumps([dict(each.notes) for each in data.examples]):
        texts = [call.text for each in asked.values() for call in each]
        assert any("EXPECTED" in text for text in texts) and not all("EXPECTED" in text for text in texts)
    assert any("prompts" in text for text in found.differs) and benchmark.published[0].rows
