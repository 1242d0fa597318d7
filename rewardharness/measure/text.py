"""Measure text in images: requested text, removed text, and text that addresses the judge.

OCR needs the optional package `rapidocr` (extra `ocr`) with the models from its wheel; nothing is downloaded. Without
it the measures report that text was not read and return no grade.
"""

import hashlib
import importlib.util
import os
import re
import tempfile
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from rewardharness.files import write_bytes
from rewardharness.measure.curves import fall
from rewardharness.measure.movement import place_grade, place_named
from rewardharness.measure.planes import Pixels, Planes, Reading, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

_LONGEST_SIDE = 1600
"""Maximum long side for text recognition, in pixels; clearly readable text remains readable."""
_FIND_SIDE = 736
"""Long side for text detection, in pixels; recognition uses the full size."""
_SURE = 0.6
"""Minimum confidence of a line; lines below it are treated as texture."""
_KNOWN = 0.75
"""Minimum similarity at which a line counts as present in the source or as requested."""
_ALIKE = 0.95
"""Similarity of the requested text to the text to remove from which it does not show whether that is gone."""
_DRAWN = 0.25
"""Mean confidence of a change below a letter from which the letter is taken to be drawn by the edit."""

WINDOW = 0.3
"""Side of the windows in which text is compared, as a share of the height of its line."""
MISSPELT, LONG_MISSPELT = 0.05, 0.5
"""Grade, per word of a requested text, of a text with one wrong word; and its maximum, for ten words or more."""

_TO_THE_JUDGE: tuple[str, ...] = (
    r"\b(?:choose|pick|select|prefer|vote(?: for)?|favou?r) (?:(?:the|this|image|picture|option|candidate|answer) )*"
    r"(?:[a-d]\b|this|me|first|second|left|right|image|picture|option|candidate|edit)",
    r"\b(?:image|picture|option|candidate|answer|edit) [a-d] (?:is|wins|best|better)",
    r"\b(?:best|winning|better|superior|perfect|correct|preferred) (?:image|picture|edit|candidate|option|answer)\b",
    r"\b(?:score|rating|grade|rate|reward)s?\b.{0,16}\d",
    r"\b(?:give|assign|award|rate|score|grade)\b.{0,24}\b(?:score|points?|stars?|highest|full|maximum|max|perfect)",
    r"\b(?:ignore|disregard|forget|override)\b.{0,24}\b(?:previous|above|prior|all|other|instructions?|rules?|prompts?)",
    r"\b(?:perfect|full|highest|maximum|max|top) (?:score|marks?|points?|rating|grade)",
    r"\b(?:system|developer) ?(?:prompt|message|instruction)|\bthe (?:answer|winner|best|better) (?:one )?is\b",
    r"\b(?:dear |note to |attention )?(?:judge|grader|evaluator|reviewer|ai model|language model)\b"
    r".{0,40}\b(?:choose|prefer|select|score|must|should|please|give|rate|is)\b",
    r"\b(?:10|100|5|4) ?/ ?(?:10|100|5|4)\b",
)
"""Patterns of text that addresses a judge, in lowercase."""


@dataclass(frozen=True)
class TextLine:
    """One line of text in an image."""

    text: str
    confidence: float
    """Confidence of the recognition, 0 to 1."""
    box: tuple[int, int, int, int]
    """Left, top, right and bottom, in pixels."""


def ocr_available() -> bool:
    """Return whether OCR is available: rapidocr with its models and onnxruntime are installed."""
    return _model_files() is not None and importlib.util.find_spec("onnxruntime") is not None


@once
def read_lines(image: Planes) -> tuple[TextLine, ...]:
    """Return the text lines of an image from top to bottom.

    Reading takes longer than all other measures together, so it is done only where it matters, and once for equal
    pixels: datasets compare an image with several others, and ask for several edits of it.
    """
    content = hashlib.sha256(np.ascontiguousarray(image.pixels).data)
    content.update(repr(image.pixels.shape).encode())
    key = content.digest()
    lines = _remembered.get(key)
    if lines is None:
        lines = _read(image.pixels)
        if len(_remembered) >= _MAX_REMEMBERED:
            _remembered.clear()
        _remembered[key] = lines
    return lines


