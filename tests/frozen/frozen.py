"""What users and programs see, as text files beside this module, so that a change of it is a decision and is seen.

python tests/frozen/frozen.py     write the files again
"""

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

FOLDER = Path(__file__).parent
MASKED = re.compile(r"[0-9a-f]{64}")
VARYING = frozenset({"seconds", "steps", "made_with", "code", "results", "folder", "sessions", "started", "ended"})
"""Keys whose values differ from machine to machine or from run to run."""
SCORE = ("score", "demo", "--limit", "3", "--judge", "random", "--quiet")


def help_text(page: str) -> str:
    """Return the help of all commands and subcommands, as in the page of the site."""
    return "\n\n".join(re.findall(r"^```\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)) + "\n"


def write_site(folder: Path) -> None:
    """Write the pages made from the code; in a process of its own, as completion hides the help of commands."""
    subprocess.run([sys.executable, FOLDER.parents[1] / "docs" / "make_reference.py", folder], check=True)


def openapi() -> Any:
    """Return the description that the reward server gives of itself."""
    from rewardharness.judging.opening import open_judge
    from rewardharness.library.store import EMPTY
    from rewardharness.serving.api import make_app
    from rewardharness.serving.limits import Limits
    from rewardharness.serving.security import Guard
    from rewardharness.serving.service import Service

    front = make_app(Service(open_judge("random"), EMPTY, Limits()), Guard())
    sent: list[bytes] = []

    async def ask() -> None:
        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message.get("body", b""))

        scope = {"type": "http", "method": "GET", "path": "/openapi.json", "raw_path": b"/openapi.json"}
        scope |= {"query_string": b"", "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1)}
        await front({**scope, "scheme": "http", "server": ("127.0.0.1", 80), "http_version": "1.1"}, receive, send)

    asyncio.run(ask())
    return json.loads(b"".join(sent))


def records() -> dict[str, Any]:
    """Return the JSON of a report, a judgment, a run folder and a release, without what varies."""
    with tempfile.TemporaryDirectory() as folder:
        run, release = Path(folder, "run"), Path(folder, "release.json")
        report = json.loads(command(*SCORE, "--json", "--run", str(run)))
        pinned = ("--judge", "vllm:judge@http://127.0.0.1:9/v1", "--library", "empty", "--json")
        command("release", "create", *pinned, "-o", str(release))
        lines = (run / "results.jsonl").read_text(encoding="utf-8").splitlines()
        found = {
            "rh score --json": report,
            "results.jsonl": [json.loads(line) for line in lines],
            "run.json": json.loads((run / "run.json").read_text(encoding="utf-8")),
            "config.json": json.loads((run / "config.json").read_text(encoding="utf-8")),
            "files of a run folder": sorted(path.name for path in run.iterdir()),
            "release": json.loads(release.read_text(encoding="utf-8")),
        }
    masked: dict[str, Any] = mask(found)
    return masked


def small_demo() -> AbstractContextManager[object]:
    """Return a context in which the demo dataset is no larger than needed."""
    from rewardharness.data import opening

    return patch.object(opening, "DEMO_PAIRS", 3)


def command(*words: str) -> str:
    """Run a command in this process and return what it prints.

    Raises:
        RuntimeError: If it fails.
    """
    from rewardharness.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(list(words))
    if status:
        raise RuntimeError(f"rh {' '.join(words)} exited with {status}: {err.getvalue()}")
    return out.getvalue()


def mask(value: Any) -> Any:
    """Return JSON with a mark for each digest and each value that varies."""
    if isinstance(value, dict):
        return {key: "*" if key in VARYING else mask(item) for key, item in value.items()}
    if isinstance(value, list):
        return [mask(item) for item in value]
    return MASKED.sub("*", value) if isinstance(value, str) else value


def frozen(site: Path) -> dict[str, str]:
    """Return the text of each file by its name; that of the help from a folder with the pages of the site."""
    values = {"openapi.json": openapi(), "records.json": records()}
    texts = {name: json.dumps(value, indent=1, ensure_ascii=False) + "\n" for name, value in values.items()}
    return {"help.txt": help_text((site / "cli.md").read_text(encoding="utf-8")), **texts}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home, small_demo():
        os.environ["RH_HOME"] = home
        write_site(Path(home))
        for name, text in frozen(Path(home)).items():
            (FOLDER / name).write_text(text, encoding="utf-8")
    sys.exit(0)
