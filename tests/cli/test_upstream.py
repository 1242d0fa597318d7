"""Files of TIGER-AI-Lab/RewardHarness: its configuration, its lists of endpoints and its checkpoints."""

from pathlib import Path

import pytest
from commands import Rh

from rewardharness.cli.command import parse
from rewardharness.errors import InputError
from rewardharness.models.open import read_endpoints

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


def test_arguments_take_precedence_and_fixed_values_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    _, (table, *_), _ = parse(
        "benchmark", ["run", "demo", "--baselines", "random", "--baselines", f"vllm:org/qwen@{file}"]
    )
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
