import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from commands import Rh
from hub_parts import REPO, Hub
from library_samples import write_sample

from rewardharness.errors import InputError
from rewardharness.hub.pushing import Pushed
from rewardharness.library import space
from rewardharness.library.hub import HubError, push
from rewardharness.library.space import push_space
from rewardharness.settings import Settings

ROOT = Path(__file__).parents[2]
SPACE = "ann/demo"


@pytest.fixture
def hub(hub: Hub, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """A Hub with a Library. Only a test that runs a Space pushes all of the source code."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(space, "source_files", lambda: {"app/main.py": b"pass", "rewardharness/a.py": b"pass"})
    push(write_sample(tmp_path / "mine"), REPO, access=hub.user("ann"))
    return hub


def make(hub: Hub, judge: str = "measured", **wish: bool) -> Pushed:
    return push_space(SPACE, f"{REPO}@v0.1.0", judge, **wish, access=hub.user("ann"))


def files(hub: Hub) -> dict[str, bytes]:
    return dict(hub.server.store.repos["spaces", SPACE].find("main").files)


def test_a_space_is_made_then_updated_then_left_alone(hub: Hub) -> None:
    plan = make(hub, dry_run=True)
    assert plan.created and plan.commit is None and ("spaces", SPACE) not in hub.server.store.repos
    assert "RH_LIBRARY" in plan.diffs["app.py"]
    done = make(hub)
    assert done.created and done.changes == plan.changes and done.url == f"{hub.server.url}/spaces/{SPACE}"
    head = yaml.safe_load(files(hub)["README.md"].decode().split("---\n")[1])
    assert (head["sdk"], head["sdk_version"], head["python_version"]) == ("gradio", "6.31.0", "3.12")
    scopes = ["contribute-repos", "write-discussions", "inference-api", "jobs"]
    assert head["hf_oauth"] is True and head["hf_oauth_scopes"] == scopes
    assert (head["app_file"], head["models"], head["license"]) == ("app.py", [REPO], "apache-2.0")
    assert f"`{REPO}@v0.1.0`" in files(hub)["README.md"].decode()
    again = make(hub)
    assert again.nothing_to_push and again.commit == done.commit and not again.created

    stored = hub.server.store.repos["spaces", SPACE]
    own = files(hub)["README.md"].decode().replace("title: demo", "title: Mine") + "\n## My own words\n"
    stored.put({"README.md": own, "app/old_part.py": "", "notes.txt": "mine"})
    other = make(hub, judge="openai:some-model@https://example.com/v1")
    assert other.changes.deleted == ("app/old_part.py",) and "app.py" in other.changes.changed
    assert files(hub)["notes.txt"] == b"mine" and b"## My own words" in files(hub)["README.md"]
    assert b"RH_API_KEY" in files(hub)["README.md"]
    assert len(stored.history("main")) == 4, "one commit each, beside the first and the one by hand"


@pytest.mark.slow
def test_what_is_in_the_space_runs_by_itself(hub: Hub, tmp_path: Path) -> None:
    make(hub)
    root = tmp_path / "space"
    for path, data in files(hub).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    ast.parse((root / "app.py").read_text("utf-8"))
    code = "import runpy, app.main as m, rewardharness.library as l; seen = []; m.launch = seen.append; "
    code += "runpy.run_path('app.py', run_name='__main__'); "
    code += "print(*(getattr(seen[0], name) for name in ('library', 'judge', 'release')), l.__file__)"
    env = {"PATH": "/usr/bin", "HOME": str(root), "RH_RELEASE": "release.json"}
    found = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, '.'); {code}"],
        cwd=root, capture_output=True, text=True, check=True, env=env,
    )  # fmt: skip
    library, judge, release, where = found.stdout.split()
    assert (library, judge, release) == (f"{REPO}@v0.1.0", "measured", "release.json")
    assert Path(where).is_relative_to(root)
    tracked = {str(path.relative_to(ROOT)) for path in (ROOT / "rewardharness/library/builtin").rglob("*.md")}
    assert tracked <= set(files(hub)) and not [path for path in files(hub) if "__pycache__" in path]


def test_the_settings_that_a_space_names_are_read(hub: Hub, tmp_path: Path) -> None:
    make(hub)
    page = files(hub)["README.md"].decode()
    assert f"rh release create --library {REPO}@v0.1.0 -o release.json" in page and "RH_RELEASE" in page
    named = set(re.findall(r"^\| `(RH_\w+)` \|", page, re.MULTILINE))
    assert named == {"RH_LIBRARY", "RH_JUDGE", "RH_RELEASE"}
    usual = Settings.from_env({"RH_HOME": str(tmp_path)})
    for name in named:
        assert Settings.from_env({"RH_HOME": str(tmp_path), name: "given"}) != usual, f"{name} changes nothing"


def test_the_requirements_of_a_space_are_those_of_this_repository() -> None:
    ours = (ROOT / "requirements.txt").read_text("utf-8")
    assert (ROOT / "hub_templates/space_requirements.txt").read_text("utf-8") == ours


def test_nothing_is_pushed_over_another_app_without_rights_or_without_a_library(hub: Hub) -> None:
    hub.server.store.create(SPACE, kind="spaces").put({"app.py": "print('other')"})
    with pytest.raises(HubError, match="contains another app"):
        make(hub)
    with pytest.raises(HubError, match="may not"):
        push_space("bob/demo", REPO, access=hub.user("ann"))
    with pytest.raises(HubError, match="There is no ann/missing"):
        push_space("ann/new", "ann/missing", access=hub.user("ann"))
    for wish in (("builtin",), (REPO, "two words"), (REPO, "openai:m@https://u:pw@x.com")):
        with pytest.raises(InputError):
            push_space("ann/new", *wish, access=hub.user("ann"))
    assert ("spaces", "ann/new") not in hub.server.store.repos


def test_a_private_library_names_the_secret_that_it_needs(hub: Hub) -> None:
    hub.repo.private = True
    done = make(hub, private=True)
    assert "HF_TOKEN" in done.notes[0] and "`HF_TOKEN`" in done.card
    token = hub.server.login("ann")
    assert not any(token.encode() in data for data in files(hub).values())


def test_the_command_tells_what_it_would_do_and_did(hub: Hub, monkeypatch: pytest.MonkeyPatch, rh: Rh) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.server.login("ann"))
    words = ("app", "push-space", SPACE, "--library", REPO)
    told = rh(*words, "--dry-run").out
    assert "+sdk: gradio" in told and f"{SPACE} would be made. Nothing was written." in told
    assert re.search(rf"{SPACE} is commit [0-9a-f]{{40}}", rh(*words).out)
    assert rh(*words, "--json").json["nothing_to_push"] is True
