"""Options that are read from a file, and the configuration that a run keeps."""

from pathlib import Path

import pytest
from commands import Rh

from rewardharness.cli.command import JOB_COMMANDS, parse
from rewardharness.errors import InputError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.jobs import JOBS


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
def test_a_file_that_cannot_be_used_is_a_wrong_command_line(text: str, problem: str, tmp_path: Path, rh: Rh) -> None:
    (tmp_path / "run.yaml").write_text(text)
    shown = rh("evolve", "demo", "--config", str(tmp_path / "run.yaml"), status=2)
    assert problem in shown.err and not shown.out


@pytest.mark.parametrize("job", JOBS)
def test_every_job_command_takes_a_file(job: str, rh: Rh) -> None:
    words = JOB_COMMANDS.get(job, job).split()
    assert "--config requires an argument" in rh(*words, "--config", status=2).err
    assert "/nowhere cannot be read" in rh(*words, "--config", "/nowhere", status=2).err


def test_a_misspelled_option_is_corrected(rh: Rh) -> None:
    assert "Did you mean --proposals?" in rh("evolve", "demo", "--propsals", "3", status=2).err


def test_a_configuration_is_checked_where_it_is_made() -> None:
    with pytest.raises(InputError, match="--samples 0 is out of range"):
        EvolveConfig("demo", samples=0)


def test_a_file_of_another_job_is_named(tmp_path: Path, rh: Rh) -> None:
    (tmp_path / "config.json").write_text('{"job": "benchmark", "task": "nowhere"}')
    assert "nowhere" in rh("benchmark", "--config", tmp_path / "config.json", status=1).err, "the task is read"
    assert (
        f"rh benchmark --config {tmp_path}"
        in rh("evolve", "demo", "--config", str(tmp_path / "config.json"), status=2).err
    )


def test_help_fits_on_one_screen_and_names_similar_commands(rh: Rh) -> None:
    lines = rh("--help").out.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 110
    assert "Did you mean benchmark?" in rh("benchmrk", status=2).err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell: str, rh: Rh) -> None:
    script = rh("--show-completion", shell).out
    assert all(word in script for word in ("push-library", "rollback", "--proposals"))
