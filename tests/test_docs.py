"""Every command and program of README, docs, notebooks and the help of commands runs, against servers on this machine.

A block is run as it is written, but for `REPLACED`; files that it names are made by `FILES` when they are missing.
A line that no test can run is in `NOT_RUN`, with the reason. A block of another language than `DATA` cannot hide one.
"""

import contextlib
import inspect
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cyclopts import MissingArgumentError

sys.path.insert(0, str(Path(__file__).parent / "benchmark"))
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
from rewardharness.data.folder import read_folder
from rewardharness.errors import InputError
from rewardharness.library.opening import open_library
from rewardharness.library.store import RemoveEntry
from rewardharness.models.open import SERVICES
from rewardharness.remote import job as remote_job

ROOT = Path(__file__).parents[1]
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
    r"export OTEL_|opentelemetry-instrument ": "needs the extra `otel`; `make test-trackers` runs it",
    r".* --(engine|on) ray": "needs the extra `ray`; `make test-ray` runs it",
    r"from rewardharness.serving.trl import .*stop_on_request": "needs TRL; `make test-trl` runs it",
    r".*\brh app(?! push)": "serves a page until it is stopped; the tests of tests/app start it",
    r"rh serve judge .* --run": "starts vLLM; `make test-vllm` runs it",
}
"""Lines that are not run: a pattern, and the reason."""

SLOW = re.compile(
    r"rh (evolve|serve --|app (?!push)|benchmark (attacks|reproduce))|rh\.evolve|--on hf-jobs|RH_\w+=.* rh app"
)
"""Blocks with such a line run in the slow suite."""

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
    (r"(reproduce --smoke)", r"\1 --pairs 8"),
    (r"(rh data demo \S+)", r"\1 --pairs 1 --groups 1"),
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
        found = [re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines()]
        return [line for line in found if line]

    @property
    def slow(self) -> bool:
        return any(SLOW.match(line) or (self.language == "python" and SLOW.search(line)) for line in self.lines)


def pages() -> dict[str, str]:
    """Text of each page; the generated ones are made of docstrings."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {path.name: path.read_text("utf-8") for path in paths if path.name not in {"api.md", "cli.md"}}


def blocks(name: str) -> list[Block]:
    """The blocks of a page; `help`: the examples in the help of the commands."""
    if name == "help":
        return [Block(f"rh {words} --help", "bash", example) for words, example in examples_of_help()]
    text = pages()[name]
    found = re.finditer(r"^```(.*)\n((?:.*\n)*?)^```$", text, re.MULTILINE)
    return [Block(f"{name}:{text[: each.start()].count(chr(10)) + 1}", each[1], each[2]) for each in found]


def examples_of_help() -> list[tuple[str, str]]:
    """Command and example of each `Example:` in the help of a command."""
    found = {}
    for name in COMMANDS:
        app = load_app(name)
        for words in ("", *(word for word in app if not word.startswith("-"))):
            command = app[words] if words else app
            for text in (command.help, inspect.getdoc(command.default_command) if command.default_command else ""):
                for each in re.finditer(r"Example: `?(rh [^`]+?)`?\s*(?:\n\n|$)", text or ""):
                    found[" ".join(each[1].split())] = f"{name} {words}".strip()
    return [(command, example) for example, command in found.items()]


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


class Terminal(io.StringIO):
    """A user who answers yes."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        return "y\n"


@dataclass
class Desk:
    """A working folder with servers, where blocks run one after the other."""

    folder: Path
    made: Path
    values: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    processes: list[subprocess.Popen[str]]
    failures: list[str]

    def run(self, block: Block) -> None:
        work = self.folder / re.sub(r"\W", "-", f"{block.where} {len(list(self.folder.iterdir()))}")
        work.mkdir()
        self.monkeypatch.chdir(work)
        for line in block.lines:
            if why := reason(line):
                sys.stdout.write(f"NOT RUN {block.where}: {line.splitlines()[0]} ({why})\n")
                continue
            text = self.replaced(line)
            self._prepare(text)
            sys.stdout.write(f"{block.where}: {text}\n")
            if block.language == "python":
                exec(compile(text, block.where, "exec"), names(work))
            elif re.match(r"(RH_\w+=\S+ )*rh (serve -|app(?! push))", text):
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
        return re.sub(r"\{(model|other_model|server|release)\}", lambda each: self.values[each[1]], text)

    def _serve(self) -> None:
        if "server" not in self.values:
            self.rh("release", "create", "-o", str(self.folder / "served.json"))
            self.values["server"] = self.start(f"rh serve --release {self.folder / 'served.json'}")
            self.values["release"] = json.loads((self.folder / "served.json").read_text("utf-8"))["id"]

    def start(self, command: str) -> str:
        """Start a server, and return its address."""
        words = ["bash", "-c", f"{command} --port 0"]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.processes.append(process)
        assert process.stdout is not None
        printed = ""
        end = threading.Timer(60, os.killpg, (process.pid, signal.SIGKILL))
        end.start()
        for line in process.stdout:
            printed += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                end.cancel()
                return found[0]
        end.cancel()
        raise AssertionError(f"{command}\n{printed}")

    def _prepare(self, line: str) -> None:
        """Make what a command reads and nobody has made."""
        written = {each.rstrip("/") for each in WRITES.findall(line)}
        for name, make in FILES.items():
            path = Path(name)
            if (
                re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w.-])", line)
                and not path.exists()
                and name not in written
            ):
                path.parent.mkdir(parents=True, exist_ok=True)
                make(self, path, line)


