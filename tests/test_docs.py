"""Every command and program of README, docs, notebooks and the help of commands runs, against servers on this machine.

A block is run as it is written, but for `REPLACED`; files that it names are made by `FILES` when they are missing. The
blocks of the tutorial share one folder. A line that no test can run is in `NOT_RUN`, with the reason. A block of
another language than `DATA` cannot hide one.
"""

import contextlib
import inspect
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cyclopts import MissingArgumentError

sys.path.insert(0, str(Path(__file__).parent / "benchmark"))
from docs_files import FILES, ROOT, names
from drawn_pairs import draw_pairs
from hub_server import HubServer
from hub_store import Store
from made_tables import as_parquet, data_100
from model_server import Answer, Call, ModelServer, instance
from synthetic import MAKERS

from rewardharness.benchmark.task import open_task
from rewardharness.cli.command import COMMANDS, complete, load_app, parse
from rewardharness.cli.main import main
from rewardharness.data import opening
from rewardharness.demo import dataset
from rewardharness.errors import InputError
from rewardharness.library.opening import open_library
from rewardharness.library.store import RemoveEntry
from rewardharness.models.open import SERVICES
from rewardharness.remote import job as remote_job

NOTEBOOKS = ROOT / "examples" / "notebooks"
TRL_PYTHON = os.environ.get("RH_TEST_TRL_PYTHON", "")
PROGRAMS = ("bash", "python")
DATA = ("json", "markdown", "text", "yaml")
A_COMMAND = re.compile(r"\s*(\$ |(RH_\w+=\S+ )*(rh|pip|python3?|make|docker|curl|hf|sbatch) [^=:]*$)")

NOT_RUN = {
    r"make (run|test)": "installs the project and runs this test",
    r"pip install ": "installs packages from the network",
    r"hf auth login": "asks for a token on a terminal",
    r"docker ": "needs Docker; test_deployment_examples.py checks the files",
    r"sbatch ": "needs Slurm; test_deployment_examples.py runs the script",
    r"python examples/sale_sign.py": "needs the extra `ocr`; test_examples.py runs it where that is installed",
    r"python examples/train_editor": "needs torch and diffusers; test_train_editor.py runs it (`make test-trl`)",
    r"export OTEL_|opentelemetry-instrument ": "needs the extra `otel`; `make test-trackers` runs it",
    r".* --(engine|on) ray": "needs the extra `ray`; `make test-ray` runs it",
    r"from rewardharness.serving.trl import .*stop_on_request": "needs TRL; `make test-trl` runs it",
    r".*\brh app(?! push)": "serves a page until it is stopped; the tests of tests/app start it",
    r"rh serve judge .* --run": "starts vLLM; `make test-vllm` runs it",
    r"rh judges pull|rh (score|benchmark) .*(\beditscore:|judges\.yaml)": "fetches texts; other tests run offline",
    r"rh (arena|refine) ": "needs an editor, or the real demo data; tests/editors runs both",
    r"rh benchmark reproduce --smoke": "runs six commands; test_reproduce.py runs it",
}
"""Lines that are not run: a pattern, and the reason."""

SLOW = re.compile(r"rh (evolve|serve --(?!.*--engine)|benchmark attacks)|rh\.evolve")
"""Blocks with such a line run in the slow suite, a line that several pages have once."""

STATUS = {"rh score edits.csv --skip-bad-rows": 3}
"""Exit statuses that are not 0: the page says so."""

