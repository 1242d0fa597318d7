"""How long up to ten million pairs take, simulated part by part from measured costs.

Measured in this run, on this machine: CPU per row of this side (a run of `rh score --output` against a model server
that answers at once, less its start), and the cost of writing a part and of reading the records of finished parts.
Assumed, because it depends on the model and its GPUs: the latency of an endpoint and how many requests it processes
side by side; `--latency` and `--capacity` set them.

A process judges its parts one after the other. Its rate is the least of what its core can do, what its requests in
flight allow at the latency, and its share of the endpoints. Each part deviates at random; a process may die, loses the
parts in progress, and starts again.

    python benchmarks/scaling.py [--latency 0.4] [--capacity 32] [--calls 2] [--failures 0.02]

`--calls` is the number of calls per pair (two: both orders), `--failures` the failures per process and hour. Prints a
table and ends with one line of JSON.
"""

import argparse
import heapq
import json
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bulk import Run, Server, write_rows

PART_ROWS, IN_FLIGHT, MEASURED_ROWS = 1000, 64, 3000
START_SECONDS, RESTART_SECONDS = 10.0, 120.0
CASES = (
    (100_000, 1, 1),
    (100_000, 4, 1),
    (1_000_000, 4, 1),
    (1_000_000, 16, 4),
    (10_000_000, 32, 8),
    (10_000_000, 128, 32),
)
"""Pairs, endpoints and processes."""


@dataclass(frozen=True)
class Costs:
    """Measured costs of this side, in seconds."""

    row: float
    """CPU per call."""
    part: float
    """Writing a part."""
    records: float
    """Reading the records of 10,000 finished parts, as a continued run does."""


@dataclass(frozen=True)
class Simulated:
    """A simulated run."""

    pairs: int
    endpoints: int
    processes: int
    hours: float
    pairs_per_second: float
    limit: str
    """What limits the rate: `endpoints`, `client` (the cores of this side) or `requests in flight`."""
    judged_again: int
    """Rows of parts that a failed process lost."""


def measure() -> Costs:
    """Measure the costs of this side."""
    from rewardharness.bulk.shards import PartResult, ShardStore
    from rewardharness.judging.report import make_report

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        cpu = {}
        server = Server()
        try:
            for rows in (1, MEASURED_ROWS):
                write_rows(root / f"{rows}.parquet", rows)
                run = Run(sys.executable, root / f"{rows}.parquet", root / f"out-{rows}", [server.url], "local")
                run.wait()
                cpu[rows] = run.cpu
        finally:
            server.close()
        store = ShardStore(root / "out")
        store.begin({"parts": [[number * 10, 10] for number in range(10_000)]})
        judged = tuple(
            {"row": row, "id": f"row-{row}", "preference": "A", "rewards": [0.5, 0.4]} for row in range(1000)
        )
        begin = time.process_time()
        for number in range(20):
            store.write(PartResult(number, judged, (), make_report([]), make_report([])))
        part = (time.process_time() - begin) / 20
        record = (store.folder / "done" / "part-000001.json").read_text("utf-8")
        for number in range(10_000):
            path = store.folder / "done" / f"part-{number:06d}.json"
            path.write_text(record.replace('"number": 1,', f'"number": {number},'), "utf-8")
        begin = time.process_time()
        store.done()
        records = time.process_time() - begin
    return Costs((cpu[MEASURED_ROWS] - cpu[1]) / (MEASURED_ROWS - 1), part, records)


def simulate(pairs: int, endpoints: int, processes: int, costs: Costs, arguments: argparse.Namespace) -> Simulated:
    """Simulate one run."""
    calls, draw = arguments.calls, random.Random(0)
    rates = {
        "endpoints": endpoints * arguments.capacity / arguments.latency / calls / processes,
        "client": 1 / (costs.row * calls + costs.part / PART_ROWS),
        "requests in flight": IN_FLIGHT * max(1.0, endpoints / processes) / arguments.latency / calls,
    }
    limit = min(rates, key=lambda name: rates[name])
    left, again, end = -(-pairs // PART_ROWS), 0, 0.0
    free = [(START_SECONDS, process) for process in range(processes)]
    heapq.heapify(free)
    while left:
        now, process = heapq.heappop(free)
        seconds = PART_ROWS / rates[limit] * draw.lognormvariate(0, 0.1)
        if draw.random() < arguments.failures * seconds / 3600:
            again += PART_ROWS
            heapq.heappush(free, (now + seconds * draw.random() + RESTART_SECONDS, process))
            continue
        left -= 1
        end = max(end, now + seconds)
        heapq.heappush(free, (now + seconds, process))
    return Simulated(pairs, endpoints, processes, round(end / 3600, 2), round(pairs / end, 1), limit, again)


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--latency", type=float, default=0.4, help="seconds per request")
    parser.add_argument("--capacity", type=int, default=32, help="requests that an endpoint processes side by side")
    parser.add_argument("--calls", type=int, default=2)
    parser.add_argument("--failures", type=float, default=0.02)
    arguments = parser.parse_args()
    costs = measure()
    print("measured: " + ", ".join(f"{name} {1000 * value:.2f} ms" for name, value in asdict(costs).items()))
    found = [simulate(*case, costs, arguments) for case in CASES]
    for each in found:
        print("  ".join(f"{name} {value}" for name, value in asdict(each).items()))
    print(json.dumps({"costs": asdict(costs), "runs": [asdict(each) for each in found]}))


if __name__ == "__main__":
    main()
