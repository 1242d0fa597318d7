"""The app and the reward server end soon after SIGTERM, whatever they are doing."""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from app_parts import ROOT
from model_server import ModelServer, own_port

from app.main import serve
from rewardharness.errors import InputError
from rewardharness.measure.images import encode_png
from rewardharness.settings import Settings

SECONDS = 20.0
"""Longest time to the end, on a machine that does much else: a third of what the open work would take."""

APP = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from app.main import launch
from rewardharness.settings import Settings
pool = ThreadPoolExecutor()
def ready(url):
    pool.submit(threading.Event().wait)
    print("at", url, flush=True)
launch(Settings.from_env(), host="127.0.0.1", port=int(sys.argv[1]), ready=ready)
"""
"""Serves the app while a thread works without an end."""


def ended(process: "subprocess.Popen[str]") -> tuple[int, float]:
    """Send SIGTERM; return the exit status and the seconds that it took."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    return process.wait(60), time.monotonic() - began


def environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RH_", "GRADIO_"))}
    return {**own, "RH_HOME": str(home), "PYTHONPATH": str(ROOT), "TMPDIR": str(home)}


@pytest.mark.slow
def test_the_app_ends_with_open_connections_and_work(tmp_path: Path) -> None:
    command = [sys.executable, "-c", APP, str(own_port())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as process:
        try:
            assert process.stdout is not None
            address = urlsplit(process.stdout.readline().split()[1])
            idle, open_ = (http.client.HTTPConnection(str(address.hostname), address.port) for _ in range(2))
            idle.request("GET", "/config")
            idle.getresponse().read()
            open_.request("GET", "/gradio_api/heartbeat/one")
            reply = open_.getresponse()
            assert reply.status == 200 and reply.read(1)
            status, seconds = ended(process)
        finally:
            process.kill()
    idle.close()
    open_.close()
    assert status == 0 and seconds < SECONDS
    assert not list(tmp_path.glob("rewardharness-app-*")), "its scratch folder is removed"


@pytest.mark.slow
def test_the_reward_server_ends_with_open_connections_and_work(tmp_path: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    def model(call: object) -> str:
        asked.set()
        go.wait(60)
        return "{}"

    with ModelServer(model) as upstream:
        command = [sys.executable, "-m", "rewardharness", "serve", "--port", "0", "--no-cache"]
        command += ["--judge", f"openai:judge@{upstream.url}", "--protocol", "pointwise"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(tmp_path)) as process:
            try:
                assert process.stderr is not None
                address = urlsplit(process.stderr.readline().split()[2])
                idle, working = (http.client.HTTPConnection(str(address.hostname), address.port) for _ in range(2))
                idle.request("GET", "/healthz")
                idle.getresponse().read()
                picture = base64.b64encode(encode_png(np.full((32, 32, 3), 90, np.uint8))).decode()
                body = json.dumps({"instruction": "make it red", "source": picture, "edited": picture})
                working.request("POST", "/score", body, {"Content-Type": "application/json"})
                assert asked.wait(60), working.getresponse().read()
                status, seconds = ended(process)
            finally:
                go.set()
                process.kill()
    idle.close()
    working.close()
    assert status == 0 and seconds < SECONDS


@pytest.mark.slow
def test_the_app_takes_any_free_port_and_ctrl_c_ends_it_as_other_commands(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-m", "rewardharness", "app", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment(tmp_path), **pipes) as process:
        assert process.stdout is not None
        address = urlsplit(next(word for word in process.stdout.readline().split() if word.startswith("http")))
        connection = http.client.HTTPConnection(str(address.hostname), address.port)
        connection.request("GET", "/config")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGINT)
        text, problems = process.communicate(timeout=60)
    assert process.returncode == 130 and "Keyboard" not in text and "Traceback" not in problems


def test_a_dataset_for_votes_that_does_not_exist_is_told_at_the_start(tmp_path: Path) -> None:
    settings = Settings.from_env({"RH_HOME": str(tmp_path), "RH_VOTE_DATA": "nowhere/"})
    with pytest.raises(InputError, match="RH_VOTE_DATA: nowhere/ does not exist"):
        serve(settings, tmp_path)
