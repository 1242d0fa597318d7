"""Options that are read from a file, and the configuration that a run keeps."""

import json
from pathlib import Path

import pytest

from rewardharness.cli.command import JOB_COMMANDS, parse
from rewardharness.cli.main import main
from rewardharness.errors import InputError, RunError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.files import write_json
from rewardharness.jobs import JOBS, read_config


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "demo", "data", "--pairs", "2", "--groups", "0", "--quiet"]) == 0
    assert main(["score", "data", "--judge", "closer", "--run", "run", "--quiet", "--limit", "1"]) == 0
    return tmp_path / "run"


def test_options_of_a_file_give_way_to_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: pairs\nproposals: 7\none-order: true\nfield: [source=before]\nprice: [0.1, 0.4]\nseed: 2\n")
    _, (config, *_), _ = parse("evolve", ["--config", str(file), "--seed", "3"])
    assert config == EvolveConfig(
        "pairs", proposals=7, one_order=True, field=("source=before",), price=(0.1, 0.4), seed=3
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("wat: 1", "wat"),
        ("proposals: many", "proposals"),
        ("proposals: 0", "--proposals 0 is out of range"),
        ("- proposals", "not a mapping"),
        ("job: benchmark", "the configuration of rh benchmark"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_wrong_command_line(
    text: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(text)
    assert main(["evolve", "demo", "--config", str(tmp_path / "run.yaml")]) == 2
    shown = capsys.readouterr()
    assert problem in shown.err and not shown.out


def test_a_run_keeps_its_configuration_and_begins_again_from_it(
    scored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, config = read_config(scored)
    assert job == "score" and (config.judge, config.library, config.limit) == ("closer", "builtin", 1)  # type: ignore[union-attr]
    capsys.readouterr()
    assert main(["score", "--config", str(scored / "config.json"), "--run", "again", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["judge"] == "closer (baseline)"
    first, second = ((scored.parent / name / "results.jsonl").read_text() for name in ("run", "again"))
    assert [json.loads(line)["scores"] for line in first.splitlines()] == [
        json.loads(line)["scores"] for line in second.splitlines()
    ]


def test_a_removed_option_that_makes_no_difference_is_read_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "config.json", {"job": "evolve", "data": "missing", "scope": "library"})
    assert read_config(tmp_path) == ("evolve", EvolveConfig("missing"))
    assert main(["evolve", "--config", str(tmp_path / "config.json")]) == 1
    assert "missing" in capsys.readouterr().err
    write_json(tmp_path / "config.json", {"job": "evolve", "data": "missing", "scope": "entry"})
    with pytest.raises(RunError, match="unknown key scope"):
        read_config(tmp_path)
    assert main(["evolve", "--config", str(tmp_path / "config.json")]) == 2
    assert "scope" in capsys.readouterr().err


@pytest.mark.parametrize("job", JOBS)
def test_every_job_command_takes_a_file(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = JOB_COMMANDS.get(job, job).split()
    assert main([*words, "--config"]) == 2
    assert "--config requires an argument" in capsys.readouterr().err
    assert main([*words, "--config", "/nowhere"]) == 2
    assert "/nowhere cannot be read" in capsys.readouterr().err


def test_a_misspelled_option_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evolve", "demo", "--propsals", "3"]) == 2
    assert "Did you mean --proposals?" in capsys.readouterr().err


def test_a_configuration_is_checked_where_it_is_made() -> None:
    with pytest.raises(InputError, match="--samples 0 is out of range"):
        EvolveConfig("demo", samples=0)


def test_a_file_of_another_job_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"job": "benchmark", "task": "nowhere"}')
    assert main(["benchmark", "--config", str(tmp_path / "config.json")]) == 1, "the task is read, and there is none"
    assert "nowhere" in capsys.readouterr().err
    assert main(["evolve", "demo", "--config", str(tmp_path / "config.json")]) == 2
    assert f"rh benchmark --config {tmp_path}" in capsys.readouterr().err
