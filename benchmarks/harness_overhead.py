"""What judging costs this side of the wire, next to the least that it can cost.

The whole Sub-Agent (protocol `direct`, no cache, empty Library, one order and both) judges triples of PNG files
through a server of its own process that answers at once, or after 200 ms, and looks at nothing. The floor does only
what cannot be left out, in the same run, with Python's own library: it reads the files, encodes them as base64, joins
a body and sends it from as many threads as there are requests in flight, each with one connection that is kept. `lean`
is the floor with the faster base64 that the Sub-Agent uses. Neither hashes images, chooses entries or retries; each of
their threads sends both orders one after the other.

CPU is that of the measured process alone (getrusage), memory its largest resident size; every figure comes from a
fresh process. Rates also carry the server's own CPU, so on few cores compare them with the floor's; where others use
the machine too, `--repeat 3` takes the best of three.

    python benchmarks/harness_overhead.py [--quick] [--only TEXT] [--dir FOLDER] [--against REVISION]

`--against` names another revision or a checkout of it, which is measured in the same run as `before`.

RH_OTHER_HARNESS may name a folder with a package of TIGER's RewardHarness interface (evaluation.engine.SubAgent); it
is then measured on the same files. Prints a table and ends with one line of JSON.
"""

import argparse
import base64
import http.client
import json
import math
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from _against import add_against

ROOT = Path(__file__).parents[1]
GOALS = {"cpu": 1.1, "cpu_64": 2.0, "rate": 0.7, "rate_64": 700.0, "peak_mb": 800.0, "growth_kb": 5.0}
"""CPU and rate as ratios to the floor; judgments per second at 64 pixels, 200 ms and 128 in flight; memory."""
ANSWER = {"preference": "A", "scores": {label: {"instruction": 3, "quality": 3} for label in "AB"}}
OTHER_ANSWER = {f"score_{label}_{what}": 3 for label in "AB" for what in ("instruction", "quality")}
OTHER_ANSWER |= {"preference": "A", "reasoning": "-"}
FULL = 0.9
"""Share of one processor from which on it counts as full."""
TRIPLES = 16
"""Different triples of each kind; they are judged in turn."""
NUMBERS = {"noise": 256, "photo": 384, "small": 5000}
"""Judgments per measurement, by kind of image."""
MOST_THREADS = 64
"""Threads of the floor with large images, at most."""


@dataclass(frozen=True)
class Case:
    """One measurement."""

    who: str
    """`ours`, `before`, `floor`, `lean` or `other`."""
    kind: str
    """`noise`, `photo` or `small`."""
    latency: float
    in_flight: int
    orders: int
    number: int
    """Judgments."""

    @property
    def load(self) -> str:
        """Name of what is compared between those who are measured."""
        orders = "both orders" if self.orders == 2 else "one order"
        return f"{self.kind}, {self.latency * 1000:.0f} ms, {self.in_flight} in flight, {orders}"


# ---- files


def draw(folder: Path) -> None:
    """Write the triples: uniform noise and photo-like at 1024 x 1024, and photo-like at 64 x 64."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    for kind, side in (("noise", 1024), ("photo", 1024), ("small", 64)):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(TRIPLES):
            for name in ("source", "a", "b"):
                path = folder / kind / f"{number}-{name}.png"
                if path.exists():
                    continue
                if kind == "photo":
                    coarse = random.integers(0, 255, (12, 12, 3), dtype=np.uint8)
                    scene = np.asarray(Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC), np.int16)
                    pixels = np.clip(scene + random.normal(0, 3, scene.shape), 0, 255).astype(np.uint8)
                else:
                    pixels = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(path, compress_level=1)


def triple(folder: Path, kind: str, number: int) -> list[Path]:
    """Return the files of a triple."""
    return [folder / kind / f"{number % TRIPLES}-{name}.png" for name in ("source", "a", "b")]


# ---- the server's process


def serve(latency: float, answer: str) -> None:
    """Serve until the input ends; say what was received at every line of it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from model_server import ModelServer, completion

    reply = json.dumps(completion(answer)).encode()
    with ModelServer(latency=latency, static=reply) as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(json.dumps({"requests": server.requests, "received": server.received}), flush=True)


