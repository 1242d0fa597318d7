"""A judge and the same judge with measured evidence in one benchmark."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from bench_parts import settings
from model_server import Call, ModelServer
from PIL import Image

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.errors import InputError
from rewardharness.jobs import open_job
from rewardharness.judging.config import split_judges


def test_lists_of_judges_are_split_but_not_lists_of_addresses() -> None:
    two, given, file = "vllm:m@http://a/v1,http://b/v1", "vllm:m@http://a/v1+evidence", "file:a,b.jsonl"
    listed = ["measured,random", f"{two}, {given},+evidence", file]
    assert split_judges(listed) == ["measured", "random", two, given, "+evidence", file]


def test_judges_are_the_judge_and_its_baselines() -> None:
    config = BenchmarkConfig("demo", judges=("measured,random",), baselines=("ssim",))
    assert config == BenchmarkConfig("demo", judge="measured", baselines=("random", "ssim"))
    with pytest.raises(InputError, match="--judges names all judges"):
        BenchmarkConfig("demo", judge="measured", judges=("random",))


def respond(call: Call) -> str | None:
    """With evidence, a model that prefers the candidate with the smaller change; without, always the first."""
    if "Candidates: A, B" not in call.text:
        return None
    shares = [float(share) for share in re.findall(r"\[measured\] Candidate [AB] changed ([\d.]+)%", call.text)]
    choice = "B" if len(shares) == 2 and shares[1] < shares[0] else "A"
    return json.dumps({"preference": choice, "scores": {x: {"instruction": 3, "quality": 3} for x in "AB"}})


def write_pairs(folder: Path, count: int) -> Path:
    """Pairs in which people prefer the smaller change, which is B."""
    folder.mkdir()
    y, x = np.mgrid[0:150, 0:200]
    lines = []
    for number in range(count):
        pixels = np.stack([128 + 60 * np.sin(x / (30 + k + number)) * np.cos(y / 25) for k in range(3)], 2)
        for name, side in {"source": 0, "wide": 75, "small": 20}.items():
            edited = pixels.astype(np.uint8)
            edited[30 : 30 + side, 40 : 40 + side] = (220, 30, 30)
            Image.fromarray(edited).save(folder / f"{number}-{name}.png")
        files = {key: f"{number}-{name}.png" for key, name in zip(KEYS, ("source", "wide", "small"), strict=True)}
        line = {"id": str(number), "instruction": "add a red sign", **files, "preference": "B", "label_kind": "human"}
        lines.append(json.dumps(line))
    (folder / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


KEYS = ("source", "candidate_a", "candidate_b")


def test_one_run_compares_them_pairwise(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs", 6)
    with ModelServer(respond) as server:
        spec = f"vllm:judge@{server.url}"
        config = BenchmarkConfig(
            str(data), judges=(f"{spec},{spec}+evidence",), protocol="direct", one_order=True, library="empty"
        )
        cost = open_job(config, settings(tmp_path)).cost()
        report = open_job(config, settings(tmp_path), folder=tmp_path / "run").run()
        asked = [call for call in server.calls if "Candidates: A, B" in call.text]
    assert (cost.requests, cost.crops) == (12, 6 * 2 * 4)
    assert len(asked) == 12
    plain, given = report.rows
    assert given.protocol == f"{plain.protocol}, measured evidence"
    assert plain.revision != given.revision
    [compared] = given.against
    assert (compared.n, compared.better, compared.worse) == (6, 0, 6)  # of the judge against this row
    assert compared.p == pytest.approx(2 * 0.5**6)
    assert "vllm:judge+evidence" in str(report)
