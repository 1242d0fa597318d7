"""Deployments: a history that only grows, and a pointer that is whole whenever the process ends."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from release_parts import measured_release, model_release

from rewardharness.errors import HarnessError, InputError, ReleaseError
from rewardharness.files import hold
from rewardharness.judging.deployments import Deployments, find_release
from rewardharness.judging.release_file import save_release
from rewardharness.settings import Settings

FIRST, SECOND, THIRD = measured_release(), model_release(), measured_release("\nMore.")


def active(deployments: Deployments, target: str = "prod") -> str:
    record = deployments.active(target)
    assert deployments.release(target).id == record.release
    return record.release


@pytest.fixture
def deployments(tmp_path: Path) -> Deployments:
    """Deployments where the first release and then the second became active as prod."""
    found = Deployments(tmp_path)
    for release in (FIRST, SECOND):
        found.deploy("prod", release)
    return found


def test_deploying_what_is_active_changes_nothing(deployments: Deployments) -> None:
    record, changed = deployments.deploy("prod", SECOND)
    assert not changed
    assert (record.number, record.back) == (2, FIRST.id), "the way back is kept"
    assert len(deployments.history("prod")) == 2


def test_rolling_back_goes_back_step_by_step(deployments: Deployments) -> None:
    deployments.deploy("prod", THIRD)
    assert [deployments.rollback("prod").release for _ in range(2)] == [SECOND.id, FIRST.id]
    with pytest.raises(ReleaseError, match="Nothing was active"):
        deployments.rollback("prod")
    assert deployments.rollback("prod", THIRD.id[:8]).release == THIRD.id
    assert deployments.rollback("prod").release == SECOND.id
    assert [each.action for each in deployments.in_effect("prod")] == ["deploy"] * 3 + ["rollback"] * 4
    deployments.deploy("prod", FIRST)
    assert deployments.rollback("prod").release == SECOND.id


@pytest.mark.parametrize(
    ("target", "to", "says"),
    [
        ("staging", None, "Nothing is deployed"),
        ("prod", SECOND.id, "active as 'prod' already"),
        ("prod", "0" * 64, "not one"),
        ("prod", FIRST.id[:3], "not one"),
        ("prod", "../releases", "not one"),
    ],
)
def test_rolling_back_to_nothing_known_is_refused(
    deployments: Deployments, target: str, to: str | None, says: str
) -> None:
    with pytest.raises(ReleaseError, match=says):
        deployments.rollback(target, to)
    assert active(deployments) == SECOND.id


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "/etc", "Prod", "a b", "x" * 65, ".hidden", "a\n", "-x"])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    deployments = Deployments(tmp_path)
    for use in (deployments.active, deployments.release, deployments.rollback, lambda n: deployments.deploy(n, FIRST)):
        with pytest.raises(InputError, match="name of a deployment"):
            use(name)
    assert list(tmp_path.iterdir()) == []


def test_what_this_installation_cannot_keep_to_is_not_deployed(tmp_path: Path) -> None:
    deployments = Deployments(tmp_path)
    deployments.deploy("prod", FIRST)
    other = replace(SECOND, code={**SECOND.code, "prompt judge": "0" * 64})
    with pytest.raises(ReleaseError, match="prompt judge"):
        deployments.deploy("prod", other)
    assert active(deployments) == FIRST.id
    assert len(deployments.history("prod")) == 1


def test_a_stored_release_that_was_changed_is_found(deployments: Deployments, tmp_path: Path) -> None:
    file = tmp_path / "deployments" / "prod" / "releases" / f"{FIRST.id}.json"
    file.write_text(file.read_text("utf-8").replace('"ties": false', '"ties": true'), encoding="utf-8")
    with pytest.raises(ReleaseError, match="`settings`"):
        deployments.rollback("prod")
    with pytest.raises(ReleaseError, match="`settings`"):
        deployments.deploy("prod", FIRST)
    save_release(THIRD, file)
    with pytest.raises(ReleaseError, match="is release"):
        deployments.rollback("prod")
    assert active(deployments) == SECOND.id


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"release": "x"}'])
def test_a_damaged_pointer_is_said_to_be_one(text: str, tmp_path: Path) -> None:
    deployments = Deployments(tmp_path)
    record, _ = deployments.deploy("prod", FIRST)
    pointer = tmp_path / "deployments" / "prod" / "active.json"
    pointer.write_text(text, encoding="utf-8")
    with pytest.raises(HarnessError) as caught:
        deployments.release("prod")
    assert str(pointer) in caught.value.message
    pointer.write_text(json.dumps({**record.__dict__, "release": "../../x"}), encoding="utf-8")
    with pytest.raises(ReleaseError, match="points at nothing"):
        deployments.release("prod")


def test_two_do_not_deploy_at_once(tmp_path: Path) -> None:
    deployments = Deployments(tmp_path)
    deployments.deploy("prod", FIRST)
    handle = hold(tmp_path / "deployments" / "prod" / "lock")
    try:
        with pytest.raises(ReleaseError, match="Another process"):
            deployments.deploy("prod", SECOND)
        assert active(deployments) == FIRST.id, "those who read do not wait"
    finally:
        os.close(handle)


def test_a_release_is_found_by_file_or_by_name(tmp_path: Path) -> None:
    settings = replace(Settings.from_env(), home=tmp_path)
    save_release(SECOND, tmp_path / "r.json")
    assert find_release(str(tmp_path / "r.json"), settings) == SECOND
    Deployments(tmp_path).deploy("prod", FIRST)
    assert find_release("deployed:prod", settings) == FIRST
    with pytest.raises(ReleaseError, match="Nothing is deployed as 'staging'"):
        find_release("deployed:staging", settings)


DYING = """
import json, os, signal, sys
from pathlib import Path
from rewardharness.judging.deployments import Deployments
from rewardharness.judging.release_file import load_release

