"""Publishes a Hugging Face Space that judges with one Library: the app of this project, its settings, its card.

The Space holds the source of this very version, so that it needs no release on a package index.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from rewardharness import __version__
from rewardharness.errors import InputError, shown
from rewardharness.hub.errors import HubError, MissingRepoError
from rewardharness.hub.repository import Access, Repo, Tree, split_spec
from rewardharness.leaks import find_leaks
from rewardharness.library.card_parts import combine, foreign, print_card, read_card
from rewardharness.library.hub import pull
from rewardharness.library.outgoing import FileChanges
from rewardharness.library.yamlsafe import print_yaml

PACKAGES = ("rewardharness", "app", "hub_templates")
"""Packages whose source goes into a Space."""
SDK_VERSION = "6.31.0"
"""Version of Gradio that the Hub installs. It wants an exact one."""
PYTHON_VERSION = "3.12"
"""Version of Python that the Hub runs."""
MEASURED = "measured"
"""The judge that needs no model and no key."""

_KINDS = frozenset({".py", ".md", ".txt", ".json", ".yaml", ".yml", ".css", ".js", ".svg", ".typed"})
_CARD, _APP, _REQUIREMENTS, _LICENSE = "README.md", "app.py", "requirements.txt", "LICENSE"
_MARK = "# Written by `rh push-space`"
_JUDGE = re.compile(r"[\x21-\x7e]{1,300}")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_START = '''{mark}; change the settings below with it, or by variables of the Space.
"""The web app, as a Hugging Face Space."""

from os import environ

from app.main import launch
from rewardharness.settings import Settings

SETTINGS = {{"RH_LIBRARY": {library!r}, "RH_JUDGE": {judge!r}}}

if __name__ == "__main__":
    launch(Settings.from_env({{**SETTINGS, **environ}}))
'''


@dataclass(frozen=True)
class SpaceWish:
    """What a Space is to be."""

    library: str
    """The Library on the Hub, as `org/name` or `org/name@revision`."""
    judge: str = MEASURED
    """Who judges, as `open_judge` spells it."""
    private: bool = False
    """Whether a Space that is made for it is private."""
    dry_run: bool = False
    """Only say what would happen. Nothing is written anywhere."""


@dataclass(frozen=True)
class PushedSpace:
    """What publishing a Space did, or would do."""

    name: str
    """`org/name` of the Space."""
    url: str
    """Its address."""
    commit: str | None
    """The commit that it is at; None for a dry run that has none yet."""
    changes: FileChanges
    created: bool = False
    """Whether the Space is new."""
    dry_run: bool = False
    card: str = field(default="", repr=False)
    """Its README."""
    diffs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Unified diffs of the files that are made for this Space, by path; of a dry run alone."""
    notes: tuple[str, ...] = ()
    """What a user should know, in sentences."""

    @property
    def nothing_to_push(self) -> bool:
        """Whether the Hub had all of it already."""
        return not self.changes


def push_space(name: str, wish: SpaceWish, *, access: Access | None = None) -> PushedSpace:
    """Make a Space for a Library, or bring it up to date, in one commit.

    Files in it that are not made here stay as they are, and so does what people wrote in its README.

    Args:
        name: `org/name` of the Space.
        wish: What it is to be.
        access: How the Hub is reached.

    Raises:
        InputError: If Library or judge are not spelt as they should be.
        HubError: If the Hub refuses or cannot be reached, or the Space holds another app.
        LibraryError: If the repository holds no Library.
    """
    access = access or Access()
    found = split_spec(wish.library)
    if found is None:
        message = f"{shown(wish.library)!r} is not the name of a Library on the Hub."
        raise InputError(message, next_step="Push the Library first, then name it as org/name or org/name@v1.0.0.")
    if not _JUDGE.fullmatch(wish.judge):
        raise InputError(f"{shown(wish.judge)!r} is no judge.", next_step="Write it as in vllm:NAME@URL.")
    leak = next(find_leaks(wish.judge), None)
    if leak is not None:
        step = "Put it into a secret of the Space: RH_API_KEY or GEMINI_API_KEY."
        raise InputError(f"The judge holds what looks like {leak.kind}, so nothing was pushed.", next_step=step)
    door = Repo(name, access, "space")
    library = Repo(found[0], access)
    pull(*found, access=access)  # it must be there, and be one
    secret = library.head(found[1] or "main").private
    head, tree, created = _look(door, wish)
    before = _read(door, head, tree)
    if _APP in tree and _MARK not in before.get(_APP, ""):
        raise HubError(f"{name} holds another app.", next_step="Choose another name for the Space.")
    texts = _own_files(name, wish, before, private=secret)
    new = {**_source(), **{path: text.encode("utf-8") for path, text in texts.items()}}
    changes = _changes(tree, new)
    done = PushedSpace(
        name, f"{_site(door)}/spaces/{name}", head or None, changes, created, wish.dry_run, texts[_CARD],
        notes=("The Library is private: the Space needs a secret HF_TOKEN that may read it.",) if secret else (),
    )  # fmt: skip
    if wish.dry_run:
        return replace(done, diffs=_diffs(before, texts, changes), commit=None if changes else done.commit)
    if not changes:
        return done
    added = {path: new[path] for path in (*changes.added, *changes.changed)}
    title = f"RewardHarness {__version__} with {wish.library}"
    commit, _ = door.commit(added, changes.deleted, head, (title, f"Judge: {wish.judge}"), pull=False)
    return replace(done, commit=commit)


