"""Train a tiny editor from scratch, tune it with a reward server, and measure the result with the pixel truth.

    python examples/train_editor/train.py OUT              # continues where it stopped
    rh lineage show --lineage OUT/lineage

The sizes below are small (682 CPU seconds): after 700 steps the editor brightens and darkens as asked in 19 of 80
held-out requests, and recolors in none of 40. More steps are the first thing to change. On a busy machine, set
OMP_NUM_THREADS=1. Needs torch, diffusers and this package with its extras `serve` and `data`.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import torch
from editor import NOISY, Batch, Editor, pictures, tensor, words_of
from torch import Tensor
from world import Case, Picture, make_cases, truth

from rewardharness.judging.report import mcnemar, wilson
from rewardharness.lineage import records
from rewardharness.lineage.compare import compare
from rewardharness.lineage.store import Lineage, Record, digest_of, read_curve, read_release
from rewardharness.serving.client import Ask, RewardClient

T = TypeVar("T")
HERE = Path(__file__).parent
GROUP = 8
"""Edits per request, which are compared with each other."""
NOISE = 0.5
"""Noise level of the sampler under GRPO; see `Editor.step`."""


@dataclass(frozen=True)
class Size:
    """How much is done: everything that decides the duration."""

    rooms: int = 40
    faulty: float = 0.4
    """Share of faults in the data of the first training, as in data from the web."""
    steps: int = 700
    prompts: int = 6
    """Requests per step of tuning, each with `GROUP` edits."""
    tuning: int = 8
    longer: int = 30
    """Steps of tuning in the runs that show how a reward is exploited."""
    held_out: int = 120
    """Held-out requests, each in a room of its own."""
    rates: dict[str, float] = field(default_factory=lambda: {"grpo": 1.5e-4, "best-of-n": 1.5e-4})


SMALL = Size(rooms=2, steps=6, prompts=2, tuning=2, longer=3, held_out=6)


@contextmanager
def served(release: Path) -> Iterator[RewardClient]:
    """Serve the rewards of a release on this machine, in a process of its own."""
    command = [sys.executable, "-m", "rewardharness", "serve", "--release", str(release), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        if not line.startswith("Rewards at "):
            raise SystemExit(line + process.communicate()[1])
        with RewardClient(line.split()[2], release=json.loads(release.read_text("utf-8"))["id"]) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def rewards_of(client: RewardClient, cases: Sequence[Case], edited: Sequence[Picture]) -> list[float | None]:
    """Ask the server; an edit that was not judged has no reward."""
    asks = [Ask(case.instruction, case.source, picture) for case, picture in zip(cases, edited, strict=True)]
    return [result.reward for result in client.score(asks)]


def train_base(cases: Sequence[Case], steps: int, saved: Path) -> Editor:
    """Train an editor from scratch on what the data show, faults included; `saved` holds what was reached."""
    editor = Editor(sorted({word for case in cases for word in words_of(case.instruction)}))
    batch = editor.batch(cases)
    changes = tensor([case.shown for case in cases]) - batch.sources
    optimizer = torch.optim.AdamW(editor.parameters(), betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.2e-3, total_steps=steps, pct_start=0.1)
    parts = (editor, optimizer, schedule)
    if saved.exists():
        for part, state in zip(parts, torch.load(saved), strict=True):
            part.load_state_dict(state)
    for number in range(schedule.last_epoch, steps):
        rows = torch.randint(len(cases), (16,))
        loss = editor.flow_loss(changes[rows], batch[rows]).mean()
        _update(editor, optimizer, loss)
        schedule.step()
        if number % 100 == 0:
            torch.save([part.state_dict() for part in parts], saved)
            print(f"  step {number} of {steps}, loss {loss.item():.4f}", flush=True)
    return editor


def _update(editor: Editor, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(editor.parameters(), 1.0)
    optimizer.step()


def advantages(rewards: Sequence[float | None]) -> Tensor:
    """Return rewards relative to their group, as in GRPO; an edit without a reward has the advantage 0."""
    values = torch.tensor([float("nan") if reward is None else reward for reward in rewards]).view(-1, GROUP)
    away = values - values.nanmean(1, keepdim=True)
    spread = away.pow(2).nanmean(1, keepdim=True).sqrt()
    return torch.nan_to_num(away / (spread + 1e-2), nan=0.0).flatten()


Method = Callable[[Editor, torch.optim.Optimizer, Batch, list[Tensor], Tensor], None]


def grpo(editor: Editor, optimizer: torch.optim.Optimizer, batch: Batch, states: list[Tensor], gain: Tensor) -> None:
    """Raise the probability of the noisy steps that led to better edits (flow_grpo), one update per step."""
    olds = []
    with torch.no_grad():
        for number in range(NOISY):
            mean, deviation = editor.step(states[number], batch, number, NOISE)
            olds.append(((states[number + 1] - mean) / deviation).pow(2).mean((1, 2, 3)) / 2)
    for number in range(NOISY):
        mean, deviation = editor.step(states[number], batch, number, NOISE)
        new = ((states[number + 1] - mean) / deviation).pow(2).mean((1, 2, 3)) / 2
        ratio = (olds[number] - new).exp()
        _update(editor, optimizer, -torch.min(ratio * gain, ratio.clamp(1 - CLIP, 1 + CLIP) * gain).mean())


CLIP = 1e-3
"""Range of the ratio of probabilities per pixel, beyond which GRPO does not push a step."""


def best_of_n(
    editor: Editor, optimizer: torch.optim.Optimizer, batch: Batch, states: list[Tensor], gain: Tensor
) -> None:
    """Train on the best edit of every group as on data, if it is better than the others."""
    best = gain.view(-1, GROUP).argmax(1) + torch.arange(len(gain) // GROUP) * GROUP
    best = best[gain[best] > 0]
    for _ in range(3 if len(best) else 0):
        rows = best.repeat(4)
        _update(editor, optimizer, editor.flow_loss(states[-1][rows], batch[rows]).mean())


METHODS: dict[str, Method] = {"grpo": grpo, "best-of-n": best_of_n}


def tune(editor: Editor, run: "Run", client: RewardClient, cases: Sequence[Case], size: Size, log: Path) -> Editor:
    """Tune a copy of the editor with rewards, and write the reward of every step."""
    method = run.method
    editor = copy.deepcopy(editor)
    optimizer = torch.optim.AdamW(editor.parameters(), lr=size.rates[method], weight_decay=0.0)
    lines = []
    for number in range(run.steps(size)):
        chosen = [cases[int(row)] for row in torch.randint(len(cases), (size.prompts,))]
        repeated = [case for case in chosen for _ in range(GROUP)]
        batch = editor.batch(repeated)
        states = editor.sample(batch, NOISE if method == "grpo" else 0.0)
        edited = pictures(batch.sources, states[-1])
        rewards = rewards_of(client, repeated, edited)
        METHODS[method](editor, optimizer, batch, states, advantages(rewards))
        judged = [reward for reward in rewards if reward is not None]
        right = fmean(map(truth, repeated, edited))
        mean = fmean(judged) if judged else None
        lines.append({"step": number, "reward": mean, "judged": len(judged), "truth": right})
        print(f"  {lines[-1]}", flush=True)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return editor


@dataclass(frozen=True)
class Figures:
    """The held-out edits of an editor: what is true of them, and the reward of every release. None: not judged."""

    true: list[bool]
    rewards: dict[str, list[float | None]]

    def items(self) -> dict[str, dict[str, float]]:
        """Return the values per request, as lineage stores them."""
        columns: dict[str, Sequence[float | bool | None]] = {"true success": self.true}
        columns |= {f"reward {name}": values for name, values in self.rewards.items()}
        return {
            name: {f"h{number:04d}": float(value) for number, value in enumerate(values) if value is not None}
            for name, values in columns.items()
        }


def measure(editor: Editor, cases: Sequence[Case], clients: dict[str, RewardClient]) -> Figures:
    """Edit the held-out sources, with the same noise for every editor."""
    batch = editor.batch(cases)
    changes = editor.sample(batch, generator=torch.Generator().manual_seed(1))[-1]
    edited = pictures(batch.sources, changes)
    rewards = {name: rewards_of(client, cases, edited) for name, client in clients.items()}
    return Figures([truth(case, picture) for case, picture in zip(cases, edited, strict=True)], rewards)


@dataclass(frozen=True)
class Run:
    """One training: its method and the reward that it is tuned with."""

    name: str
    method: str = ""
    reward: str = ""
    longer: bool = False

    def steps(self, size: Size) -> int:
        """Return the number of its steps."""
        if not self.reward:
            return size.steps
        return size.longer if self.longer else size.tuning


BASE = Run("before")
RUNS = (
    Run("grpo", "grpo", "full"),
    Run("best-of-n", "best-of-n", "full"),
    Run("best-of-n-longer", "best-of-n", "full", longer=True),
    Run("exploitable", "best-of-n", "thin", longer=True),
)


def record(lineage: Lineage, run: Run, out: Path, size: Size, before: Record | None) -> Record:
    """Record what was planned and what came out; return the result."""
    path, log = out / f"{run.name}.pt", out / f"{run.name}.jsonl"
    manifest = records.Manifest(
        activity="training",
        base_model=records.NamedRevision("tiny-editor", digest_of(out / "before.pt")[0] if before else ""),
        reward=records.RewardRef(release=read_release(out / f"{run.reward}.json")) if run.reward else None,
        data=records.NamedRevision("demo scenes", f"{size.rooms} rooms, {size.faulty:.0%} faults"),
        trainer=records.Trainer("examples/train_editor", run.method or "flow matching", vars(size)),
        seeds=(0,),
        expected=(records.ExpectedMetric("true success", "higher"),),
        parents=(before.id,) if before else (),
    )
    sha256, count = digest_of(path)
    result = records.RunOutcome(
        manifest=lineage.record(run.name, manifest).id,
        status="succeeded",
        artifacts=(records.Artifact("editor", str(path.resolve()), sha256, count),),
        steps=run.steps(size),
        curve=read_curve(log) if log.exists() else None,
    )
    return lineage.record(run.name, result)


def record_eval(lineage: Lineage, run: Run, result: Record, figures: Figures) -> Record:
    """Record the figures of an editor, request by request."""
    n, metrics, items = len(figures.true), [], figures.items()
    for name, values in items.items():
        share = wilson(sum(values.values()), n) if name == "true success" else None
        interval = (share.low, share.high) if share else None
        metrics.append(records.MetricValue(name, "higher", fmean(values.values()), n, len(values), interval))
    body = records.Evaluation(
        subject=records.Subject(result=result.id, artifact="editor"),
        benchmark=records.BenchmarkRef("train_editor held-out"),
        metrics=tuple(metrics),
        protocol="one edit per request, seed 1",
        judge="pixel truth of the demo generator; pixel-based judge",
    )
    return lineage.record(run.name, body, items)


def table(measured: dict[str, Figures]) -> str:
    """Return the table: what is true, with interval and paired test, beside both rewards."""
    names = list(measured[BASE.name].rewards)
    rows = [f"| editor | true success (95% CI) | against before | {' | '.join(f'reward, {n}' for n in names)} |"]
    rows.append("|---|---|---|" + "---|" * len(names))
    before = measured[BASE.name].true
    for name, figures in measured.items():
        n, right = len(figures.true), sum(figures.true)
        interval = wilson(right, n)
        fixes = sum(new and not old for old, new in zip(before, figures.true, strict=True))
        breaks = sum(old and not new for old, new in zip(before, figures.true, strict=True))
        p = mcnemar(fixes, breaks)
        against = f"+{fixes} -{breaks}" + (f", p = {p:.2g}" if p is not None else "")
        means = []
        for values in figures.rewards.values():
            judged = [value for value in values if value is not None]
            means.append(f"{fmean(judged):.3f}" + (f" ({len(judged)} judged)" if len(judged) < n else ""))
        share = f"{right}/{n} = {right / n:.1%} ({interval.low:.1%} to {interval.high:.1%})"
        rows.append(f"| {name} | {share} | {against if name != BASE.name else ''} | {' | '.join(means)} |")
    return "\n".join(rows) + "\n"


def kept(path: Path, make: Callable[[], T]) -> T:
    """Return what a file of this program holds; make and store it if there is none."""
    if not path.exists():
        torch.manual_seed(0)
        torch.save(make(), path)
    return torch.load(path, weights_only=False)


def main(out: Path, size: Size) -> None:
    """Train, tune, measure and record. What is in `out` already is not done again."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    started, cpu = time.time(), sum(os.times()[:4])
    for name, library in (("full", "builtin"), ("thin", str(HERE / "thin_library"))):
        if not (out / f"{name}.json").exists():
            words = f"release create --library {library} --judge measured -o {out / name}.json".split()
            subprocess.run([sys.executable, "-m", "rewardharness", *words], check=True)
    data = kept(out / "data.pt", lambda: make_cases(range(size.rooms), size.faulty))
    held_out = kept(out / "held_out.pt", lambda: make_cases(range(100_000, 100_000 + size.held_out), 0.0, each=1))
    print(f"{len(data)} edits to learn from, {len(held_out)} held-out requests", flush=True)
    lineage, before, evals, measured = Lineage(out / "lineage"), None, [], {}
    with served(out / "full.json") as full, served(out / "thin.json") as thin:
        clients = {"full": full, "thin": thin}
        for run in (BASE, *RUNS):
            print(f"{run.name}:", flush=True)
            if run is BASE:
                editor = base = kept(out / "before.pt", lambda: train_base(data, size.steps, out / "before.part"))
            else:
                editor = kept(
                    out / f"{run.name}.pt",
                    lambda: tune(base, run, clients[run.reward], data, size, out / f"{run.name}.jsonl"),  # noqa: B023
                )
            result = record(lineage, run, out, size, before)
            before = before or result
            measured[run.name] = kept(out / f"{run.name}.figures", lambda: measure(editor, held_out, clients))  # noqa: B023
            evals.append(record_eval(lineage, run, result, measured[run.name]))
    for new in evals[1:]:
        items = lineage.items(evals[0].body), lineage.items(new.body)
        lineage.record(f"before-{new.name}", compare(evals[0], new, items))
    text = table(measured)
    (out / "table.md").write_text(text, "utf-8")
    spent = sum(os.times()[:4]) - cpu
    print(f"{text}\n{time.time() - started:.0f} s, and {spent:.0f} CPU seconds with the servers")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of everything that is made")
    parser.add_argument("--small", action="store_true", help="a few steps, to see that it works")
    arguments = parser.parse_args()
    main(arguments.out, SMALL if arguments.small else Size())