ONE_EDIT = '--source before.png --candidate one.png --candidate two.png --instruction "make the chair red"'
REPLACED = [
    (r"http://(127\.0\.0\.1:8000|gpu1?:8000|HOST:8000)/v1", "{model}"),
    (r"http://(127\.0\.0\.1:8001|gpu2:8000)/v1", "{other_model}"),
    (r"@URL,URL\b", "@{model},{other_model}"),
    (r"@URL\b", "@{model}"),
    (r"gemini:[\w.-]+", "openai:NAME@{model}"),
    (r"rh score \.\.\.", f"rh score {ONE_EDIT}"),
    (r"(trackio|wandb)(?=[:\s,]|$)", "tensorboard"),
    (r"tensorboard:edits,tensorboard:edits", "tensorboard:edits"),
    (r"\bDIR\b", "my_pairs"),
    (r"(rh data demo \S+)$", r"\1 --pairs 1 --groups 1"),
    (r"rh data demo (\S+) --pairs 100 --groups 0", r"cp -r {pairs} \1"),
    (r" --proposals 20", ""),
    (r"(rh evolve (?!.*--(check|config))[^\n]*)", r"\1 --proposals 1"),
    (r"(rh\.evolve\([^\n]*)\)", r"\1, proposals=1)"),
    (r"(localhost|http://127\.0\.0\.1):8100", "{server}"),
    (r"3f0c\.\.\.|3f9a1c\b", "{release}"),
    (r'id="\.\.\."', "id=None"),
    (r" --port 8100", ""),
    (r"^(rh benchmark (?!.*--yes).*--judges? [^\n]*:[^\n]*)$", r"\1 --yes"),
]
"""What cannot exist in a test, and what takes its place: addresses, placeholders, trackers, small data, answers."""
WRITES = re.compile(
    r"(?:-o|--output|--to|--run|--copy-best|--save-overlays|--calibrate|"
    r"library new(?= \S+ --copy)|data demo|merge \S+) (\S+)"
)


RAN: set[str] = set()


@dataclass(frozen=True)
class Block:
    """A block of a page."""

    where: str
    language: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Its commands without comments; a program is one."""
        if self.language == "python":
            return [self.text]
        joined = re.sub(r"(\\|(?<=\|))\n\s*", " ", self.text)
        return [line for text in joined.splitlines() if (line := re.sub(r"\s+#.*", "", text).strip())]

    @property
    def slow(self) -> bool:
        matches = SLOW.search if self.language == "python" else SLOW.match
        return self.where.startswith("tutorial") or any(map(matches, self.lines))


@cache
def pages() -> dict[str, str]:
    """Text of each page, by its path below `docs`; README first."""
    paths = {"README.md": ROOT / "README.md"}
    paths |= {path.relative_to(ROOT / "docs").as_posix(): path for path in sorted((ROOT / "docs").rglob("*.md"))}
    return {name: path.read_text("utf-8") for name, path in paths.items()}


@cache
def blocks(name: str) -> list[Block]:
    """The blocks of a page; `help`: the examples in the help of the commands."""
    if name == "help":
        return [Block(f"rh {words} --help", "bash", example) for example, words in examples_of_help().items()]
    matches = re.finditer(r"^```(.*)\n((?:.*\n)*?)^```$", pages()[name], re.MULTILINE)
    return [Block(f"{name}:{pages()[name][: m.start()].count(chr(10)) + 1}", m[1], m[2]) for m in matches]


def examples_of_help() -> dict[str, str]:
    """Each `Example:` in the help of a command, with the command."""
    examples = {}
    for name in COMMANDS:
        app = load_app(name)
        for words in ("", *(word for word in app if not word.startswith("-"))):
            command = app[words] if words else app
            for text in (command.help, inspect.getdoc(command.default_command) if command.default_command else ""):
                for match in re.finditer(r"Example: `?(rh [^`]+?)`?\s*(?:\n\n|$)", text or ""):
                    examples[" ".join(match[1].split())] = f"{name} {words}".strip()
    return examples


def reason(line: str) -> str | None:
    """Why a line is not run, if it is not."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, line)), None)


class AnyModel(ModelServer):
    """A server of whatever model is asked for, which prefers B."""

    def get(self, path: str) -> Answer:
        names = ("NAME", "qwen", "Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-7B-Instruct")
        return Answer(json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode())

    def reply(self, call: Call) -> Answer | Any:
        if call.method == "POST":
            self.model = call.json["model"]
        return super().reply(call)


