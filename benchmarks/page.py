"""How fast the web app is: its start, the bytes of its page, and the verdict of a sample in Chromium.

Each tree is a checkout of this project. For each of them, in turn and repeatedly, `rh app` is started in a process of
its own on this machine, and Chromium opens the page and tries samples. Figures per tree, as medians:

    start    seconds from the start of the process to its first answer, and its seconds of CPU until then
    page     bytes of the page as sent to a client that accepts gzip, and as read
    first    seconds from the click on a sample to its verdict, for the first sample of a page that was just opened
    later    the same for further samples
    server   seconds of CPU of the app and its workers from a click to the verdict, and until the page is idle
    browser  seconds of CPU of Chromium from a click to the verdict
    requests HTTP requests from a click until the page is idle

    python benchmarks/page.py [--tree . --tree ../other] [--rounds 3] [--samples 4] [--trace]

Prints figures as they come and ends with one line of JSON. Where others use the machine too, compare ratios, and
seconds of CPU before seconds.
"""

import argparse
import gzip
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from playwright.sync_api import BrowserContext, Page, Response, sync_playwright

TITLES = ("Blue space suit", "A red balloon", "Brighter picture", "Black and white")
IDLE = 1.5
"""Seconds without a request after which the page is idle."""
ARRIVED = """title => new Promise(resolve => {
  const verdict = document.querySelector("#verdict");
  const there = () => verdict.querySelector(".verdict") && !verdict.querySelector(".rh-working");
  const button = [...document.querySelectorAll("#samples button")].find(each => each.textContent.includes(title));
  verdict.querySelector(".verdict")?.classList.remove("verdict");
  const begun = performance.now();
  const look = () => {
    if (!there()) return;
    watching.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve((performance.now() - begun) / 1000)));
  };
  const watching = new MutationObserver(look);
  watching.observe(verdict, { childList: true, subtree: true, attributes: true });
  button.click();
})"""
"""Clicks a sample, and returns the seconds until its verdict was drawn."""


def cpu_of(process: psutil.Process) -> float:
    """Return the seconds of CPU of a process and its children so far."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + (times.children_user + times.children_system if each == process else 0)
    return total


@contextmanager
def running(tree: Path, figures: dict[str, list[float]]) -> Iterator[tuple[str, psutil.Process]]:
    """Run the app of a tree, and note what its start and its page cost."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "PYTHONPATH": str(tree), "RH_HOME": home, "HF_HUB_OFFLINE": "1"}
        begun = time.monotonic()
        command = [sys.executable, "-m", "rewardharness", "app", "--port", str(port)]
        with subprocess.Popen(command, cwd=tree, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as app:
            process = psutil.Process(app.pid)
            try:
                page = _first_answer(url, app)
                figures["start"].append(time.monotonic() - begun)
                figures["start CPU"].append(cpu_of(process))
                figures["page KB"].append(len(page) / 1000)
                figures["page KB read"].append(len(gzip.decompress(page)) / 1000)
                yield url, process
            finally:
                app.terminate()
                app.wait(60)


def _first_answer(url: str, app: "subprocess.Popen[bytes]") -> bytes:
    until = time.monotonic() + 120
    while time.monotonic() < until and app.poll() is None:
        try:
            request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return bytes(answer.read())
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.02)
    raise SystemExit("The app did not start.")


def chromium_of(profile: str) -> psutil.Process:
    """Return the main process of the Chromium with a profile."""
    for each in psutil.process_iter(["cmdline"]):
        words = each.info["cmdline"] or []
        if f"--user-data-dir={profile}" in words and not any(word.startswith("--type=") for word in words):
            return each
    raise SystemExit("Chromium does not run.")


def visit(
    browser: BrowserContext, url: str, processes: tuple[psutil.Process, psutil.Process], count: int, *, trace: bool
) -> Iterator[tuple[float, ...]]:
    """Open the page and try samples; yield for each the figures of its verdict."""
    process, chromium = processes
    page = browser.new_page()
    events: list[tuple[float, str]] = []

    def note(response: Response) -> None:
        events.append((time.monotonic(), f"{response.status} {response.request.method} {_what(response)}"))

    page.on("response", note)
    page.goto(url)
    page.locator("#samples button").first.wait_for(state="visible")
    _settle(page, events)
    for number in range(count):
        events.clear()
        before, drawn, begun = cpu_of(process), cpu_of(chromium), time.monotonic()
        seconds = page.evaluate(ARRIVED, TITLES[number % len(TITLES)])
        until_verdict, drawn = cpu_of(process) - before, cpu_of(chromium) - drawn
        if trace:
            for at, what in list(events):
                print(f"    {at - begun:6.2f} {what}")
            print(f"    {seconds:6.2f} verdict")
        seen = len(events)
        _settle(page, events)
        if trace:
            for at, what in events[seen:]:
                print(f"    {at - begun:6.2f} {what}")
        yield seconds, until_verdict, cpu_of(process) - before, drawn, float(len(events))
    page.close()


def _what(response: Response) -> str:
    sent = response.request.post_data or "" if "queue/join" in response.url or "/run/" in response.url else ""
    path = response.url.split("/", 3)[-1][:70]
    return f"{path} fn={json.loads(sent).get('fn_index')}" if sent.startswith("{") else path


def _settle(page: Page, events: list[tuple[float, str]]) -> None:
    for _ in range(40):
        count = len(events)
        page.wait_for_timeout(1000 * IDLE)
        if len(events) == count:
            return


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", action="append", type=Path, help="a checkout; repeat it to compare")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--trace", action="store_true", help="print each request after a click")
    given = parser.parse_args()
    trees = [tree.resolve() for tree in given.tree or [Path()]]
    figures: dict[str, dict[str, list[float]]] = {str(tree): defaultdict(list) for tree in trees}
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-software-rasterizer"]
        browser = playwright.chromium.launch_persistent_context(profile, executable_path=given.chromium, args=args)
        for _ in range(given.rounds):
            for tree in trees:
                mine = figures[str(tree)]
                with running(tree, mine) as (url, process):
                    processes = process, chromium_of(profile)
                    for number, found in enumerate(visit(browser, url, processes, given.samples, trace=given.trace)):
                        kind = "later" if number else "first"
                        measured = ("server CPU to verdict", "server CPU to idle", "browser CPU", "requests")
                        names = (kind, *(f"{kind} {each}" for each in measured))
                        for name, value in zip(names, found, strict=True):
                            mine[name].append(value)
                latest = {name: round(values[-1], 2) for name, values in mine.items()}
                print(tree.name, latest, flush=True)
        browser.close()
    medians = {
        tree: {name: round(statistics.median(values), 3) for name, values in mine.items()}
        for tree, mine in figures.items()
    }
    print(json.dumps(medians))


if __name__ == "__main__":
    main()