def copied(name: str) -> Callable[[Desk, Path, str], None]:
    """Copy what was made once."""

    def make(desk: Desk, path: Path, line: str) -> None:
        source = desk.made / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)

    return make


def ran(*words: str) -> Callable[[Desk, Path, str], None]:
    """Run a command that writes the file."""
    return lambda desk, path, line: check(
        desk.rh(*(word.format(path=path, pairs=desk.made / "pairs") for word in words))
    )


def check(status: int) -> None:
    assert status == 0


def wrote(text: str) -> Callable[[Desk, Path, str], None]:
    return lambda desk, path, line: check(0 * path.write_text(desk.replaced(text), "utf-8"))


def release(desk: Desk, path: Path, line: str) -> None:
    model = ("--judge", "vllm:NAME") if re.search(r"--judge|JudgeConfig\(judge", line) else ()
    card = ("--card", "report.json") if "--card" in line else ()
    check(desk.rh("release", "create", "-o", str(path), *model, *card))


def cached(desk: Desk, path: Path, line: str) -> None:
    check(
        0
        if "cache" not in line
        else desk.rh("score", str(desk.made / "pairs"), "--judge", f"vllm:qwen@{desk.values['model']}")
    )


def deployed(desk: Desk, path: Path, line: str) -> None:
    if (Path(os.environ["RH_HOME"]) / "deployments" / "prod").exists():
        return
    for number, more in enumerate(((), ("--ties",))):
        check(desk.rh("release", "create", "-o", f".{number}.json", *more))
        check(desk.rh("release", "deploy", f".{number}.json", "--target", "prod"))
        desk.values["release"] = json.loads(Path(".0.json").read_text("utf-8"))["id"]


CONFIG = """
evolution: {train_dataset: demo, max_iterations: 2, seed: 42}
benchmark: {dataset: TIGER-Lab/EditReward-Bench, max_workers: 4}
"""
IMAGES = {
    "0.png": ("before.png", "source.png", "in.png"),
    "1.png": ("one.png", "a.png", "after.png"),
    "2.png": ("two.png", "b.png"),
}
A_LIBRARY = ran("library", "new", "{path}", "--copy", "builtin")
A_RUN = ran("benchmark", "{pairs}", "--run", "{path}")


def by_hand(desk: Desk, path: Path, line: str) -> None:
    A_LIBRARY(desk, path.parent, line)
    (path.parent / "skills" / path.name).mkdir()
    text = f"---\nname: {path.name}\nkind: skill\ndescription: Colors.\n---\nLook.\n"
    (path.parent / "skills" / path.name / "SKILL.md").write_text(text, "utf-8")
    check(desk.rh("library", "add", str(path)) if "remove" in line else 0)


def a_run(desk: Desk, path: Path, line: str) -> None:
    (evolved if re.match("rh runs (follow|stop|show|compare)", line) else A_RUN)(desk, path, line)


def evolved(desk: Desk, path: Path, line: str) -> None:
    if not (desk.made / "evolved").exists():
        check(desk.rh("evolve", str(desk.made / "pairs"), "--proposals", "1", "--run", str(desk.made / "evolved")))
    shutil.copytree(desk.made / "evolved", path)


def report(desk: Desk, path: Path, line: str) -> None:
    judge = ("--judge", f"vllm:Qwen/Qwen2.5-VL-7B-Instruct@{desk.values['model']}", "--protocol", "pointwise")
    words = (*judge, "--library", "my_library", "--task-protocol", "pointwise", "--yes") if "--judge" in line else ()
    check(desk.rh("benchmark", str(desk.made / "pairs"), "--run", "reported", *words))
    shutil.copy("reported/report.json", path)