def respond(call: Call) -> str | None:
    """Judge each picture by its bytes, in any order; anything else is answered as a healthy server does."""
    if not call.text.startswith(("You judge", "You rate", "You grade")):
        return None
    values = [zlib.crc32((uuid or str(url)).encode()) for url, uuid in call.images]
    if schema := call.json.get("response_format"):
        grade = str(1 + sum(values) % 4)
        return re.sub(r"(?<=: )\d+", grade, json.dumps(instance(schema["json_schema"]["schema"])))
    if choices := call.json.get("structured_outputs"):
        return str(choices["choice"][0])
    scores = {
        label: {"instruction": 1 + value % 7 / 2, "quality": 3} for label, value in zip("AB", values[1:3], strict=False)
    }
    best = max(scores, key=lambda label: scores[label]["instruction"], default="A")
    return f"<answer>{json.dumps({'preference': best, 'scores': scores})}</answer>"


@dataclass
class Desk:
    """A working folder with servers, where blocks run one after the other."""

    folder: Path
    made: Path
    values: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def run(self, block: Block) -> None:
        shared = block.where.startswith("tutorial")
        work = self.folder / ("tutorial" if shared else re.sub(r"\W", "-", f"{block.where}-{id(block)}"))
        work.mkdir(exist_ok=shared)
        self.monkeypatch.chdir(work)
        for line in block.lines:
            if why := reason(line):
                sys.stdout.write(f"NOT RUN {block.where}: {line.splitlines()[0]} ({why})\n")
                continue
            text = self.replaced(line)
            once = re.sub(r"http\S+", "", text)
            if SLOW.match(line) and not shared and once in RAN:
                continue
            RAN.add(once)
            self._prepare(text)
            sys.stdout.write(f"{block.where}: {text}\n")
            if block.language == "python":
                exec(compile(text, block.where, "exec"), names(self.made))
            elif text.startswith("rh serve -"):
                self.start(text)
            elif text.startswith("rh ") and not re.search(r" [|]", text):
                status = self.rh(*shlex.split(text)[1:])
                if status != STATUS.get(line, 0):
                    self.failures.append(f"{block.where}: exit status {status}: {text}")
            else:
                subprocess.run(["bash", "-ec", text], check=True)

    def rh(self, *words: str) -> int:
        return main(words)

    def replaced(self, text: str) -> str:
        for pattern, new in REPLACED:
            text = re.sub(pattern, new, text)
        if "{server}" in text or "{release}" in text:
            self._serve()
        return re.sub(r"\{(model|other_model|server|release|pairs)\}", lambda match: self.values[match[1]], text)

    def _serve(self) -> None:
        if "server" not in self.values:
            self.rh("release", "create", "-o", str(self.folder / "served.json"))
            self.values["server"] = self.start(f"rh serve --release {self.folder / 'served.json'}")
            self.values["release"] = json.loads((self.folder / "served.json").read_text("utf-8"))["id"]

    def start(self, command: str) -> str:
        """Start a server, and return its address."""
        words, pipe = ["bash", "-c", f"{command} --port 0"], subprocess.PIPE
        process = subprocess.Popen(words, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.processes.append(process)
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if address := re.search(r"http://127\.0\.0\.1:\d+", line):
                return address[0]
        raise AssertionError(f"{command}\n{printed}")

    def _prepare(self, line: str) -> None:
        """Make what a command reads and nobody has made."""
        written = {name.rstrip("/") for name in WRITES.findall(line)}
        for name, make in FILES.items():
            path = Path(name)
            named = re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w.-])", line)
            if named and name not in written and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                make(self, path, line)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that are made once."""
    folder = tmp_path_factory.mktemp("docs") / "made"
    draw_pairs(folder / "pairs", 32)
    (folder / "cache").mkdir()
    program = folder / "bin" / "rh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rewardharness "$@"\n', "utf-8")
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """What the docs name on the Hub."""
    store, table = Store(), {"data/train-00000-of-00001.parquet": as_parquet(data_100())}
    for name in ("AgPerry/EditReward-Data-100", "org/edits", "org/name", "org/preferences", "me/preferences"):
        store.create(name, kind="datasets").put(table)
    folder = tmp_path_factory.mktemp("tables")
    pairs = MAKERS["editreward-bench"](folder / "pairs")
    tables = {
        "genai-bench": {"image_edition/test_v1": MAKERS["genai-bench"](folder)},
        "editreward-bench": {f"{k}pair/train": next((pairs / f"{k}pair").iterdir()) for k in (2, 3, 4)},
    }
    for task, parts in tables.items():
        data, about = open_task(task).data, ""
        for config, split in (part.split("/") for part in parts):
            about += f"- config_name: {config}\n  data_files:\n  - split: {split}\n    path: {config}/{split}*\n"
        repo = store.create(data.hub, kind="datasets")
        repo.put({f"{part}.parquet": table.read_bytes() for part, table in parts.items()})
        commit = repo.put({"README.md": f"---\nconfigs:\n{about}---\n"})
        repo.commits[data.revision or commit] = repo.find(commit)
    full = open_library("builtin")
    for name in ("org/name", "me/my-library"):
        repo = store.create(name)
        for version, library in (("v0.2.0", full.apply(RemoveEntry("calling-a-tie"))), ("v0.3.0", full)):
            repo.tags[version] = (repo.put(library.files()), version)
    return store


@pytest.fixture
def desk(made: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Servers of models and of the Hub, and a folder."""
    folder = made.parent / f"work-{len(list(made.parent.iterdir()))}"
    folder.mkdir()
    (Path(os.environ["RH_HOME"]) / "cache").symlink_to(made / "cache")  # equal images are measured once
    make_demo = dataset.make_demo

    def drawn(folder: Path, **more: Any) -> None:
        draw_pairs(folder, 8) if folder.name.startswith(f"{opening.DEMO}-") else make_demo(folder, **more)

    monkeypatch.setattr(dataset, "make_demo", drawn)
    monkeypatch.setattr(opening, "ATTACK_CASES", 2)
    monkeypatch.setattr(remote_job, "POLL", 0.3)
    terminal = io.StringIO("y\n" * 100)  # a user who answers yes
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    environ = {
        "PATH": f"{made / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HF_HOME": str(folder / "hf"),
    }
    environ |= {"RH_API_KEY": "key", "BROWSER": "true", "PYTHONUNBUFFERED": "1"}
    with AnyModel(respond) as model, AnyModel(respond) as other, HubServer() as hub:
        hub.store = deepcopy(store)
        monkeypatch.setitem(SERVICES, "hf", model.url)  # type: ignore[misc]
        environ |= {"HF_ENDPOINT": hub.url, "HF_TOKEN": hub.login("me", "org", "you")}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        values = {"model": model.url, "other_model": other.url, "pairs": str(made / "pairs")}
        found = Desk(folder, made, values, monkeypatch)
        try:
            yield found
        finally:
            for process in found.processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def test_no_block_hides_a_command_and_no_reason_is_left_over() -> None:
    everything = [block for name in (*pages(), "help") for block in blocks(name)]
    for block in everything:
        assert block.language in (*PROGRAMS, *DATA), f"{block.where}: say which language the block is in"
        hidden = [line for line in block.text.splitlines() if block.language in DATA and A_COMMAND.match(line)]
        assert not hidden, f"{block.where}: a command in a block of {block.language}"
    for name, text in pages().items():
        indented = re.findall(r"^(?: {4}|\t) *(?:rh|pip|python3?|make|docker|curl|hf|sbatch) .*", text, re.MULTILINE)
        assert set(indented) <= set(re.findall(r".*", "\n".join(block.text for block in blocks(name)))), name
    lines = [line for block in everything if block.language in PROGRAMS for line in block.lines]
    for line in lines:
        if reason(line) and line.startswith("rh "):
            _, first, *rest = shlex.split(re.sub(r"(?<=release )release.json", "x", line))
            parse(first, complete(first, rest))
    assert not [pattern for pattern in NOT_RUN if not any(re.match(pattern, line) for line in lines)]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading).lower()) for heading in headings}


