"""Library entries: Skills and Tools, stored as `SKILL.md` and, for Skills, `rubric.yaml`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, cast

from rewardharness.errors import LibraryError, shown
from rewardharness.files import content_id
from rewardharness.library.plaintext import tidy, unix_lines
from rewardharness.library.problems import Findings, FormatError, Problem
from rewardharness.library.rubric import Rubric, print_rubric, read_rubric
from rewardharness.library.triggers import Trigger, TriggerError, parse_triggers
from rewardharness.library.yamlsafe import Document, print_yaml, read_yaml
from rewardharness.task import IMAGE_EDIT

Kind = Literal["skill", "tool"]

SCHEMA = 2
"""Version of the written format."""
ENTRY_FILE = "SKILL.md"
RUBRIC_FILE = "rubric.yaml"
FOLDERS: Mapping[Kind, str] = {"skill": "skills", "tool": "tools"}
"""Folder of each kind of entry."""

MAX_BYTES = 256 * 1024
"""Maximum size of an entry file in bytes."""
MAX_FRONT = 16 * 1024
"""Maximum size of the front matter in bytes."""
MAX_DESCRIPTION = 1024
"""Maximum length of a description in characters."""
MAX_NAME = 64
"""Maximum length of a name in characters."""

_TRIGGERS_REMEDY = "Separate words and phrases with commas, enclose regular expressions in slashes, or write `always`."
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_LOADABLE_NAME = re.compile(rf"[A-Za-z0-9_](?:[A-Za-z0-9_-]{{0,{MAX_NAME - 1}}})")
_OPENING = re.compile(r"(?:[ \t]*(?:#[^\n]*|<!--(?:(?!-->)[\s\S])*-->[ \t]*)?\n)*?---[ \t]*\n")
"""The first line of the front matter, after empty lines and comments. White space after `---` is invisible."""
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)
_CUT = re.compile(r"^description:[ \t]*(?:[^\s'\"|>#][^\n]*?)?(?:\n[ \t]+[^\s'\"|>#][^\n]*?)*?[ \t]#", re.MULTILINE)
"""A description without quotation marks in which a comment begins."""
_RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))})
_CONTENT = tuple("name kind description body metadata system_prompt measure input_schema output_schema rubric".split())
_KEYS = frozenset({"schema_version", *_CONTENT} - {"body", "rubric"})
_TYPES: Mapping[str, type] = {"system_prompt": str, "measure": str, "input_schema": dict, "output_schema": dict}
_TYPE_PROBLEMS: Mapping[type, tuple[str, str]] = {
    str: ("is not text.", "Write text, quoted if it looks like a number."),
    dict: ("is not a mapping of names to types.", "Write `name: type` lines below it."),
}


@dataclass(frozen=True)
class Entry:
    """A Skill (guidance for a judge) or a Tool (one focused analysis).

    Texts are normalized with `tidy`. Formatting does not affect equality; unknown keys do.
    """

    name: str
    """Unique in the Library; also the name of its folder."""
    kind: Kind
    description: str
    """Purpose of the entry and when it applies, in one or two sentences."""
    body: str = ""
    """Markdown: guidance for the judge (Skill), or when and how to call it (Tool)."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Keys defined by this project, such as `triggers`."""
    system_prompt: str | None = None
    """System prompt of a prompted Tool."""
    measure: str | None = None
    """The measure that a measured Tool runs."""
    input_schema: Mapping[str, Any] | None = None
    """Inputs of a prompted Tool: informal type by name."""
    output_schema: Mapping[str, Any] | None = None
    """Outputs of a prompted Tool: informal type by name."""
    rubric: Rubric | None = None
    """Weighted criteria of a Skill."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Unknown front matter keys; preserved on rewrite."""
    documents: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """Exact text of the source files by name; empty for an entry created in memory."""

    def __post_init__(self) -> None:
        for name in ("description", "body"):
            object.__setattr__(self, name, tidy(getattr(self, name)))
        object.__setattr__(self, "description", self.description.strip())
        for name in ("system_prompt", "measure"):
            value = getattr(self, name)
            object.__setattr__(self, name, (tidy(value).strip() or None) if value is not None else None)

    @property
    def path(self) -> str:
        """Path of `SKILL.md` in the Library, derived from kind and name and never read from a file."""
        return f"{FOLDERS[self.kind]}/{self.name}/{ENTRY_FILE}"

    @cached_property
    def triggers(self) -> tuple[Trigger, ...]:
        """Conditions under which the entry applies; empty if none are given.

        Raises:
            LibraryError: If `metadata.triggers` is invalid.
        """
        try:
            return parse_triggers(self.metadata.get("triggers", ""))
        except TriggerError as error:
            message = f"Invalid triggers of {self.name!r}: {error}"
            raise LibraryError(message, next_step="Correct the triggers.") from None

    @property
    def task(self) -> str:
        """Task of the entry, or `any`: `metadata.task`; by default `image-edit`, which includes videos."""
        return self.metadata.get("task", IMAGE_EDIT.name)

    @property
    def protected(self) -> bool:
        """Whether evolution must not remove the entry: `metadata.protected` is `true`."""
        return self.metadata.get("protected") == "true"

    @cached_property
    def entry_id(self) -> str:
        """Content id of the entry. Formatting and unknown keys do not affect it."""
        return content_id(self.canonical())

    def canonical(self) -> dict[str, Any]:
        """Return the content of the entry as JSON values, without formatting and unknown keys."""
        content = {key: getattr(self, key) for key in _CONTENT}
        rubric = self.rubric.canonical() if self.rubric else None
        return {**content, "metadata": dict(self.metadata), "rubric": rubric}


