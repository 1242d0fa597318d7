"""Fields of configurations: what they read, write and send is marked, and a run folder of others cannot misuse it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.bulk.config import ShardsConfig
from rewardharness.cli.main import main
from rewardharness.codec import READS, SENDS, TEXT, WRITES, named
from rewardharness.evolution.config import EvolveConfig
from rewardharness.jobs import JOBS, OUTPUT_JOB, JobType, sent_to
from rewardharness.remote.config import RemoteConfig
from rewardharness.runs.job import Job


def is_free(kind: Any) -> bool:
    """Whether a field of a type can hold a path, an address or another text."""
    if get_origin(kind) is Literal:
        return False
    return kind in (str, Path, Any) or any(map(is_free, get_args(kind)))


def unmarked(kind: type) -> Iterator[str]:
    hints = get_type_hints(kind)
    for field in fields(kind):  # type: ignore[arg-type]
        if is_dataclass(hints[field.name]):
            yield from unmarked(hints[field.name])
        elif is_free(hints[field.name]) and field.metadata not in (READS, WRITES, SENDS, TEXT):
            yield f"{kind.__name__}.{field.name}"


@pytest.mark.parametrize("kind", [*(row.config for row in (*JOBS.values(), OUTPUT_JOB)), RemoteConfig])
def test_every_field_that_can_name_something_is_marked(kind: type) -> None:
    assert not list(unmarked(kind))


@pytest.mark.parametrize("row", [*JOBS.values(), OUTPUT_JOB], ids=lambda row: row.job)
def test_every_job_has_the_same_shape(row: JobType) -> None:
    module, _, name = row.job.partition(":")
    kind = getattr(import_module(f"rewardharness.{module}"), name)
    fixed = {"config", "folder"} & {field.name for field in fields(kind)}
    assert {name for name in vars(Job) if not name.startswith("_")} <= {*dir(kind), *fixed}


def test_a_field_without_a_mark_is_found() -> None:
    @dataclass(frozen=True, kw_only=True)
    class New(EvolveConfig):
        mirror: Annotated[str | None, "help"] = None

    assert list(unmarked(New)) == ["New.mirror"]


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ({"judge": "vllm:m@http://a:1/v1,http://b:1/v1"}, ["http://a:1/v1", "http://b:1/v1"]),
        ({"judge": "hf:org/m"}, ["https://router.huggingface.co/v1"]),
        ({"router": "openrouter:m", "judge": "measured"}, ["https://openrouter.ai/api/v1"]),
        ({"judge": "gemini:m+evidence"}, ["gemini:m"]),
        ({"baselines": ("closer,vllm:m@http://a:1/v1+evidence", "random")}, ["http://a:1/v1"]),
        ({"judge": "vllm:own@http://own:1/v1", "router": "file:/x"}, []),
        ({"judge": "vllm:m@servers.txt"}, ["vllm:m@servers.txt"]),
        ({"judge": "http://a:1/v1,http://b:1/v1", "release": "r.json"}, ["http://a:1/v1", "http://b:1/v1"]),
    ],
)
def test_where_a_job_sends_data(values: Mapping[str, Any], places: list[str]) -> None:
    assert sent_to(BenchmarkConfig, values, ("vllm:own@http://own:1/v1",)) == places


def test_an_orchestrator_and_a_cluster_get_data_too() -> None:
    assert sent_to(EvolveConfig, {"orchestrator": "openai:o@http://c/v1", "judge": None}) == ["http://c/v1"]
    assert sent_to(ShardsConfig, {"address": "c:6379"}) == ["c:6379"]
    assert {*named(JOBS["pairs"].config, WRITES)} == {"output", "push"}


@pytest.mark.parametrize(("with_job", "beside"), [(True, False), (False, True)])
def test_the_configuration_of_a_foreign_run_writes_nowhere_and_sends_nothing_unasked(
    with_job: bool, beside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["data", "demo", "data", "--pairs", "2", "--groups", "0", "--quiet"]) == 0
    victim, foreign = tmp_path / "victim", tmp_path / "foreign" / "config.json"
    victim.write_text("mine", encoding="utf-8")
    config: dict[str, Any] = {"task": "data", "judge": "closer", "calibrate": "victim", "for_library": "library"}
    config |= {"restart": True, "yes": True, "track": ["tensorboard"]} | ({"job": "benchmark"} if with_job else {})
    foreign.parent.mkdir()
    if beside:
        (foreign.parent / "run.json").write_text("{}", encoding="utf-8")
    words = ["benchmark", "--config", str(foreign), "--run", "run", "--quiet"]
    foreign.write_text(json.dumps(config), encoding="utf-8")
    capsys.readouterr()
    assert main(words) == 0
    said = capsys.readouterr().err
    for name in ("calibrate", "for_library", "yes", "restart", "track"):
        assert f"{name} is not used; to set it, give --{name.replace('_', '-')}." in said
    assert victim.read_text(encoding="utf-8") == "mine" and not (tmp_path / "library").exists()
    foreign.write_text(json.dumps(config | {"baselines": ["vllm:m@http://127.0.0.1:9/v1"]}), encoding="utf-8")
    assert main(words) == 2
    assert "your key if one is set, to http://127.0.0.1:9/v1" in capsys.readouterr().err
    assert main([*words, "--baselines", "random", "--restart"]) == 0, "the command line takes precedence"
