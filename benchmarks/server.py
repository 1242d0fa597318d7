"""What the reward server costs, next to FastAPI doing next to nothing with the same bodies.

Server and callers are processes of their own on this machine. The server's judge answers at once, so all that is seen
is the way of a request: reading, taking apart, base64, hashes, checks, limits, counters, the reply. Nothing is
remembered between requests. Next to it, in the same run and by the same callers, on uvicorn as it comes, with h11:

    echo    FastAPI reads the body and answers with its length: the floor
    plain   FastAPI as it is usually written: a pydantic model with two strings of base64, decoded, and a dict

Then: how fast `/healthz` answers while 200 edits are being scored by a judge that takes about a second, and while 200
callers keep server and machine busy with small bodies and a judge that answers at once. And 10,000 edits whose
judge fails by chance in every way it can: all must be answered, with the right reward or none, in flat memory.

    python benchmarks/server.py [--seconds 5] [--requests 10000] [--only rates|health|faults] [--sizes '1 KB']
                                [--against REVISION]

`--against` names another revision or a checkout of it, whose server is measured in the same run as `before`.

Prints figures as they come and ends with one line of JSON. Where others use the machine too, compare ratios.
"""

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from _against import add_against

from rewardharness.judging.judge import Judge
from rewardharness.models.transport import HttpClient, ServerAddress

KINDS = {"1 KB": 400, "300 KB": 112_000, "3 MB": 1_120_000}
"""Size of a body, and bytes of each of its two images."""
CLIENTS = (1, 32, 128)
HEALTH_CLIENTS = 200


def make_bodies(size: int, number: int) -> list[bytes]:
    """Make different bodies of a size."""
    import pybase64

    noise = random.Random(size)
    source = pybase64.b64encode(noise.randbytes(size)).decode()
    images = [pybase64.b64encode(noise.randbytes(size)).decode() for _ in range(number)]
    asked = {"instruction": "make the box in the middle red", "source": source}
    return [json.dumps({**asked, "edited": image}).encode() for image in images]


def reward_of(image: bytes) -> float:
    """What the judge of this benchmark thinks of an image."""
    return int.from_bytes(image[:4], "big") / 0xFFFFFFFF


def serve(kind: str) -> None:
    """Run one of the servers until the process is ended; its port is the first line of output."""
    import uvicorn

    from rewardharness.serving import server

    opened = server.listen("127.0.0.1", 0)
    print(opened.getsockname()[1], flush=True)
    if kind in {"echo", "plain"}:
        config = uvicorn.Config(_other_app(kind), log_config=None, access_log=False, http="h11", ws="none", loop="none")
        asyncio.run(uvicorn.Server(config).serve([opened]))
        return
    from rewardharness.library.store import EMPTY
    from rewardharness.serving.api import make_app
    from rewardharness.serving.limits import Limits
    from rewardharness.serving.security import Guard
    from rewardharness.serving.service import Service

    service = Service(BenchJudge(kind), EMPTY, Limits(concurrency=1024, remembered=0))
    asyncio.run(server.serve(make_app(service, Guard()), service, opened, lambda end: None))


def _other_app(kind: str) -> Any:
    """Make the application of a server to compare with."""
    import base64

    from fastapi import FastAPI, Request, Response
    from pydantic import BaseModel

    class Edit(BaseModel):
        instruction: str
        source: str
        edited: str

    app = FastAPI()

    async def echo(request: Request) -> Response:
        body = await request.body()
        return Response(b'{"length": %d}' % len(body), media_type="application/json")

    async def plain(edit: Edit) -> dict[str, float]:
        images = base64.b64decode(edit.source), base64.b64decode(edit.edited)
        return {"reward": float(len(images) > 0)}

    app.post("/score")(echo if kind == "echo" else plain)
    return app


class BenchJudge(Judge):
    """Judges at once; `slow` after a second or so, `faulty` sometimes not at all."""

    name, protocol, revision = "bench", "bench", "1"

    def __init__(self, kind: str) -> None:
        self.name = kind
        self._chance = random.Random(1)

    async def judge(self, example: Any, library: Any) -> Any:
        """Judge, or fail."""
        from rewardharness.judging.interface import unjudged
        from rewardharness.schema import Failure, Judgment, Scores

        if self.name == "slow":
            await asyncio.sleep(self._chance.uniform(0.5, 1.5))
        if self.name == "faulty":
            fate = self._chance.random()
            await asyncio.sleep(0.005 * self._chance.random())
            if fate < 0.1:
                return unjudged(example, self, library, Failure("timeout", "late"))
            if fate < 0.2:
                raise RuntimeError("a defect")
            if fate < 0.25:
                await asyncio.get_running_loop().create_future()
            if fate < 0.3:
                odd = Scores(None, None, float("nan") if fate < 0.28 else 7.0)
                return Judgment(example.id, self.name, self.protocol, library.id, scores={"A": odd})
        scores = {"A": Scores(3.0, 3.0, reward_of(example.candidates[0].data))}
        return Judgment(example.id, self.name, self.protocol, library.id, scores=scores)

    async def close(self) -> None:
        """Nothing is open."""