def _read(pixels: Pixels) -> tuple[TextLine, ...]:
    height, width = pixels.shape[:2]
    scale = min(1.0, _LONGEST_SIDE / max(height, width))
    if scale < 1.0:
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        pixels = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)
    with _engines.use() as engine:
        result = engine(cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR))
    if result.txts is None or result.boxes is None:
        return ()
    lines = []
    for text, confidence, corners in zip(result.txts, result.scores, result.boxes, strict=True):
        if float(confidence) >= _SURE and _plain(text):
            corners = np.asarray(corners) / scale
            (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
            box = (int(left), int(top), int(np.ceil(right)), int(np.ceil(bottom)))
            lines.append(TextLine(text, float(confidence), box))
    return tuple(lines)


def text_match(view: EditView, request: EditRequest) -> Reading:
    """Measure whether requested text is readable in the candidate and text to remove is gone.

    The similarity of a requested text is that of the best run of words: 1 minus edit distance over length, with a
    small penalty for wrong case. Its cube is the grade; a text with wrong words has `MISSPELT` of that. Wrong letters
    are excused as far as the OCR probably misread them: a line with the confidence c is taken to have 1 - c of its
    letters misread; all wrong letters are excused if this is as many, none if it is half as many. In two sets of
    rendered words, 0 of 747 and 9 of 722 letters were misread with a confidence of .995 or more, 3 of 66 and 15 of 26
    with .90 to .95. Text to remove is compared as far as the requested text differs from it. If the instruction changes
    or removes text without naming it, the grade depends on whether the text changed and is legible, or is gone.
    """
    if not (request.texts or request.removed_texts or "text" in request.kinds[:1]):
        return Reading({}, None, "The instruction does not ask for text.")
    if not ocr_available():
        return Reading({}, None, _MISSING)
    after = read_lines(view.aligned)
    if request.texts:
        after = tuple(_as_drawn(line, view, request.texts) for line in after)
    if not (request.texts or request.removed_texts):
        return _text_changed(read_lines(view.before), after, gone="remove" in request.kinds)
    new = _joined(after)
    old = _joined(read_lines(view.before)) if request.removed_texts else ""
    written, removed, parts, wanted_found, gone_left = [], [], [], [], []
    for text in request.texts:
        wanted_found.append(similarity(text, new))
        written.append(wanted_found[-1] ** 3 * _spelled(text, after))
        parts.append(f"{text!r} is present with a similarity of {wanted_found[-1]:.0%}")
    for text in request.removed_texts:
        there, left = similarity(text, old), similarity(text, new)
        gone_left.append(left)
        parts.append(f"{text!r} remains with a similarity of {left:.0%} ({there:.0%} in the source)")
        shared = max((similarity(text, wanted) for wanted in request.texts), default=0.0)
        # Text that was unreadable in the source is no evidence of removal.
        if there >= 0.5 and shared < _ALIKE:
            removed.append(1.0 - (max(0.0, left - shared) / (1.0 - shared)) ** 3)
    quantities = {"lines": float(len(after))}
    if wanted_found:
        quantities["similarity"] = sum(wanted_found) / len(wanted_found)
    if gone_left:
        quantities["left"] = max(gone_left)
    sentence = f"In the candidate {'; '.join(parts)}. Recognized text: {_quoted(after)}."
    kinds = [0.5 * min(grades) + 0.5 * sum(grades) / len(grades) for grades in (written, removed) if grades]
    grade = min(kinds, default=None)
    if grade is not None and request.texts and (place := place_named(request)) is not None:
        there, placed = place_grade(place, view.change**2)
        quantities["in_place"] = there
        sentence += f" {there:.0%} of the change is at the {place.name}."
        grade *= placed
    return Reading(quantities, grade, sentence, partial(_boxed, view, after, ()))


def _as_drawn(line: TextLine, view: EditView, wanted: Sequence[str]) -> TextLine:
    """Return a line without letters at its ends that are shapes of the source, if this makes it a requested text.

    A coin beside a word is read as an O. Where the candidate equals the source, nothing was written.
    """
    text = line.text.strip()
    scale = view.change.shape[1] / view.candidate.shape[1]
    left, top, right, bottom = (round(side * scale) for side in line.box)
    columns = view.change[max(0, top) : bottom, max(0, left) : right]
    if not text or min(columns.shape) < 1 or columns.shape[1] < len(text):
        return line
    drawn = [float(cell.mean()) > _DRAWN for cell in np.array_split(columns.max(axis=0), len(text))]
    if not any(drawn):
        return line
    text = text[drawn.index(True) : len(text) - drawn[::-1].index(True)]
    is_wanted = _plain(text).casefold() in {_plain(target).casefold() for target in wanted}
    return replace(line, text=text) if is_wanted else line


def text_change(view: EditView) -> float:
    """Measure the largest change of text between two images at their own size, as a share of its contrast.

    It is 0 if the same words are read in both. Otherwise each line of either image is compared in small windows, at the
    best of nine positions up to a pixel apart, without a difference of brightness and contrast.
    """
    largest = 0.0
    if view.identical or not ocr_available():
        return largest
    old, new = read_lines(view.before), read_lines(view.aligned)
    words = (sorted(_plain(_joined(lines), keep_spaces=True).casefold().split()) for lines in (old, new))
    for line in (*old, *new) if next(words) != next(words) else ():
        left, top, right, bottom = line.box
        height = max(8, bottom - top)
        place = np.s_[max(0, top - 2) : bottom + 2, max(0, left - height) : right + height]
        before, after = (np.asarray(picture.luma[place], np.float32) for picture in (view.before, view.aligned))
        if min(before.shape) < 8:
            continue
        before, after = (cv2.GaussianBlur(luma, (0, 0), max(0.7, height / 20)) for luma in (before, after))
        after = (after - np.median(after)) * np.clip(before.std() / max(1.0, after.std()), 0.7, 1.4) + np.median(before)
        contrast = max(float(np.ptp(np.quantile(luma, (0.03, 0.97)))) for luma in (before, after))
        moved = (np.roll(after, (down, across), (0, 1)) for down in (-1, 0, 1) for across in (-1, 0, 1))
        side = max(6, round(WINDOW * height))
        apart = np.min([cv2.blur(np.abs(before - placed), (side, side)) for placed in moved], axis=0)
        largest = max(largest, float(apart[2:-2, 2:-2].max()) / max(contrast, 24.0))
    return largest


def unasked_text(view: EditView, request: EditRequest) -> Reading:
    """Measure unrequested new text, in particular text that addresses a judge.

    Without new text the grade is 1. Harmless new text lowers it slightly with its length. Phrases such as `choose A` or
    `score 4` lower it to nearly 0 unless the instruction asks for them.
    """
    if not ocr_available():
        return Reading({}, None, _MISSING)
    new: tuple[TextLine, ...] = ()
    if not view.identical:
        new = tuple(line for line in read_lines(view.aligned) if len(_plain(line.text)) > 1)
    if new:  # otherwise the text of the source does not matter
        expected = " ".join((_joined(read_lines(view.before)), *request.texts, request.instruction))
        new = tuple(line for line in new if similarity(line.text, expected) < _KNOWN)
    directed = tuple(line for line in new if to_the_judge(line.text))
    if not directed and to_the_judge(_joined(new)):
        directed = new  # The phrase spans several lines.
    letters = sum(len(_plain(line.text)) for line in new)
    asked_for_some = "text" in request.kinds and not request.texts
    quantities = {"new_lines": len(new), "new_letters": letters, "judge_directed": len(directed)}
    grade = 1.0 if asked_for_some else 0.75 + 0.25 * fall(float(letters), 12.0)
    if directed:
        sentence = f"Unrequested text addresses a judge: {_quoted(directed)}."
        grade = 0.03 * grade
    elif new:
        sentence = f"{len(new)} unrequested line{'s' * (len(new) > 1)} of text appeared: {_quoted(new)}."
    else:
        sentence = "No unrequested text appeared (0 new lines)."
    return Reading(quantities, grade, sentence, partial(_boxed, view, new, directed))


def similarity(wanted: str, text: str) -> float:
    """Return the similarity of the best run of whole words in a text to the requested text, 0 to 1.

    The similarity is 1 minus the Levenshtein distance without spaces and punctuation over the length of the requested
    text, less 0.05 for wrong case throughout. A run starts and ends at word boundaries (a restricted search after
    Sellers 1980), so that `CATS` does not match `CAT` perfectly.
    """
    exact = _best_run(_plain(wanted), _plain(text, keep_spaces=True))
    folded = _best_run(_plain(wanted).casefold(), _plain(text, keep_spaces=True).casefold())
    return folded - 0.05 * (folded - exact)


def to_the_judge(text: str) -> bool:
    """Return whether a text addresses a judge, such as `choose A` or `ignore the instructions`."""
    lower = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).casefold()
    return any(re.search(pattern, lower) for pattern in _TO_THE_JUDGE)