home, releases = Path(sys.argv[1]), [load_release(Path(name)) for name in sys.argv[2:]]
deployments = Deployments(home)

def deadly(name):
    real = getattr(os, name)
    def call(*arguments, **more):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **more)
    setattr(os, name, call)

for last in range(1, 100):
    before = deployments.active("prod").release
    wanted = next(each for each in releases if each.id != before)
    child = os.fork()
    if not child:
        left = last
        for name in ("fsync", "replace", "link", "unlink", "open", "close", "chmod"):
            deadly(name)
        deployments.deploy("prod", wanted)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    active = deployments.release("prod").id
    chain = [[each.number, each.on, each.release] for each in deployments.in_effect("prod")]
    print(json.dumps({"status": status, "before": before, "wanted": wanted.id, "active": active, "chain": chain}))
    if status == 0:
        break
"""
"""Deploys one release and the other in turn, each time in a process that dies just before its n-th call of the system
that changes something, until one comes to its end."""


def test_the_pointer_is_valid_wherever_the_process_is_killed(tmp_path: Path) -> None:
    deployments = Deployments(tmp_path)
    deployments.deploy("prod", FIRST)
    files = [tmp_path / "second.json", tmp_path / "third.json"]
    for file, release in zip(files, (SECOND, THIRD), strict=True):
        save_release(release, file)
    words = [sys.executable, "-c", DYING, str(tmp_path), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *killed, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(killed) > 10
    assert {each["status"] for each in killed} == {-9}
    assert (last["status"], last["active"]) == (0, last["wanted"])
    assert {each["active"] == each["wanted"] for each in killed} == {True, False}, "some died before it, some after"
    for each in (*killed, last):
        assert each["active"] in (each["before"], each["wanted"])
        assert each["chain"][0][2] == FIRST.id and each["chain"][-1][2] == each["active"]
        assert all(two[1] == one[0] for one, two in pairwise(each["chain"]))
    assert deployments.rollback("prod").release != last["active"]
    assert not list((tmp_path / "deployments").glob("**/.*.tmp")), "what killed processes left is gone"