def _look(door: Repo, wish: SpaceWish) -> tuple[str, Tree, bool]:
    """Look at the Space, which is made if it does not exist: its commit, its files, whether it is new."""
    created = False
    try:
        head = door.head()
    except MissingRepoError:
        created = True
        if wish.dry_run:
            return "", {}, True
        door.create(private=wish.private)
        head = door.head()
    if wish.private and not head.private:
        step = "Leave --private out, or make it private in its settings on the Hub first."
        raise HubError(f"{door.name} exists and is public; this does not change that.", next_step=step)
    tree = door.tree(head.commit)
    return head.commit, {} if created else tree, created


def _read(door: Repo, head: str, tree: Tree) -> Mapping[str, str]:
    """Read the files of the Space that are made for it alone."""
    wanted = [path for path in (_CARD, _APP, _REQUIREMENTS) if path in tree]
    large = next((path for path in wanted if tree[path].size > 1024 * 1024), None)
    if large is not None:
        raise HubError(f"{large} of {door.name} is too large.", next_step="Choose another name for the Space.")
    found = door.download(head, wanted, tree, wanted) if wanted else {}
    return {path: data.decode("utf-8", "replace") for path, data in found.items()}


def _own_files(name: str, wish: SpaceWish, before: Mapping[str, str], *, private: bool) -> dict[str, str]:
    """Write the files that are made for one Space."""
    card = read_card(_card(name, wish, private=private))
    # A new Space holds a README by the Hub itself, which says nothing.
    existing = before.get(_CARD, "") if _APP in before else ""
    requirements = files("hub_templates").joinpath("space_requirements.txt").read_text(encoding="utf-8")
    if wish.judge.startswith("gemini:"):
        requirements += "aiohttp>=3.10\ngoogle-genai>=3,<4\n"
    texts = {
        _CARD: print_card(combine(card, read_card(existing)) if existing.strip() else card),
        _APP: _START.format(mark=_MARK, library=wish.library, judge=wish.judge),
        _REQUIREMENTS: requirements,
    }
    return texts


def _card(name: str, wish: SpaceWish, *, private: bool) -> str:
    repo = wish.library.partition("@")[0]
    title = name.rpartition("/")[2]
    header = {
        "title": title,
        "emoji": "⚖️",
        "colorFrom": "green",
        "colorTo": "gray",
        "sdk": "gradio",
        "sdk_version": SDK_VERSION,
        "python_version": PYTHON_VERSION,
        "app_file": _APP,
        "license": "apache-2.0",
        "short_description": "Which edit of an image would people prefer, and why?",
        "hf_oauth": True,
        "hf_oauth_scopes": ["contribute-repos", "write-discussions"],
        "models": [repo],
        "tags": ["rewardharness", "image-editing", "reward-model"],
    }
    about = "It takes numbers from the pixels: no model, no key."
    if wish.judge != MEASURED:
        about = "It is a model; what it is asked, pictures included, goes to its server."
    values = {
        "header": print_yaml(header),
        "title": foreign(title),
        "library": wish.library,
        "repo": repo,
        "space": name,
        "judge": foreign(wish.judge),
        "about_judge": about,
        "judge_option": f" --judge {foreign(wish.judge)}" if wish.judge != MEASURED else "",
        "secrets": _secrets(wish, private=private),
        "version": __version__,
    }
    blank = files("hub_templates").joinpath("space_readme.md").read_text(encoding="utf-8")
    return _PLACEHOLDER.sub(lambda found: values[found.group(1)], blank)


def _secrets(wish: SpaceWish, *, private: bool) -> str:
    """Say which secrets somebody has to set by hand. No secret is ever pushed."""
    needed = []
    if wish.judge.startswith("gemini:"):
        needed.append("- `GEMINI_API_KEY`: key of the Gemini API.")
    elif wish.judge != MEASURED:
        needed.append("- `RH_API_KEY`: key of the endpoint, if it wants one.")
    if private:
        needed.append("- `HF_TOKEN`: a token that may read the Library, which is private, and nothing else.")
    if not needed:
        return "It needs no secrets."
    return "\n".join(["Secrets, to be set in the settings of the Space:", "", *needed])


def _source() -> dict[str, bytes]:
    """Collect the source of this version, and its license."""
    found = {}
    for package in PACKAGES:
        root = Path(str(files(package)))
        for path in _shipped(root):
            found[f"{package}/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    text = _license()
    return found | ({_LICENSE: text.encode("utf-8")} if text else {})


def _shipped(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "__pycache__")) or path.is_symlink():
            continue
        if path.is_dir():
            yield from _shipped(path)
        elif path.suffix in _KINDS:
            yield path


def _license() -> str | None:
    beside = Path(str(files("rewardharness"))).parent / _LICENSE
    if beside.is_file():
        return beside.read_text(encoding="utf-8")
    try:
        return distribution("reward-harness-library").read_text(f"licenses/{_LICENSE}")
    except PackageNotFoundError:
        return None


def _changes(tree: Tree, new: Mapping[str, bytes]) -> FileChanges:
    """Tell how the files of the Space change; of those that are not made here only old source goes."""
    ours = tuple(f"{package}/" for package in PACKAGES)
    return FileChanges(
        added=tuple(sorted(path for path in new if path not in tree)),
        changed=tuple(sorted(path for path in new if path in tree and not tree[path].holds(new[path]))),
        deleted=tuple(sorted(path for path in tree if path not in new and path.startswith(ours))),
    )


def _site(door: Repo) -> str:
    return door.endpoint or "https://huggingface.co"


def _diffs(before: Mapping[str, str], texts: Mapping[str, str], changes: FileChanges) -> dict[str, str]:
    diffs = {}
    for path in (*changes.added, *changes.changed):
        if path in texts:
            old, new = before.get(path, "").split("\n"), texts[path].split("\n")
            lines = unified_diff(old if before.get(path) else [], new, f"before/{path}", f"after/{path}", lineterm="")
            diffs[path] = "\n".join(lines)
    return diffs