@contextmanager
def running(kind: str) -> Iterator[tuple[ServerAddress, psutil.Process]]:
    """Start a server in a process of its own."""
    command, environment = [sys.executable, __file__, "--serve", kind], None
    if Path(kind).is_absolute():  # a checkout of another revision
        command = [sys.executable, f"{kind}/benchmarks/server.py", "--serve", "ours"]
        environment = {**os.environ, "PYTHONPATH": kind}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL, env=environment)
    try:
        assert process.stdout is not None
        origin = ServerAddress("127.0.0.1", int(process.stdout.readline()), False)
        asyncio.run(_until_up(origin))
        yield origin, psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


async def _until_up(origin: ServerAddress) -> None:
    http = HttpClient(1 << 20)
    for _ in range(500):
        try:
            await http.exchange(origin, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", ())
            break
        except OSError:
            await asyncio.sleep(0.02)
    await http.close()


def head(length: int) -> bytes:
    """Request line and headers."""
    lines = f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}"
    return f"{lines}\r\n\r\n".encode()


@dataclass(frozen=True)
class Rate:
    """What came of one measurement."""

    per_second: float
    p50: float
    p95: float
    p99: float
    cpu: float
    """Milliseconds of the server's CPU per request."""


async def load(origin: ServerAddress, bodies: Sequence[bytes], clients: int, seconds: float) -> list[float]:
    """Let so many callers ask one request after the other; return how long each took."""
    http = HttpClient(1 << 24)
    turn = itertools.cycle(bodies)
    taken: list[float] = []
    ends = time.perf_counter() + seconds

    async def caller() -> None:
        while time.perf_counter() < ends:
            body = next(turn)
            began = time.perf_counter()
            reply = await http.exchange(origin, head(len(body)), (body,))
            taken.append(time.perf_counter() - began)
            assert reply.status == 200, reply.body

    await asyncio.gather(*(caller() for _ in range(clients)))
    await http.close()
    return taken