class Server:
    """A server in another process."""

    def __init__(self, latency: float, answer: str) -> None:
        command = [sys.executable, __file__, "--role", "server", "--latency", str(latency), "--answer", answer]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def counts(self) -> dict[str, int]:
        """Return what it has received so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        counts: dict[str, int] = json.loads(self._process.stdout.readline())
        return counts

    def close(self) -> None:
        """End it."""
        self._process.communicate()


# ---- the measured processes


class Meter:
    """CPU, time and memory between its beginning and its end, of this process."""

    def __init__(self) -> None:
        self._cpu = self._seconds()
        self._wall = time.perf_counter()

    def read(self, number: int) -> dict[str, float]:
        """Return the figures for a number of judgments."""
        wall, cpu = time.perf_counter() - self._wall, self._seconds() - self._cpu
        return {
            "rate": number / wall,
            "cpu_ms": 1000 * cpu / number,
            "cpu_share": cpu / wall,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }

    @staticmethod
    def _seconds() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime


def resident_mb() -> float:
    """Resident size of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * resource.getpagesize() / 1e6


def measure_ours(case: Case, folder: Path, url: str) -> dict[str, float]:
    """Judge with the Sub-Agent, as `rh score` does with a server that remembers no image."""
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judging.model_config import ModelJudgeConfig
    from rewardharness.judging.subagent import SubAgent
    from rewardharness.library.store import EMPTY
    from rewardharness.models.open import open_model
    from rewardharness.schema import Example, ImageInput, Judgment

    def examples(number: int) -> Iterator[Example]:
        for each in range(number):
            images = [ImageInput(path.name, path) for path in triple(folder, case.kind, each)]
            yield Example(f"e{each}", "make the box in the middle red", images[0], tuple(images[1:]))

    settings = ModelJudgeConfig(protocol="direct", one_order=case.orders == 1)
    model = open_model(f"vllm:judge@{url}", most_in_flight=max(256, case.in_flight * case.orders))
    agent = SubAgent(model, settings)
    sizes: list[float] = []
    judged = 0

    def on_judgment(example: Example, judgment: Judgment) -> None:
        nonlocal judged
        judged += judgment.judged
        if judged % max(1, case.number // 10) == 0:
            sizes.append(resident_mb())

    evaluate(agent, EMPTY, examples(4), concurrency=4)
    meter = Meter()
    evaluate(agent, EMPTY, examples(case.number), concurrency=case.in_flight, on_judgment=on_judgment)
    found = meter.read(case.number)
    assert judged == case.number, f"{case.number - judged} not judged"
    if case.number < 5000:
        return found
    # From a fifth of the way on, when all that is made once has been made.
    return {**found, "growth_kb": 1000 * (sizes[-1] - sizes[1]) / (case.number * (len(sizes) - 2) / len(sizes))}


def measure_floor(case: Case, folder: Path, url: str) -> dict[str, float]:
    """Send the same bytes with as little as possible: one thread and one kept connection per request in flight."""
    import pybase64

    encode = pybase64.b64encode if case.who == "lean" else base64.b64encode
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    text = b'{"model":"judge","messages":[{"role":"system","content":"' + b"x" * 2800 + b'"},{"role":"user","content":['
    before, after = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,', b'"}},'
    end = b'{"type":"text","text":"which?"}]}],"max_tokens":2048,"temperature":0.0}'
    work: queue.SimpleQueue[int | None] = queue.SimpleQueue()

    def run() -> None:
        connection = http.client.HTTPConnection(host, int(port))
        while (number := work.get()) is not None:
            images = [encode(path.read_bytes()) for path in triple(folder, case.kind, number)]
            for order in range(case.orders):
                shown = (images[0], *(images[1:] if order == 0 else images[:0:-1]))
                body = b"".join([text, *(piece for image in shown for piece in (before, image, after)), end])
                connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
                reply = json.loads(connection.getresponse().read())
                assert reply["choices"][0]["message"]["content"]
        connection.close()

    def judge(number: int, threads: int) -> None:
        workers = [threading.Thread(target=run) for _ in range(threads)]
        for each in range(number):
            work.put(each)
        for worker in workers:
            work.put(None)
            worker.start()
        for worker in workers:
            worker.join()

    judge(4, 1)
    meter = Meter()
    # Each thread holds a whole body; more of them would need memory by the gigabyte and gain nothing.
    judge(case.number, case.in_flight if case.kind == "small" else min(case.in_flight, MOST_THREADS))
    return meter.read(case.number)


def measure_other(case: Case, folder: Path, url: str) -> dict[str, float]:
    """Judge with another harness, if it can be imported and has the interface."""
    os.environ.setdefault("REWARDHARNESS_SUBAGENT_MODEL", "judge")
    sys.path.insert(0, os.environ["RH_OTHER_HARNESS"])
    from rewardharness.evaluation import engine  # the other one's

    class Endpoint:
        def next(self) -> str:
            return url

    agent = engine.SubAgent(None, Endpoint())

    def examples(number: int) -> list[dict[str, str]]:
        names = ("source_img", "edited_A", "edited_B")
        return [
            {
                "prompt": "make the box in the middle red",
                **{
                    name: base64.b64encode(path.read_bytes()).decode()
                    for name, path in zip(names, triple(folder, case.kind, each), strict=True)
                },
            }
            for each in range(number)
        ]

    agent.batch_evaluate(examples(4), [""] * 4, 4)
    meter = Meter()
    # Its interface takes all images at once, as text in memory.
    judged = agent.batch_evaluate(examples(case.number), [""] * case.number, case.in_flight)
    found = meter.read(case.number)
    assert all(each["score_A_quality"] == 3 for each in judged), "not every reply was read"
    return found


# ---- the whole


def cases(quick: bool, against: bool = False) -> list[Case]:
    """Return what is measured; with `against` another revision as well."""
    found: list[Case] = []
    for kind, latency, in_flight, orders in product(NUMBERS, (0.0, 0.2), (1, 32, 128, 512), (1, 2)):
        if quick and (in_flight in {32, 512} or orders == 2 or (in_flight == 1 and latency)):
            continue
        number = max(NUMBERS[kind] // 5, in_flight) if quick else max(NUMBERS[kind], 4 * in_flight)
        if in_flight == 1 and latency:
            number = 24
        if (kind, latency, in_flight, orders, quick) == ("small", 0.0, 128, 1, False):
            number = 10_000  # so that growth of memory is seen
        compared = ("floor", "lean", "ours") if in_flight in {1, 128} and orders == 1 else ("floor", "ours")
        compared += ("before",) if against else ()
        found += [Case(who, kind, latency, in_flight, orders, number) for who in compared]
    if os.environ.get("RH_OTHER_HARNESS"):
        found += [Case("other", kind, 0.2, 128, 1, 48 if quick else 128) for kind in NUMBERS]
    return found


def measure(case: Case, folder: Path, against: Path | None = None) -> dict[str, float] | None:
    """Measure in a fresh process; None when it cannot be done."""
    environment = {**os.environ, "PYTHONPATH": str(against)} if case.who == "before" else None
    answer = f"<answer>{json.dumps(OTHER_ANSWER)}</answer>" if case.who == "other" else json.dumps(ANSWER)
    server = Server(case.latency, answer)
    try:
        before = server.counts()
        script = against / "benchmarks" / Path(__file__).name if case.who == "before" and against else __file__
        command = [sys.executable, str(script), "--role", case.who, "--url", server.url]
        command += ["--dir", str(folder), "--case", json.dumps(asdict(case))]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        after = server.counts()
    finally:
        server.close()
    if done.returncode != 0:
        print(f"{case.who}: {case.load}: not measured: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    sent = (after["received"] - before["received"]) / (after["requests"] - before["requests"])
    return {**found, "mb_sent": case.orders * sent / 1e6}


def best(all_found: Sequence[dict[str, float] | None]) -> dict[str, float] | None:
    """Of several measurements the one that cost least CPU, with the best rate: others share this machine."""
    found = [each for each in all_found if each is not None]
    if not found:
        return None
    return {**min(found, key=lambda each: each["cpu_ms"]), "rate": max(each["rate"] for each in found)}


def show(case: Case, found: dict[str, float], others: dict[str, dict[str, float]]) -> None:
    """Print one row; what is not a floor is compared with those of its load."""
    line = f"{case.who:6}{case.load:43}{found['rate']:9.1f}/s{found['cpu_ms']:9.2f} ms{found['cpu_share']:6.2f}"
    line += f"{found['peak_mb']:7.0f} MB{found['mb_sent']:7.2f} MB"
    for name in ("floor", "lean") if case.who not in {"floor", "lean"} else ():
        if name in others:
            cpu, rate = found["cpu_ms"] / others[name]["cpu_ms"], found["rate"] / others[name]["rate"]
            line += f"  {name}: CPU x{cpu:.2f}, rate x{rate:.2f}"
    print(line, flush=True)


def judge_goals(found: dict[str, dict[str, dict[str, float]]], quick: bool) -> list[dict[str, object]]:
    """Compare the figures with the goals; the worst of all loads counts. Short runs are mostly start: no rates."""
    pairs = {load: (who["ours"], who["floor"]) for load, who in found.items() if {"ours", "floor"} <= set(who)}
    rows: list[tuple[str, float, float | None, str]] = []
    for large in (True, False):
        loads = [load for load in pairs if load.startswith("small") != large]
        if not loads:
            continue
        size = "1024 px" if large else "64 px, where the floor does next to nothing"
        cpu = {load: pairs[load][0]["cpu_ms"] / pairs[load][1]["cpu_ms"] for load in loads}
        rate = {load: pairs[load][0]["rate"] / pairs[load][1]["rate"] for load in loads}
        worst, slowest = max(cpu, key=lambda load: cpu[load]), min(rate, key=lambda load: rate[load])
        rows.append((f"CPU / floor, {size}, at most", cpu[worst], GOALS["cpu" if large else "cpu_64"], worst))
        if not quick:
            rows.append((f"rate / floor, {size}, at least", rate[slowest], GOALS["rate"] if large else None, slowest))
    peaks = {load: ours["peak_mb"] for load, (ours, _) in pairs.items() if "128 in" in load and load[0] != "s"}
    if peaks:
        worst = max(peaks, key=lambda load: peaks[load])
        rows.append(("peak MB, at most", peaks[worst], GOALS["peak_mb"], worst))
    load = "small, 200 ms, 128 in flight, one order"
    if load in pairs and not quick:
        # A processor that is full excuses a lower rate.
        rate_64 = math.inf if pairs[load][0]["cpu_share"] > FULL else pairs[load][0]["rate"]
        rows.append(("judgments per second, at least", rate_64, GOALS["rate_64"], load))
    load = "small, 0 ms, 128 in flight, one order"
    if load in pairs and "growth_kb" in pairs[load][0]:
        growth = pairs[load][0]["growth_kb"]
        rows.append(("kB kept per judgment, its record included, at most", growth, GOALS["growth_kb"], load))
    for name, value, goal, where in rows:
        good = goal is None or (value >= goal if name.endswith("at least") else value <= goal)
        word = "note" if goal is None else "met " if good else "MISS"
        print(f"{word} {name}: {value:.2f} (goal {'none' if goal is None else f'{goal:g}'}; {where})")
    return [{"what": name, "value": value, "goal": goal, "load": where} for name, value, goal, where in rows]


def main() -> int:
    """Measure and print, or play one part in a measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer cases and judgments: about a minute")
    parser.add_argument("--only", default="", metavar="TEXT", help="only loads whose name holds this text")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="measure N times and take the best")
    parser.add_argument("--dir", type=Path, help="folder of the images, kept for the next time")
    add_against(parser)
    for option in ("--role", "--answer", "--url", "--case"):
        parser.add_argument(option, default="", help=argparse.SUPPRESS)
    parser.add_argument("--latency", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "server":
        serve(arguments.latency, arguments.answer)
        return 0
    if arguments.role:
        roles = {
            "ours": measure_ours,
            "before": measure_ours,
            "floor": measure_floor,
            "lean": measure_floor,
            "other": measure_other,
        }
        print(json.dumps(roles[arguments.role](Case(**json.loads(arguments.case)), arguments.dir, arguments.url)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.dir or Path(temporary)
        draw(folder)
        print(f"{'who':6}{'load':43}{'judged':>11}{'CPU each':>12}{'CPU':>6}{'peak':>10}{'sent each':>10}")
        found: dict[str, dict[str, dict[str, float]]] = {}
        for case in cases(arguments.quick, arguments.against is not None):
            if arguments.only not in case.load:
                continue
            figures = best([measure(case, folder, arguments.against) for _ in range(arguments.repeat)])
            if figures is not None:
                found.setdefault(case.load, {})[case.who] = figures
                show(case, figures, found[case.load])
        if not os.environ.get("RH_OTHER_HARNESS"):
            print("No other harness: RH_OTHER_HARNESS names none.")
        goals = judge_goals(found, arguments.quick)
        print(json.dumps({"goals": goals, "loads": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