@dataclass(frozen=True)
class EntryPlaces:
    """Locations of the parts of an entry in its `SKILL.md`."""

    front: Document
    """The front matter."""
    body_line: int
    """First line of the body."""

    def line(self, key: str) -> int | None:
        """Return the line of a front matter key."""
        return self.front.line(key)


def name_problem(name: str) -> str | None:
    """Return the reason why a name is invalid for a new entry, or None.

    A valid name consists of lowercase words joined by hyphens, has at most 64 characters, and is not a reserved file
    name on Windows.
    """
    if not _NAME.fullmatch(name):
        return f"The name {shown(name)!r} does not consist of lowercase words and digits joined by hyphens."
    return _reserved(name)


def check_name(name: str) -> None:
    """Check the name of a new entry.

    Raises:
        LibraryError: If it is invalid.
    """
    problem = name_problem(name)
    if problem:
        raise LibraryError(problem, next_step="Choose a name such as `text-rendering`.")


def loadable_name_problem(name: str) -> str | None:
    """Return the reason why an entry with this name cannot be loaded, or None.

    Published Libraries also use capital letters and underscores, so these are accepted.
    """
    if not _LOADABLE_NAME.fullmatch(name):
        return f"The name {shown(name)!r} is not 1 to {MAX_NAME} letters, digits, hyphens, and underscores."
    return _reserved(name)


def _reserved(name: str) -> str | None:
    return f"The name {name!r} is reserved by Windows." if name.lower() in _RESERVED else None


def parse_entry(text: str, *, name: str, kind: Kind, rubric_text: str | None = None, where: str = ENTRY_FILE) -> Entry:
    """Parse an entry.

    Args:
        text: Content of `SKILL.md`.
        name: Required name, which is the name of the folder.
        kind: Required kind.
        rubric_text: Content of `rubric.yaml`; None if the file does not exist.
        where: File name for messages.

    Raises:
        LibraryError: If the entry is invalid; describes the first error.
    """
    findings = Findings(where)
    entry, _ = read_entry(text, name, kind, rubric_text, findings)
    findings.raise_first()
    return cast(Entry, entry)


def read_entry(
    text: str, name: str, kind: Kind, rubric_text: str | None, findings: Findings
) -> tuple[Entry | None, EntryPlaces | None]:
    """Parse an entry and collect all problems.

    Returns:
        The entry, or None if there is an error; and the locations of its parts, or None without front matter.
    """
    entry, places, problems = _read_once(text, name, kind, rubric_text, findings.where)
    findings.found.extend(problems)
    return entry, places