def percentile(values: Sequence[float], share: float) -> float:
    """A percentile in milliseconds."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(kinds: Sequence[str], bodies: Sequence[bytes], clients: int, seconds: float) -> dict[str, Rate]:
    """Measure servers with so many callers, in turns of half a second, as others use the machine too.

    Of the turns of a server the one with the least CPU counts, with the best rate.
    """
    turns: dict[str, list[Rate]] = {kind: [] for kind in kinds}
    with ExitStack() as stack:
        servers = {kind: stack.enter_context(running(kind)) for kind in kinds}
        for number in range(1 + max(1, round(2 * seconds))):
            for kind, (origin, process) in servers.items():
                before = process.cpu_times()
                began = time.perf_counter()
                taken = asyncio.run(load(origin, bodies, clients, 0.5))
                lasted = time.perf_counter() - began
                after = process.cpu_times()
                used = after.user + after.system - before.user - before.system
                figures = [percentile(taken, share) for share in (0.5, 0.95, 0.99)]
                if number:  # the first turn is warm-up
                    turns[kind].append(Rate(len(taken) / lasted, *figures, 1000 * used / len(taken)))
    return {
        kind: replace(min(rates, key=lambda rate: rate.cpu), per_second=max(rate.per_second for rate in rates))
        for kind, rates in turns.items()
    }


def rates(seconds: float, sizes: Sequence[str], against: Path | None = None) -> dict[str, Any]:
    """Measure all servers in turns, for each case."""
    found: dict[str, Any] = {}
    kinds = ["ours", "plain", "echo", *([str(against.absolute())] if against else [])]
    for words, size in ((words, KINDS[words]) for words in sizes):
        bodies = make_bodies(size, max(8, min(256, (64 << 20) // size)))
        for clients in CLIENTS:
            measured = measure(kinds, bodies, clients, seconds)
            for name, rate in measured.items():
                print(
                    f"{words:>6} {clients:>4} clients {'before' if '/' in name else name:>6}: "
                    f"{rate.per_second:7.0f}/s  p50 {rate.p50:7.2f}  "
                    f"p95 {rate.p95:7.2f}  p99 {rate.p99:7.2f} ms  CPU {rate.cpu:6.3f} ms",
                    flush=True,
                )
            own, plain, echo, *before = measured.values()
            found[f"{words}, {clients}"] = {
                "per_second": round(own.per_second),
                "p50_ms": round(own.p50, 2),
                "p95_ms": round(own.p95, 2),
                "p99_ms": round(own.p99, 2),
                "rate_to_echo": round(own.per_second / echo.per_second, 2),
                "rate_to_plain": round(own.per_second / plain.per_second, 2),
                "cpu_to_echo": round(own.cpu / echo.cpu, 2),
            }
            if before:
                found[f"{words}, {clients}"] |= {
                    "rate_to_echo_before": round(before[0].per_second / echo.per_second, 2),
                    "cpu_to_echo_before": round(before[0].cpu / echo.cpu, 2),
                }
    return found


def health(seconds: float, kind: str, size: str) -> dict[str, float]:
    """Measure `/healthz` while edits are being scored by a judge of a kind."""
    bodies = make_bodies(KINDS[size], 64)

    async def run(origin: ServerAddress) -> list[float]:
        loading = asyncio.create_task(load(origin, bodies, HEALTH_CLIENTS, seconds))
        await asyncio.sleep(1)
        prober = subprocess.Popen(
            [sys.executable, __file__, "--probe", str(origin.port), "--seconds", str(seconds - 2)],
            stdout=subprocess.PIPE,
            text=True,
        )
        out, _ = await asyncio.to_thread(prober.communicate)
        await loading
        return [float(each) for each in json.loads(out)]

    with running(kind) as (origin, _):
        taken = asyncio.run(run(origin))
    found = {"n": len(taken), **{f"p{share}_ms": round(percentile(taken, share / 100), 2) for share in (50, 99)}}
    print(f"/healthz with {HEALTH_CLIENTS} edits of {size} being scored, judge {kind}: {found}", flush=True)
    return found


async def probe(port: int, seconds: float) -> list[float]:
    """Ask `/healthz` again and again."""
    http = HttpClient(1 << 20)
    taken = []
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        began = time.perf_counter()
        await http.exchange(
            ServerAddress("127.0.0.1", port, False), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", ()
        )
        taken.append(time.perf_counter() - began)
        await asyncio.sleep(0.005)
    await http.close()
    return taken


def faults(number: int) -> dict[str, Any]:
    """Ask for many edits whose judge fails by chance; see that each gets its own reward or none."""
    import base64

    outcomes: Counter[str] = Counter()
    memory: list[float] = []

    async def run(origin: ServerAddress, process: psutil.Process) -> None:
        http = HttpClient(1 << 20)
        numbers = iter(range(number))
        source = base64.b64encode(b"source").decode()

        async def caller() -> None:
            for index in numbers:
                image = hashlib.sha256(str(index).encode()).digest() * 300
                edited = base64.b64encode(image).decode()
                asked = {"instruction": "x", "source": source, "edited": edited, "deadline_s": 0.5}
                body = json.dumps(asked).encode()
                reply = await http.exchange(origin, head(len(body)), (body,))
                assert reply.status == 200, reply.body
                [item] = json.loads(reply.body)["results"]
                if item["ok"]:
                    assert item["error"] is None
                    outcomes["right" if item["reward"] == reward_of(image) else "FAKE"] += 1
                else:
                    assert item["reward"] is None
                    outcomes[item["error"]["code"]] += 1
                if index % (number // 10) == 0:
                    memory.append(process.memory_info().rss / 1e6)

        await asyncio.gather(*(caller() for _ in range(64)))
        await http.close()

    began = time.perf_counter()
    with running("faulty") as (origin, process):
        asyncio.run(run(origin, process))
        last = process.memory_info().rss / 1e6
    found = {
        "asked": number,
        "answered": sum(outcomes.values()),
        "outcomes": dict(outcomes.most_common()),
        "rss_mb_after_20_percent": round(memory[2], 1),
        "rss_mb_at_the_end": round(last, 1),
        "seconds": round(time.perf_counter() - began, 1),
    }
    print(f"faults: {found}", flush=True)
    return found


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--only", choices=("rates", "health", "faults"))
    parser.add_argument(
        "--sizes", nargs="+", choices=tuple(KINDS), default=list(KINDS), help="of bodies, for the rates"
    )
    add_against(parser)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--probe", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve)
        return
    if arguments.probe:
        print(json.dumps(asyncio.run(probe(arguments.probe, arguments.seconds))))
        return
    found: dict[str, Any] = {"load": [round(each, 1) for each in os.getloadavg()]}
    if arguments.only in {None, "rates"}:
        found["rates"] = rates(arguments.seconds, arguments.sizes, arguments.against)
    if arguments.only in {None, "health"}:
        seconds = max(4.0, 2 * arguments.seconds)
        found["health"] = health(seconds, "slow", "300 KB")
        found["health_when_saturated"] = health(seconds, "ours", "1 KB")
    if arguments.only in {None, "faults"}:
        found["faults"] = faults(arguments.requests)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