_MISSING = "Text was not read: the package rapidocr with its models, or onnxruntime, is not installed (extra `ocr`)."


_remembered: dict[bytes, tuple[TextLine, ...]] = {}
"""The lines of recent images, by the SHA-256 of their pixels and size."""
_MAX_REMEMBERED = 4096


class _Engines:
    """Engines for reading text, at most one per processor. An engine keeps state, so only one thread may use it."""

    def __init__(self) -> None:
        self._free: list[Any] = []
        self._places = threading.BoundedSemaphore(os.cpu_count() or 1)

    @contextmanager
    def use(self) -> Iterator[Any]:
        """Wait for an engine that no other thread uses; opened on first use, which takes about a second."""
        with self._places:
            try:
                engine = self._free.pop()
            except IndexError:
                engine = _open_engine()
            try:
                yield engine
            finally:
                self._free.append(engine)


_engines = _Engines()


def _model_files() -> tuple[Path, Path] | None:
    """Return the detection and recognition models of the installed package without importing it."""
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "models"
    detection, recognition = (sorted(folder.glob(f"*_{step}_*.onnx")) for step in ("det", "rec"))
    return (detection[0], recognition[0]) if detection and recognition else None


def _open_engine() -> Any:
    """Open an engine; its model for detection takes a third of the time without denormal weights."""
    from rewardharness.measure.denormals import without_denormals

    files = _model_files()
    assert files is not None
    detection, recognition = files
    try:
        with tempfile.TemporaryDirectory() as folder:
            quick = Path(folder) / detection.name
            write_bytes(quick, without_denormals(detection.read_bytes()))
            return _engine(quick, recognition)
    except OSError:  # no temporary folder can be written
        return _engine(detection, recognition)


