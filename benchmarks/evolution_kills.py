"""Evolution on a bare machine: what it gains, how long it takes, and that killing it changes nothing.

Draws 100 pairs of demonstration data, takes every second criterion with a measure out of the built-in Library, and
evolves what is left with the pixel-based judge and the built-in orchestrator. Does the same once more, and then twice
while the process is killed with SIGKILL at random moments and started anew: from nothing, where most of the time goes
into the first measuring, and with readings remembered, where it goes into the search. Compares the Library, its
lineage, every decision and what was spent. Last, it judges pairs of another set with the starting, the evolved and
the built-in Library, because the audit of a hundred pairs is small.

    python benchmarks/evolution_kills.py [--kills N] [--fresh-pairs N] [--seed N] [--against REVISION]

Prints figures as they come and ends with one line of JSON.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _against import add_against, with_other

from rewardharness import Library, open_library
from rewardharness.evolution.events import Decided, read_events
from rewardharness.library.opening import without_half_of_the_criteria

LIMIT_SECONDS = 180
GAIN = 0.10


def command(*words: str) -> list[str]:
    """The command `rh` with this interpreter."""
    return [sys.executable, "-m", "rewardharness", *words]


def evolve(home: Path, data: Path, library: Path, run: Path, seed: int) -> subprocess.Popen[bytes]:
    """Begin or go on with a run."""
    words = (
        "evolve",
        "--data",
        str(data),
        "--library",
        str(library),
        "--run",
        str(run),
        "--seed",
        str(seed),
        "--quiet",
    )
    environment = {**os.environ, "RH_HOME": str(home)}
    return subprocess.Popen(command(*words, "--json"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def outcome(run: Path) -> dict[str, object]:
    """What must not depend on interruptions."""
    library = Library.load(run / "library")
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    decided = [event for event in read_events(run) if isinstance(event, Decided)]
    return {
        "library": library.id,
        "lineage": library.lineage_text,
        "decisions": [(event.step, event.signature, event.evidence, event.accuracy) for event in decided],
        "judgments": report["spent"]["judgments"],
        "audit": report["audit"],
        "pool": report["pool"],
    }


def run_with_kills(home: Path, data: Path, library: Path, run: Path, seed: int, moments: list[float]) -> int:
    """Run to the end, killing the process after each of some numbers of seconds; returns how many kills hit it."""
    hits = 0
    for moment in moments:
        process = evolve(home, data, library, run, seed)
        try:
            process.wait(moment)
            process.communicate()
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            hits += 1
    process = evolve(home, data, library, run, seed)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return hits


def compare(whole: dict[str, object], run: Path) -> list[str]:
    """Say in what another run came out differently."""
    other = outcome(run)
    return [key for key in whole if whole[key] != other[key]]


def cpu_of_children() -> float:
    """Processor time of all processes that were begun here and have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def accuracy(home: Path, data: Path, library: str) -> tuple[float, int]:
    """Share of a dataset on which the pixel-based judge agrees with the labels, and n."""
    environment = {**os.environ, "RH_HOME": str(home)}
    words = command("score", str(data), "--library", library, "--quiet", "--json")
    said = json.loads(subprocess.run(words, env=environment, check=True, capture_output=True).stdout)
    kinds = said["by_label_kind"].values()
    n = sum(kind["n"] for kind in kinds)
    return sum(kind["accuracy"] * kind["judged"] for kind in kinds) / n, n


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--fresh-pairs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    add_against(parser)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, fresh, library = folder / "data", folder / "fresh", folder / "half"
        home = folder / "home"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
        subprocess.run(command("data", "demo", str(data), "--pairs", "100", "--groups", "0", "--quiet"), **quiet)
        without_half_of_the_criteria(open_library("builtin")).save(library)

        started = time.perf_counter()
        process, before_cpu = evolve(home, data, library, folder / "whole", arguments.seed), cpu_of_children()
        _, errors = process.communicate()
        seconds, cpu = time.perf_counter() - started, cpu_of_children() - before_cpu
        assert process.returncode == 0, errors.decode()
        whole = outcome(folder / "whole")
        audit = whole["audit"]
        print(f"seconds, from nothing             {seconds:.1f} (processor time {cpu:.1f})", flush=True)
        before, after = audit["start"]["accuracy"], audit["final"]["accuracy"]
        print(f"audit, n = {audit['n']}: before, after     {before:.3f} {after:.3f}", flush=True)

        begun = time.perf_counter()
        evolve(home, data, library, folder / "again", arguments.seed).communicate()
        warm = time.perf_counter() - begun
        differing = compare(whole, folder / "again")
        print(f"once more: {warm:.1f} s; differs in       {', '.join(differing) or 'nothing'}", flush=True)
        luck = random.Random(arguments.seed)
        hits = 0
        for what, its_home, length in (("cold", folder / "other-home", seconds), ("warm", home, warm)):
            kills = arguments.kills // 2
            moments = [luck.uniform(0.1, 1.2) * max(length / kills, 2.0) for _ in range(kills)]
            hit = run_with_kills(its_home, data, library, folder / what, arguments.seed, moments)
            found = compare(whole, folder / what)
            print(f"{what}: killed {hit} times; differs in   {', '.join(found) or 'nothing'}", flush=True)
            hits += hit
            differing += found

        words = ("--pairs", str(arguments.fresh_pairs), "--groups", "0", "--seed", "7", "--quiet")
        subprocess.run(command("data", "demo", str(fresh), *words), **quiet)
        libraries = {"half": str(library), "evolved": str(folder / "whole" / "library"), "built-in": "builtin"}
        on_fresh = {what: accuracy(home, fresh, spec) for what, spec in libraries.items()}
        for what, (value, n) in on_fresh.items():
            print(f"another set, n = {n}, {what:10}   {value:.3f}")
    met = after - before >= GAIN and seconds < LIMIT_SECONDS and not differing and hits >= arguments.kills
    figures = {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(cpu, 1),
        "audit_n": audit["n"],
        "audit_before": before,
        "audit_after": after,
        "audit_p": audit["final_against_start"]["p"],
        "kills": hits,
        "differs_in": differing,
        "fresh": {what: round(value, 4) for what, (value, _) in on_fresh.items()},
        "fresh_n": arguments.fresh_pairs,
        "met": met,
    }
    print(json.dumps(with_other(figures, arguments.against)))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