def test_every_link_and_every_page_that_the_code_names_exists() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text("utf-8")):
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists() and (not anchor or anchor in anchors(target)), f"{page.name}: {link}"
    for folder in ("rewardharness", "app", "hub_templates", "examples", "benchmarks"):
        for path in (path for path in (ROOT / folder).rglob("*.*") if path.suffix in {".py", ".md", ".yml", ".ipynb"}):
            for page in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text("utf-8")):
                assert (ROOT / page).exists(), f"{path}: {page}"


def cells(name: str, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4 and notebook["cells"][0]["cell_type"] == "markdown"
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook["cells"])
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def mentioned() -> list[tuple[str, str]]:
    """Commands in the text of pages, of notebooks and of cells of tables, with a plain value for each placeholder."""
    texts = pages() | {path.name: "".join("".join(cell["source"]) for cell in cells(path.stem, "markdown"))
                       for path in NOTEBOOKS.glob("*.ipynb")}  # fmt: skip
    commands = []
    for name, text in texts.items():
        for words in re.findall(r"`(rh [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
            command = re.sub(r"[.]{3}|[\[\]]", "", " ".join(words.split()))
            choices = re.search(r"[\w-]+(?:\|[\w-]+)+", command)
            options = choices[0].split("|") if choices else [""]
            commands += [(name, command.replace(choices[0], word) if choices else command) for word in options]
    return list(dict.fromkeys(commands))


@pytest.mark.parametrize(("name", "command"), mentioned())
def test_a_command_that_a_sentence_mentions_exists(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text("{}", "utf-8")
    words = re.sub(r"\b(N(-1)?|SEED)\b", "2", command)
    _, first, *rest = shlex.split(re.sub(r"\bI/2\b", "1/2", words))
    if first.startswith("-"):
        assert first in {"--help", "--version"}
        return
    assert first in COMMANDS
    of_one_option = (MissingArgumentError, InputError) if len(rest) <= 2 else ()  # it may leave out the rest
    with contextlib.suppress(*of_one_option):
        parse(first, complete(first, rest))


RUNS = [pytest.mark.slow, pytest.mark.timeout(300)]
NEEDS_TRL = pytest.mark.skipif(not TRL_PYTHON, reason="`make test-trl` runs it with TRL installed")
NOTEBOOK_RUNS = [
    pytest.param("quickstart", sys.executable, "preferred: ", marks=RUNS),
    pytest.param("evolve", sys.executable, "held-out: ", marks=RUNS),
    pytest.param("publish", sys.executable, "me/new v0.1.0"),
    pytest.param("grpo_trl", TRL_PYTHON, "mean reward per step:", marks=[pytest.mark.trl, NEEDS_TRL]),
]


@pytest.mark.parametrize(("name", "python", "says"), NOTEBOOK_RUNS)
def test_a_notebook_runs(desk: Desk, name: str, python: str, says: str) -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == {str(each.values[0]) for each in NOTEBOOK_RUNS}
    desk.monkeypatch.setenv("REPO", "me/new")
    program = "\n\n".join("".join(cell["source"]) for cell in cells(name, "code"))
    words = [python, "-c", program.replace("pairs=24", "pairs=12").replace("proposals=4", "proposals=1")]
    done = subprocess.run(words, cwd=desk.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and says in done.stdout, done.stdout + done.stderr


def test_a_notebook_says_what_it_needs() -> None:
    first = "".join(cells("grpo_trl", "code")[0]["source"]).replace('"trl"', '"trl", "no_such_package"')
    with pytest.raises(SystemExit, match=r"needs .*no_such_package.*pip install .*trl"):
        exec(first, {})


PARAMETERS = [
    pytest.param(name, slow, marks=RUNS if slow else pytest.mark.slow, id=f"{name}-{slow}")
    for slow in (False, True)
    for name in (*pages(), "help")
    if any(block.slow == slow and block.language in PROGRAMS for block in blocks(name))
]


@pytest.mark.parametrize(("name", "slow"), PARAMETERS)
def test_every_command_and_program_of_a_page_runs(desk: Desk, name: str, slow: bool) -> None:
    for block in blocks(name):
        if block.language in PROGRAMS and block.slow == slow:
            desk.run(block)
    assert not desk.failures