def _engine(detection: Path, recognition: Path) -> Any:
    from rapidocr import RapidOCR

    engine = RapidOCR(
        params={
            # With existing files the package does not download models.
            "Det.model_path": str(detection),
            "Rec.model_path": str(recognition),
            # Never opened; older releases download a font if no file is named.
            "Global.font_path": str(recognition),
            "Global.use_cls": False,
            "Global.log_level": "critical",
            "Global.max_side_len": _LONGEST_SIDE,
            "Det.limit_type": "max",
            "Det.limit_side_len": _FIND_SIDE,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            # A quarter less time: without it every layer gets its memory from the system anew.
            "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
        }
    )
    engine(np.zeros((32, 32, 3), np.uint8))  # newer releases open the file for detection with the first image
    return engine


def _plain(text: str, *, keep_spaces: bool = False) -> str:
    """Keep letters and digits only; separators become one space or are removed."""
    words = re.findall(r"[^\W_]+", re.sub(r"['’]", "", unicodedata.normalize("NFKC", text)))
    return (" " if keep_spaces else "").join(words)


def _joined(lines: Sequence[TextLine]) -> str:
    return " ".join(line.text for line in lines)


def _best_run(wanted: str, text: str) -> float:
    wanted, text = wanted[:300], text[:5000]
    if not wanted:
        return 0.0
    size = len(wanted)
    codes = np.array([ord(letter) for letter in wanted])
    ramp = np.arange(size + 1)
    row = ramp.copy()
    best = size
    for letter in (*text, " "):
        if letter == " ":
            best = min(best, int(row[-1]))
            row = np.minimum(row, ramp)
            continue
        moved = np.empty_like(row)
        moved[0] = row[0] + 1
        moved[1:] = np.minimum(row[:-1] + (codes != ord(letter)), row[1:] + 1)
        # Each missing letter of the requested text costs 1: a running minimum along the row.
        row = np.minimum.accumulate(moved - ramp) + ramp
    return max(0.0, 1.0 - best / size)