FILES: dict[str, Callable[[Desk, Path, str], None]] = {
    **{name: copied(image) for image, names in IMAGES.items() for name in names},
    **dict.fromkeys(("my_pairs", "my-pairs", "pairs", "edits", "my_labels", "drawn", "prompts"), copied("pairs")),
    "my-library/color-check": by_hand,
    **dict.fromkeys(("my_library", "my-library", "results/checkpoints/best", "results/checkpoints/iter_4"), A_LIBRARY),
    **dict.fromkeys(("RUN", "RUN-1", "RUN-2"), a_run),
    "samples": copied("samples"),
    "edits.csv": wrote("instruction,source,candidate_a,candidate_b\nmake it red,s.png,a.png,b.png\nmake it red,,,\n"),
    "configs/default.yaml": wrote(CONFIG),
    "configs/endpoints.txt": wrote("{model}\n{other_model}\n"),
    "ranked.json": lambda desk, path, line: check(
        0 * len(str(shutil.copy(ROOT / "examples" / "ranked_texts.json", path)))
    ),
    "scores": ran("score", "{pairs}", "--output", "{path}"),
    "prod": deployed,
    "calibration.json": ran("benchmark", "{pairs}", "--calibrate", "{path}"),
    "report.json": report,
    "release.json": release,
    "reward.release": release,
    "vllm:qwen": cached,
    "runs/evolve-1": evolved,
    "trainer.json": wrote("{}"),
    "out/checkpoint-400": wrote("weights"),
    "out/checkpoint": wrote("weights"),
    "log.jsonl": wrote('{"step": 1, "reward": 0.2}\n{"step": 2, "reward": 0.5}\n'),
    **dict.fromkeys(
        ("base.jsonl", "new.jsonl"), wrote("".join(f'{{"id": "e{n}", "accuracy": 1}}\n' for n in range(40)))
    ),
}


