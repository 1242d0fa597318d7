"""Publishes a Hugging Face Space that runs the web app with one Library.

The Space contains the source code of the installed version, so it does not depend on a package index.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path

from rewardharness import __version__
from rewardharness.errors import InputError, shown
from rewardharness.hub.errors import HubError
from rewardharness.hub.pushing import Pushed, file_changes, head_for_push, text_diffs
from rewardharness.hub.repository import Access, Repo, Tree, split_spec
from rewardharness.leaks import find_leaks
from rewardharness.library.card_parts import fill_template, foreign, update_card
from rewardharness.library.hub import pull

PACKAGES = ("rewardharness", "app", "hub_templates")
"""Packages whose source code is copied to a Space."""
SDK_VERSION = "6.31.0"
"""Gradio version of the Space. The Hub requires an exact version."""
PYTHON_VERSION = "3.12"
"""Python version of the Space."""
MEASURED = "measured"
"""The pixel-based judge, which requires no model and no key."""

_KINDS = frozenset({".py", ".md", ".txt", ".json", ".yaml", ".yml", ".css", ".js", ".svg", ".typed"})
_CARD, _APP, _REQUIREMENTS, _LICENSE = "README.md", "app.py", "requirements.txt", "LICENSE"
_MARK = "# Written by `rh app push-space`"
_JUDGE = re.compile(r"[\x21-\x7e]{1,300}")
_START = '''{mark}; change the settings below with it, or by variables of the Space.
"""The web app, as a Hugging Face Space."""

from os import environ

from app.starting import quick_imports
from rewardharness.settings import Settings

with quick_imports():
    from app.main import launch

SETTINGS = {{"RH_LIBRARY": {library!r}, "RH_JUDGE": {judge!r}}}

if __name__ == "__main__":
    launch(Settings.from_env({{**SETTINGS, **environ}}))
'''


def push_space(
    name: str,
    library: str,
    judge: str = MEASURED,
    *,
    private: bool = False,
    dry_run: bool = False,
    access: Access | None = None,
) -> Pushed:
    """Create or update a Space for a Library in one commit.

    Other files in the Space and hand-written text in its README are kept.

    Args:
        name: `org/name` of the Space.
        library: The Library on the Hub, as `org/name` or `org/name@revision`.
        judge: Judge specification; see `open_judge`.
        private: Whether a newly created Space is private.
        dry_run: Report the changes without writing anything.
        access: Access settings; None for the defaults.

    Raises:
        InputError: If the Library or the judge is not a valid specification.
        HubError: If the Hub rejects the request or is unreachable, or the Space contains another app.
        LibraryError: If the repository contains no Library.
    """
    access = access or Access()
    spec = split_spec(library)
    if spec is None:
        message = f"{shown(library)!r} is not the name of a Library on the Hub."
        raise InputError(message, next_step="Push the Library first, then specify org/name or org/name@v1.0.0.")
    _check_judge(judge)
    space = Repo(name, access, "space")
    pull(*spec, access=access)  # validates the Library
    secret = Repo(spec[0], access).head(spec[1] or "main").private
    base, created = head_for_push(space, private=private, dry_run=dry_run)
    head = base.commit if base is not None else ""
    tree = space.tree(head) if head and not created else {}
    before = _read(space, head, tree)
    if _APP in tree and _MARK not in before.get(_APP, ""):
        raise HubError(f"{name} contains another app.", next_step="Choose another name for the Space.")
    # The Hub creates a default README in a new Space; it is replaced.
    texts = {
        _CARD: update_card(
            _card(name, library, judge, private=secret), before.get(_CARD, "") if _APP in before else ""
        ),
        _APP: _START.format(mark=_MARK, library=library, judge=judge),
        _REQUIREMENTS: fill_template("space_requirements.txt", {}),
    }
    new = {**source_files(), **{path: text.encode("utf-8") for path, text in texts.items()}}
    # Outdated source code is deleted; other files are kept.
    source_folders = tuple(f"{package}/" for package in PACKAGES)
    changes = file_changes(tree, new, lambda path: path.startswith(source_folders))
    notes = ("The Library is private: the Space needs the secret HF_TOKEN to read it.",) if secret else ()
    pushed = Pushed(name, space.page, head or None, changes, texts[_CARD], created=created, notes=notes)
    if dry_run:
        changed = [path for path in (*changes.added, *changes.changed) if path in texts]
        diffs = text_diffs({path: before.get(path, "") for path in changed}, {path: texts[path] for path in changed})
        return replace(pushed, commit=None if changes else pushed.commit, dry_run=True, diffs=diffs)
    if not changes:
        return pushed
    added = {path: new[path] for path in (*changes.added, *changes.changed)}
    description = f"RewardHarness {__version__} with {library}", f"Judge: {judge}"
    return replace(pushed, commit=space.commit(added, changes.deleted, head, description)[0])


def _check_judge(judge: str) -> None:
    if not _JUDGE.fullmatch(judge):
        raise InputError(f"Invalid judge {shown(judge)!r}.", next_step="Use a form such as vllm:NAME@URL.")
    leak = next(find_leaks(judge), None)
    if leak is not None:
        step = "Store it as a secret of the Space: RH_API_KEY or GEMINI_API_KEY."
        raise InputError(f"The judge seems to contain {leak.kind}; nothing was pushed.", next_step=step)


def _read(space: Repo, head: str, tree: Tree) -> Mapping[str, str]:
    """Return the text of the generated files of a Space."""
    wanted = [path for path in (_CARD, _APP, _REQUIREMENTS) if path in tree]
    large = next((path for path in wanted if tree[path].size > 1024 * 1024), None)
    if large is not None:
        raise HubError(f"{large} of {space.name} is too large.", next_step="Choose another name for the Space.")
    contents = space.download(head, wanted, tree, wanted)
    return {path: data.decode("utf-8", "replace") for path, data in contents.items()}


def _card(name: str, library: str, judge: str, *, private: bool) -> str:
    repo, title = library.partition("@")[0], name.rpartition("/")[2]
    measured = judge == MEASURED
    about = "This judge is a model. All inputs, including images, are sent to its server."
    secrets = {
        "`GEMINI_API_KEY`: API key for Gemini.": judge.startswith("gemini:"),
        "`RH_API_KEY`: API key of the endpoint, if required.": not measured and not judge.startswith("gemini:"),
        "`HF_TOKEN`: a token with read access only to the private Library.": private,
    }
    none = "The Space requires no secrets."
    needed = [f"- {secret}" for secret, is_needed in secrets.items() if is_needed]
    values = {
        "name": title,
        "title": foreign(title),
        "sdk_version": SDK_VERSION,
        "python_version": PYTHON_VERSION,
        "library": library,
        "repo": repo,
        "space": name,
        "judge": foreign(judge),
        "about_judge": "The pixel-based judge requires no model and no key." if measured else about,
        "judge_option": "" if measured else f" --judge {foreign(judge)}",
        "secrets": "\n".join(needed and ["Set these secrets in the settings of the Space:", "", *needed]) or none,
        "version": __version__,
    }
    return fill_template("space_readme.md", values)


def source_files() -> dict[str, bytes]:
    """Return the source code of the installed version and its license."""
    sources = {}
    for package in PACKAGES:
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*")):
            parts = path.relative_to(root).parts
            hidden = any(part.startswith((".", "__pycache__")) for part in parts)
            linked = any((root / Path(*parts[:depth])).is_symlink() for depth in range(1, len(parts) + 1))
            if path.suffix in _KINDS and path.is_file() and not hidden and not linked:
                sources["/".join((package, *parts))] = path.read_bytes()
    text = _license()
    return sources | ({_LICENSE: text.encode("utf-8")} if text else {})


def _license() -> str | None:
    path = Path(str(files("rewardharness"))).parent / _LICENSE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    try:
        return distribution("reward-harness-library").read_text(f"licenses/{_LICENSE}")
    except PackageNotFoundError:
        return None