@lru_cache(maxsize=256)
def _read_once(
    text: str, name: str, kind: Kind, rubric_text: str | None, where: str
) -> tuple[Entry | None, EntryPlaces | None, tuple[Problem, ...]]:
    """Cache parsed entries: loading, saving, and publishing a Library each read the same texts."""
    findings = Findings(where)
    if problem := loadable_name_problem(name):
        findings.error(problem, remedy="Rename the entry.")
    elif problem := name_problem(name):
        findings.warning(problem, remedy="Rename the entry; new entries need a valid name.")
    rubric, about_rubric = None, findings.at(where.removesuffix(ENTRY_FILE) + RUBRIC_FILE)
    if rubric_text is not None and kind == "tool":
        about_rubric.error("A Tool has no rubric.", remedy="Remove the file, or move the criteria to a Skill.")
    elif rubric_text is not None:
        rubric = read_rubric(rubric_text, about_rubric)
    try:
        front, body, body_line = _split(text, where)
        document = read_yaml(front, where=where, first_line=2)
    except FormatError as error:
        return None, None, (*findings.found, error.problem)
    if _CUT.search(front):
        message = "The description ends before ` #`, which begins a comment."
        findings.warning(message, document.line("description"), "Enclose the description in quotation marks.")
    documents = {ENTRY_FILE: text} if rubric_text is None else {ENTRY_FILE: text, RUBRIC_FILE: rubric_text}
    entry = replace(_read_front(document, name, kind, findings), body=body, rubric=rubric, documents=documents)
    return None if findings.failed else entry, EntryPlaces(document, body_line), tuple(findings.found)


def print_entry(entry: Entry) -> str:
    """Format an entry as `SKILL.md`. `parse_entry` is the inverse."""
    front = {"schema_version": SCHEMA, "name": entry.name, "kind": entry.kind, "description": entry.description}
    front |= {key: value for key in _TYPES if (value := getattr(entry, key)) is not None}
    front |= {"metadata": dict(entry.metadata)} if entry.metadata else {}
    return f"---\n{print_yaml({**front, **entry.extra})}---\n" + (f"\n{entry.body}\n" if entry.body else "")


def entry_files(entry: Entry) -> dict[str, str]:
    """Return the files of an entry by name.

    The original text of an unchanged file is returned, so that saving does not reformat it.
    """
    original, parsed = entry.documents, None
    if ENTRY_FILE in original:
        rubric_text = original.get(RUBRIC_FILE)
        parsed = read_entry(original[ENTRY_FILE], entry.name, entry.kind, rubric_text, Findings(entry.path))[0]
    unchanged = parsed is not None and replace(parsed, rubric=None) == replace(entry, rubric=None)
    files = {ENTRY_FILE: original[ENTRY_FILE] if unchanged else print_entry(entry)}
    if entry.rubric is not None:
        unchanged = parsed is not None and parsed.rubric == entry.rubric
        files[RUBRIC_FILE] = original[RUBRIC_FILE] if unchanged else print_rubric(entry.rubric)
    return files


def check_entry(entry: Entry) -> None:
    """Check that an entry can be written and read back unchanged.

    Raises:
        LibraryError: If it cannot.
    """
    rubric_text = print_rubric(entry.rubric) if entry.rubric is not None else None
    try:
        text = print_entry(entry)
        text.encode("utf-8")
    except (UnicodeEncodeError, RecursionError) as error:
        raise LibraryError(f"{entry.name!r} cannot be written: {error}.", next_step="Correct the entry.") from None
    parsed = parse_entry(text, name=entry.name, kind=entry.kind, rubric_text=rubric_text, where=entry.path)
    if parsed != entry:
        message = f"{entry.name!r} contains a value that cannot be written to {ENTRY_FILE} and read back."
        step = "Use text, numbers, true, false, lists, and mappings with text keys."
        raise LibraryError(message, next_step=step)


