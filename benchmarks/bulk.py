"""Rows per second and memory of `rh score --output` with the local engine and with Ray, on 1 to 4 model servers.

Each model server is a process of its own with the latency of a vLLM server: 200 ms up to 32 requests in flight, and
more in proportion beyond. It therefore answers at most 160 requests per second, and the ideal rate grows with the
number of servers until the processor is full. The rows are pairs of 64 x 64 images in a Parquet file, judged in one
order without the cache.

With `--kill`, a run is killed with SIGKILL in the middle and continued; its files are compared with those of an
undisturbed run.

    python benchmarks/bulk.py [--rows 20000] [--endpoints 1,2,4] [--engines local,ray] [--python WITH_RAY] [--kill]
                              [--against REVISION]

Prints a table and ends with one line of JSON.
"""

import argparse
import hashlib
import io
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _against import add_against, with_other

ROOT = Path(__file__).parents[1]
LATENCY, CAPACITY = 0.2, 32
ANSWER = {"preference": "A", "scores": {label: {"instruction": 3, "quality": 3} for label in "AB"}}


def serve() -> None:
    """Serve until the input ends."""
    sys.path.insert(0, str(ROOT / "tests"))
    from model_server import ModelServer, completion

    class Saturating(ModelServer):
        """A server whose latency grows when more requests are in flight than it can process side by side."""

        @property  # type: ignore[override]
        def latency(self) -> float:
            return LATENCY * max(1.0, self.in_flight / CAPACITY)

        @latency.setter
        def latency(self, value: float) -> None:
            """Ignore the constant latency of the base class."""

    with Saturating(static=json.dumps(completion(json.dumps(ANSWER))).encode()) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def write_rows(path: Path, rows: int) -> None:
    """Write pairs of small images; every instruction is another one."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as parquet
    from PIL import Image

    random = np.random.default_rng(0)
    images = []
    for _ in range(48):
        stream = io.BytesIO()
        small = Image.fromarray(random.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        small.resize((64, 64), Image.Resampling.BICUBIC).save(stream, "PNG")
        images.append({"bytes": stream.getvalue(), "path": None})
    columns = {
        "id": [f"row-{number}" for number in range(rows)],
        "instruction": [f"make object {number} red" for number in range(rows)],
        **{
            name: [images[(number + place) % len(images)] for number in range(rows)]
            for place, name in enumerate(("source", "image_a", "image_b"))
        },
    }
    parquet.write_table(pa.table(columns), path, row_group_size=500)


class Run:
    """A run of the command with its processes."""

    def __init__(self, python: str, data: Path, output: Path, urls: list[str], engine: str) -> None:
        judge = f"vllm:judge@{','.join(urls)}"
        words = ["score", str(data), "--output", str(output), "--judge", judge, "--protocol", "direct", "--one-order"]
        words += ["--no-cache", "--part-rows", "500", "--concurrency", str(48 * len(urls)), "--engine", engine]
        self._process = subprocess.Popen(
            [python, "-m", "rewardharness", *words, "--quiet", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.peak_mb, self.cpu, self._seen = 0.0, 0.0, {}

    def wait(self, until: Any = None) -> str:
        """Wait for the end, or until something is true; return the output."""
        import psutil

        root = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            memory = 0
            try:
                for process in (root, *root.children(recursive=True)):
                    times = process.cpu_times()
                    self._seen[process.pid] = times.user + times.system
                    memory += process.memory_info().rss
            except psutil.Error:
                continue
            self.peak_mb = max(self.peak_mb, memory / 1e6)
            if until is not None and until():
                return ""
            time.sleep(0.2)
        self.cpu = sum(self._seen.values())
        assert self._process.stdout is not None
        return self._process.stdout.read()

    def kill(self) -> None:
        """Kill it as a failing machine would, with the processes that it started."""
        import psutil

        children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        for child in children:
            child.kill()
        psutil.wait_procs(children)


def digests(output: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of rows."""
    found = sorted(output.glob("judged/*")) + sorted(output.glob("failed/*"))
    return {path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run all combinations; return one record for each."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.parquet"
        write_rows(data, arguments.rows)
        servers = [Server() for _ in range(max(arguments.endpoints))]
        try:
            expected: dict[str, str] | None = None
            for engine in arguments.engines:
                python = sys.executable if engine == "local" else arguments.python
                for count in arguments.endpoints:
                    output = Path(folder) / f"{engine}-{count}"
                    urls = [server.url for server in servers[:count]]
                    begin = time.monotonic()
                    run = Run(python, data, output, urls, engine)
                    report = json.loads(run.wait())
                    seconds = time.monotonic() - begin
                    expected = expected or digests(output)
                    record = {
                        "engine": engine,
                        "endpoints": count,
                        "rows": report["rows_done"],
                        "not_judged": report["failed"],
                        "seconds": round(seconds, 1),
                        "rows_per_second": round(arguments.rows / seconds, 1),
                        "of_ideal": round(arguments.rows / seconds / (count * CAPACITY / LATENCY), 2),
                        "cpu_ms_per_row": round(1000 * run.cpu / arguments.rows, 2),
                        "peak_mb": round(run.peak_mb),
                        "same_rows": digests(output) == expected,
                    }
                    found.append(record)
                    print("  ".join(f"{name} {value}" for name, value in record.items()), flush=True)
                if arguments.kill:
                    found.append(killed(python, engine, data, Path(folder), servers, expected or {}))
                    print("  ".join(f"{name} {value}" for name, value in found[-1].items()), flush=True)
        finally:
            for server in servers:
                server.close()
    return found


def killed(
    python: str, engine: str, data: Path, folder: Path, servers: list["Server"], expected: dict[str, str]
) -> dict[str, Any]:
    """Kill a run in the middle, continue it, and compare its files."""
    output, urls = folder / f"{engine}-killed", [server.url for server in servers]
    half = len(expected) // 2
    run = Run(python, data, output, urls, engine)
    run.wait(lambda: len(list(output.glob("done/*.json"))) >= half)
    run.kill()
    parts = len(list(output.glob("done/*.json")))
    Run(python, data, output, urls, engine).wait()
    problems = subprocess.run(
        [sys.executable, "-m", "rewardharness", "score", "verify", str(output), "--json"],
        capture_output=True,
        text=True,
    )
    return {
        "engine": engine,
        "killed_after_parts": parts,
        "of": len(expected),
        "same_rows": digests(output) == expected,
        "problems": len(json.loads(problems.stdout)["problems"]),
    }


class Server:
    """A model server in another process."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--endpoints", type=lambda text: [int(each) for each in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--engines", type=lambda text: text.split(","), default=["local"])
    parser.add_argument("--python", default=sys.executable, help="interpreter with Ray")
    parser.add_argument("--kill", action="store_true")
    add_against(parser)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    print(json.dumps(with_other(measure(arguments), arguments.against)))


if __name__ == "__main__":
    main()