def names(work: Path) -> dict[str, Any]:
    """What the programs of the docs take from the reader's program."""

    class GRPOTrainer:
        def __init__(self, *args: object, reward_funcs: object, **more: object) -> None:
            assert callable(reward_funcs)

    data = read_folder(work.parent.parent / "made" / "pairs").examples[:2]
    images = [
        example.candidate_images[0].data or Path(str(example.candidate_images[0].path)).read_bytes() for example in data
    ]
    values = {"examples": data, "edited_bytes": images[0], "images": images, "sources": images}
    values |= {"prompts": ["make it red"] * 2, "metadata": [{}] * 2, "model": "policy", "train_dataset": []}
    return {**values, "GRPOTrainer": GRPOTrainer, "my_renderer": lambda *_: None, "__name__": "docs"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files that are made once."""
    folder = tmp_path_factory.mktemp("docs") / "made"
    draw_pairs(folder / "pairs", 32)
    lines = []
    for example in read_folder(folder / "pairs").examples:
        paths = [Path(str(image.path)).name for image in (example.source_image, *example.candidate_images)]
        lines.append(json.dumps({"source": paths[0], "instruction": example.instruction, "candidates": paths[1:]}))
    for number, name in enumerate(("s0", "a0", "b0")):
        shutil.copy(folder / "pairs" / f"{name}.png", folder / f"{number}.png")
    shutil.copytree(folder / "pairs", folder / "samples", ignore=shutil.ignore_patterns("pairs.jsonl"))
    (folder / "samples" / "candidates.jsonl").write_text("\n".join(lines), "utf-8")
    programs = folder / "bin"
    programs.mkdir()
    (programs / "rh").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rewardharness "$@"\n', "utf-8")
    (programs / "rh").chmod(0o755)
    yield folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """What the docs name on the Hub."""
    rows, store = data_100(), Store()
    table = {"data/train-00000-of-00001.parquet": as_parquet(rows)}
    for name in ("AgPerry/EditReward-Data-100", "org/edits", "org/preferences", "me/preferences", "me/pairs"):
        store.create(name, kind="datasets").put(table)
    plain = [
        {"source": row["source_image"], "instruction": row["instruction"], "left_image": row["left_image"]}
        | {"right_image": row["right_image"], "winner": ("model_a", "model_b", "tie")[n % 3]}
        for n, row in enumerate(rows)
    ]
    table = {"data/test-00000-of-00001.parquet": as_parquet(plain, images=("source", "left_image", "right_image"))}
    repo = store.create("org/name", kind="datasets")
    repo.tags["v1"] = (repo.put(table), "")
    folder = tmp_path_factory.mktemp("tables")
    pairs = MAKERS["editreward-bench"](folder / "pairs")
    tables = {
        "genai-bench": {"image_edition/test_v1": MAKERS["genai-bench"](folder)},
        "editreward-bench": {f"{k}pair/train": next((pairs / f"{k}pair").iterdir()) for k in (2, 3, 4)},
    }
    for task, parts in tables.items():
        opened = open_task(task).data
        about = "".join(
            f"- config_name: {Path(part).parent}\n  data_files:\n  - split: {Path(part).name}\n    path: {part}*\n"
            for part in parts
        )
        repo = store.create(opened.hub, kind="datasets")
        commit = repo.put({f"{part}.parquet": table.read_bytes() for part, table in parts.items()})
        commit = repo.put({"README.md": f"---\nconfigs:\n{about}---\n"})
        repo.commits[opened.revision or commit] = repo.find(commit)
    for name in ("org/name", "me/my-library", "you/library"):
        repo = store.create(name)
        full = open_library("builtin")
        for version, library in (("v0.2.0", full.apply(RemoveEntry("calling-a-tie"))), ("v0.3.0", full)):
            repo.tags[version] = (repo.put(library.files()), version)
    return store


@pytest.fixture
def desk(made: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Servers of models and of the Hub, and a folder."""
    folder = made.parent / f"work-{len(list(made.parent.iterdir()))}"
    folder.mkdir()
    generate = opening._generate

    def drawn(spec: str, folder: Path, *more: Any) -> None:
        draw_pairs(folder, 8) if spec == opening.DEMO else generate(spec, folder, *more)

    monkeypatch.setattr(opening, "_generate", drawn)
    monkeypatch.setattr(opening, "ATTACK_CASES", 2)
    monkeypatch.setattr(remote_job, "POLL", 0.3)
    monkeypatch.setattr(sys, "stdin", Terminal())
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
        found = Desk(folder, made, {"model": model.url, "other_model": other.url}, monkeypatch, [], [])
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


def cells(name: str, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4 and notebook["cells"][0]["cell_type"] == "markdown"
    assert all(not cell.get("outputs") and cell.get("execution_count") is None for cell in notebook["cells"])
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def mentioned() -> list[tuple[str, str]]:
    """Commands in the text of pages, of notebooks and of cells of tables, with a plain value for each placeholder."""
    texts = pages() | {path.name: "".join("".join(each["source"]) for each in cells(path.stem, "markdown"))
                       for path in NOTEBOOKS.glob("*.ipynb")}  # fmt: skip
    found = []
    for name, text in texts.items():
        for each in re.findall(r"`(rh [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
            command = re.sub(r"[.]{3}|[\[\]]", "", " ".join(each.split()))
            choices = re.search(r"[\w-]+(?:\|[\w-]+)+", command)
            for choice in choices[0].split("|") if choices else [""]:
                found.append((name, command.replace(choices[0], choice) if choices else command))
    return found


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


NEEDS_TRL = pytest.mark.skipif(not TRL_PYTHON, reason="`make test-trl` runs it with TRL installed")
TRL = [pytest.mark.trl, NEEDS_TRL]
RUNS = [pytest.mark.slow, pytest.mark.timeout(300)]
PRINTS = {
    "quickstart": pytest.param("quickstart", sys.executable, "preferred: ", marks=RUNS),
    "evolve": pytest.param("evolve", sys.executable, "held-out: ", marks=RUNS),
    "publish": pytest.param("publish", sys.executable, "me/new v0.1.0"),
    "grpo_trl": pytest.param("grpo_trl", TRL_PYTHON, "mean reward per step:", marks=TRL),
}


def test_every_notebook_is_run() -> None:
    assert set(PRINTS) == {path.stem for path in NOTEBOOKS.glob("*.ipynb")}


@pytest.mark.parametrize(("name", "python", "says"), PRINTS.values())
def test_a_notebook_runs(desk: Desk, name: str, python: str, says: str) -> None:
    desk.monkeypatch.setenv("REPO", "me/new")
    words = [python, "-c", "\n\n".join("".join(cell["source"]) for cell in cells(name, "code"))]
    done = subprocess.run(words, cwd=desk.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and says in done.stdout, done.stdout + done.stderr


def test_a_notebook_says_what_it_needs() -> None:
    first = "".join(cells("grpo_trl", "code")[0]["source"]).replace('"trl"', '"trl", "no_such_package"')
    with pytest.raises(SystemExit, match=r"needs .*no_such_package.*pip install .*trl"):
        exec(first, {})


PARAMETERS = [
    pytest.param(name, slow, marks=[pytest.mark.slow, pytest.mark.timeout(300)] if slow else [], id=f"{name}-{slow}")
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