def _split(text: str, where: str) -> tuple[str, str, int]:
    """Return the front matter, the body, and the first line of the body.

    Raises:
        FormatError: If there is no front matter, or a part is too large.
    """

    def error(message: str, line: int | None, remedy: str) -> FormatError:
        return FormatError(Problem("error", where, line, message, remedy))

    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        raise error(f"The file has {size} bytes; the limit is {MAX_BYTES}.", None, "Shorten it.")
    text = unix_lines(text.removeprefix("\ufeff"))
    remedy = "Enclose `name` and `description` between two `---` lines."
    begin = _OPENING.match(text)
    if begin is None:
        raise error("The first line is not `---`.", 1, remedy)
    lines = text.count("\n", 0, begin.end())
    end = _CLOSING.search(text, begin.end())
    if end is None:
        raise error("The front matter has no closing line `---`.", lines, remedy)
    # Lines before the front matter become empty lines of it, so that its lines keep their numbers.
    front, body = "\n" * (lines - 1) + text[begin.end() : end.start()], text[end.end() + 1 :]
    if len(front.encode("utf-8", "replace")) > MAX_FRONT:
        raise error(f"The front matter is larger than {MAX_FRONT} bytes.", 2, "Move text to the body.")
    blank = len(body) - len(body.lstrip()) if body.strip() else 0
    return front, body, text.count("\n", 0, end.end()) + 2 + body.count("\n", 0, blank)


def _read_front(document: Document, name: str, kind: Kind, findings: Findings) -> Entry:
    """Parse front matter. Invalid values are reported and replaced with defaults."""
    values = document.value

    def error(key: str, message: str, remedy: str) -> None:
        findings.error(message, document.line(key) or 2, remedy)

    for key, expected in (("name", name), ("kind", kind)):
        text = document.text(key)
        if key not in values:
            findings.warning(f"There is no `{key}`.", 2, f"Add `{key}: {shown(expected)}`.")
        elif text is None:
            error(key, f"`{key}` is not text.", f"Write `{key}: {expected}`.")
        elif text != expected:
            message = f"`{key}` is {shown(text)!r}, but the folder and the registry specify {shown(expected)!r}."
            error(key, message, "Make them equal.")
    version = values.get("schema_version", SCHEMA)
    if version != SCHEMA:
        message = f"schema_version is {shown(str(version), 20)}; this version reads {SCHEMA}."
        findings.warning(message, document.line("schema_version"), f"Set it to {SCHEMA}.")
    description = tidy(document.text("description") or "")
    if not description:
        error("description", "There is no `description`.", "Describe the purpose and when the entry applies.")
    elif len(description) > MAX_DESCRIPTION:
        message = f"The description has {len(description)} characters; the limit is {MAX_DESCRIPTION}."
        error("description", message, "Move the rest to the body.")
    for key, needed in _TYPES.items():
        if not isinstance(values.get(key), needed | None):
            problem, remedy = _TYPE_PROBLEMS[needed]
            error(key, f"`{key}` {problem}", remedy)
    typed: dict[str, Any] = {
        key: value for key, needed in _TYPES.items() if isinstance(value := values.get(key), needed)
    }
    extra = {key: value for key, value in values.items() if key not in _KEYS}
    entry = Entry(name, kind, description, metadata=_read_metadata(document, findings), extra=extra, **typed)
    if kind == "tool" and entry.system_prompt is None and entry.measure is None:
        message = "This Tool has neither `system_prompt` nor `measure`, so it does nothing."
        findings.error(message, 2, "Add one of them.")
    return entry


def _read_metadata(document: Document, findings: Findings) -> Mapping[str, str]:
    value = document.value.get("metadata")
    if not isinstance(value, dict | None):
        message = "`metadata` is not a mapping of text to text."
        findings.error(message, document.line("metadata"), "Write `key: value` lines below it.")
    metadata: dict[str, str] = {}
    for key in value if isinstance(value, dict) else {}:
        text = document.text("metadata", key)
        if text is None:
            line = document.line("metadata", key)
            findings.error(f"`metadata.{shown(key)}` is not text.", line, "Write one line of text.")
        else:
            metadata[key] = text
    try:
        parse_triggers(metadata.get("triggers", ""))
    except TriggerError as error:
        findings.error(f"Invalid triggers: {error}", document.line("metadata", "triggers"), _TRIGGERS_REMEDY)
    return metadata
