"""Options that are read from a file, also of TIGER-AI-Lab/RewardHarness, and the configuration that a run keeps."""

from pathlib import Path

import pytest
from commands import Rh

from rewardharness.cli import command
from rewardharness.cli.command import COMMANDS, JOB_COMMANDS, parse
from rewardharness.errors import InputError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.jobs import JOBS
from rewardharness.models.open import read_endpoints


def test_options_of_a_file_give_way_to_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: pairs\nproposals: 7\none-order: true\nfield: [source=before]\nprice: [0.1, 0.4]\nseed: 2\n")
    _, (config, *_), _ = parse("evolve", ["--config", str(file), "--seed", "3"])
    options = {"proposals": 7, "one_order": True, "field": ("source=before",), "price": (0.1, 0.4), "seed": 3}
    assert config == EvolveConfig("pairs", **options)  # type: ignore[arg-type]


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
    said = rh("evolve", "demo", "--config", str(tmp_path / "config.json"), status=2).err
    assert f"rh benchmark --config {tmp_path}" in said


def test_help_fits_on_one_screen_and_names_similar_commands(rh: Rh) -> None:
    lines = rh("--help").out.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 110
    assert "Did you mean benchmark?" in rh("benchmrk", status=2).err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell: str, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    some = {name: COMMANDS[name] for name in ("evolve", "release", "push-library")}  # all take long
    monkeypatch.setattr(command, "COMMANDS", some)
    script = rh("--show-completion", shell).out
    assert all(word in script for word in ("push-library", "rollback", "--proposals"))


CONFIG = """
schema_version: 2
model: {name: Qwen2.5-VL-7B-Instruct, path: /models/qwen, dtype: bfloat16}
gemini: {model: gemini-3.1-pro-preview}
evolution:
  train_dataset: AgPerry/EditReward-Data-100
  train_n: 60
  val_n: 40
  max_iterations: 5
  batch_concurrent: 128
  explore_margin: 0.075
  augment_swap: true
  prune_every_n: 50
  seed: 42
benchmark: {dataset: TIGER-Lab/EditReward-Bench, max_workers: 64}
"""


def config_file(folder: Path, text: str = CONFIG) -> str:
    path = folder / "default.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_its_configuration_is_an_evolution_with_its_schedule(tmp_path: Path) -> None:
    words = ["--config", config_file(tmp_path), "--judge", "vllm:qwen@http://127.0.0.1:1/v1"]
    _, (config, *_), _ = parse("evolve", words)
    assert (config.data, config.schedule, config.iterations) == ("AgPerry/EditReward-Data-100", "paper", 4)
    assert (config.orchestrator, config.concurrency, config.seed) == ("gemini:gemini-3.1-pro-preview", 128, 42)


def test_its_configuration_or_one_section_of_it_is_a_benchmark(tmp_path: Path) -> None:
    section = "schema_version: 2\nbenchmark: {dataset: TIGER-Lab/EditReward-Bench, max_workers: 64}\n"
    for text, router in ((CONFIG, "gemini:gemini-3.1-pro-preview"), (section, None)):
        _, (config, *_), _ = parse("benchmark", ["run", "--config", config_file(tmp_path, text)])
        assert (config.task, config.concurrency, config.router) == ("editreward-bench", 64, router)


def test_arguments_precede_and_fixed_values_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = config_file(tmp_path, CONFIG.replace("0.075", "0.2"))
    _, (config, *_), _ = parse("evolve", ["pairs", "--config", file, "--orchestrator", "builtin"])
    assert (config.data, config.orchestrator) == ("pairs", "builtin")
    assert "evolution.explore_margin: 0.2 has no effect; --schedule paper uses 0.075." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CONFIG + "typo: 1\n", "unknown keys: typo"),
        (CONFIG.replace("seed:", "sed:"), "unknown keys: evolution.sed"),
        (CONFIG.replace("seed: 42", "seed: many"), "'many' is not a whole number"),
        ("gemini: {model: x}\nevolution: 3\n", "evolution is not a mapping"),
    ],
)
def test_a_wrong_configuration_is_one_error(text: str, problem: str, tmp_path: Path, rh: Rh) -> None:
    assert problem in rh("evolve", "--config", config_file(tmp_path, text), status=2).err


def test_other_jobs_refuse_it(tmp_path: Path, rh: Rh) -> None:
    assert "Use it with rh evolve or rh benchmark." in rh("score", "--config", config_file(tmp_path), status=2).err


def test_endpoints_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "endpoints.txt"
    file.write_text("# two servers\nhttp://10.0.0.1:8000/v1\n\nhttp://10.0.0.2:8000/v1  # second\n", encoding="utf-8")
    spec = "vllm:org/qwen@http://10.0.0.1:8000/v1,http://10.0.0.2:8000/v1"
    assert read_endpoints(f"vllm:org/qwen@{file}") == spec
    assert read_endpoints(spec) == spec and read_endpoints("vllm:a@b") == "vllm:a@b"
    _, (config, *_), _ = parse("evolve", ["demo", "--judge", f"vllm:org/qwen@{file}"])
    assert config.judge == spec
    words = ["run", "demo", "--baselines", "random", "--baselines", f"vllm:org/qwen@{file}"]
    _, (table, *_), _ = parse("benchmark", words)
    assert table.baselines == ("random", spec)
    _, _, options = parse("doctor", ["--judge", f"vllm:org/qwen@{file}"])
    assert options["judge"] == spec


@pytest.mark.parametrize(
    ("text", "problem"), [("# none\n", "has no URL"), ("http://a/v1\nsecret\n", "line 2: not a URL")]
)
def test_a_file_without_endpoints_is_an_error_that_shows_none_of_it(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "endpoints.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem) as error:
        read_endpoints(f"vllm:a@{file}")
    assert "secret" not in str(error.value)


def test_a_checkpoint_is_a_library(tmp_path: Path, rh: Rh) -> None:
    rh("library", "new", str(tmp_path / "best"), "--skill", "x", "--description", "y", status=1)
    rh("library", "new", str(tmp_path / "best"), "--copy", "builtin")
    (tmp_path / "best" / "metadata.json").write_text('{"iteration": 3, "val_acc": 0.5}', encoding="utf-8")
    assert rh("library", "show", tmp_path / "best", "--json").json["entries"]
