"""`rh serve` in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TOKEN = "0123456789abcdef0123456789abcdef"
ROOT = Path(__file__).parent.parent


class Server:
    """A server that says where it is before a test goes on.

    Args:
        folder: Folder in which it starts.
        words: Options of `rh serve`.
        home: Its RH_HOME.
        python: The interpreter.
    """

    def __init__(self, folder: Path, *words: str, home: Path, python: str = sys.executable) -> None:
        command = [python, "-m", "rewardharness", "serve", "--port", "0", *words]
        environment = {**os.environ, "RH_HOME": str(home), "RH_SERVER_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder)
        assert self.process.stderr is not None
        said = self.process.stderr.readline()
        if not said.startswith("Rewards at http://"):
            said += self.process.communicate()[1]
            raise AssertionError(said)
        self.url = said.split()[2]
        self.judge = self.process.stderr.readline()

    def post(self, path: str, value: dict[str, Any]) -> Any:
        status, reply = self.ask(path, value)
        assert status == 200, reply
        return reply

    def ask(self, path: str, value: object = None, token: str = TOKEN) -> tuple[int, Any]:
        """Return status and reply of a request, which is a POST if it has a value."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = None if value is None else json.dumps(value).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, body, headers), timeout=100) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def end(self, number: signal.Signals) -> int:
        assert self.process.stderr is not None
        try:
            self.process.send_signal(number)
            return self.process.wait(100)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()