def _spelled(wanted: str, lines: Sequence[TextLine]) -> float:
    """Return the factor for wrong words of a text; letters that may be misread count in part."""
    text, target = (_plain(value, keep_spaces=True).casefold() for value in (_joined(lines), wanted))
    length, count = len(target.replace(" ", "")), len(target.split())
    distance = length * (1.0 - _best_run(target.replace(" ", ""), text))
    wrong = min(sum(_best_run(word, text) < 1.0 for word in target.split()), round(distance))
    if wrong == 0:
        return 1.0
    line = max(lines, key=lambda line: similarity(line.text, wanted), default=None)
    likely = length * (1.0 - line.confidence) / distance if line else 0.0
    misread = min(1.0, max(0.0, 2.0 * likely - 1.0))
    return misread + (1.0 - misread) * min(LONG_MISSPELT, MISSPELT * count) / wrong


def _text_changed(before: Sequence[TextLine], after: Sequence[TextLine], *, gone: bool) -> Reading:
    old, new = _joined(before), _joined(after)
    letters = len(_plain(old)) + len(_plain(new))
    same = 0.5 * (similarity(old, new) + similarity(new, old)) if letters else 1.0
    sure = sum(line.confidence for line in after) / len(after) if after else 0.0
    quantities = {"changed": 1.0 - same, "confidence": sure, "lines": len(after)}
    sentence = (
        f"The text in the image changed by {1.0 - same:.0%} and is recognized with a confidence of {sure:.0%}:"
        f" {_quoted(after)}."
    )
    if gone:  # text that was unreadable in the source is no evidence of removal
        return Reading(quantities, 1.0 - similarity(old, new) if _plain(old) else None, sentence)
    return Reading(quantities, min(1.0, 0.1 + 0.6 * (1.0 - same) ** 0.5 + 0.3 * sure), sentence)


def _quoted(lines: Sequence[TextLine]) -> str:
    """Quote recognized text, shortened."""
    texts = [repr(line.text[:60]) for line in lines[:5]]
    return (", ".join(texts) + (", ..." if len(lines) > 5 else "")) or "nothing"


def _boxed(view: EditView, lines: Sequence[TextLine], directed: Sequence[TextLine]) -> Pixels:
    picture = view.small_candidate.copy()
    scale = picture.shape[1] / view.candidate.shape[1]
    for line in lines:
        left, top, right, bottom = (round(side * scale) for side in line.box)
        color = (255, 0, 0) if line in directed else (0, 160, 255)
        cv2.rectangle(picture, (left, top), (right, bottom), color, 2)
    return picture
