"""A comparison to show to others: its record, and a self-contained page."""

from io import BytesIO

from PIL import Image

from app.score.comparisons import Comparison
from app.score.views import OCR_NOTE
from rewardharness.judging.calibration import confidence_words
from rewardharness.judging.measured_reasons import split_reason
from rewardharness.judgments import judgment_json
from rewardharness.measure.images import load_picture
from rewardharness.report import Picture, Pictures, Report, Section, Table, Text
from rewardharness.report_html import render_html
from rewardharness.schema import TIE, Json, Judgment

SIDE = 1024
"""Longest side of an image in the page, in pixels."""


def record(comparison: Comparison) -> Json:
    """Return a judgment as JSON, as `rh score --json` prints it."""
    release = {"release": comparison.release} if comparison.release is not None else {}
    return judgment_json(comparison.judgment) | release


def headline(judgment: Judgment) -> str:
    """Return the result in one sentence."""
    if judgment.inconsistent:
        return "The judge was inconsistent"
    if len(judgment.scores) == 1:
        return "Reward: not measurable" if judgment.reward is None else f"Reward {judgment.reward:.2f} of 1"
    if judgment.preference in {TIE, None}:
        return "Too close to call"
    return f"People would most likely prefer {judgment.preference}"


def page(comparison: Comparison) -> str:
    """Return a page without scripts and external resources, which shows images, instruction, result and reasons.

    Raises:
        ImageError: If an image has been deleted.
    """
    document = report(comparison, _images(comparison))
    return render_html(document, document.title[:80])


def report(comparison: Comparison, *images: Pictures) -> Report:
    """Return instruction, result and reasons, with images beside the result."""
    judgment = comparison.judgment
    names = {
        "reward": "Reward (0 to 1)",
        "instruction": "Instruction following (1 to 4)",
        "quality": "Quality (1 to 4)",
    }
    rows = tuple(
        (label, *(_number(getattr(scores, name)) for name in names)) for label, scores in judgment.scores.items()
    )
    reasons = [split_reason(reason) for reason in judgment.reasons]
    numbers = tuple(f"{label}: {text}" for _, values in reasons for label, text in values.items())
    notes = tuple(note for note in judgment.notes if not note.startswith(OCR_NOTE))
    about = f"Judge: {judgment.judge}, with {comparison.library} (id {judgment.library_id[:12]}), {judgment.protocol}."
    sure = [confidence_words(judgment)] if judgment.calibration is not None else []
    sections = (
        Section("result", "", (Text((f"{headline(judgment)}.",), "headline"), Text(tuple(sure)), *images)),
        Section("scores", "Scores", (Table(("", *names.values()), rows),) if rows else ()),
        Section("why", "Why", (Text(tuple(sentence for sentence, _ in reasons), "list"),) if reasons else ()),
        Section("numbers", "Numbers", (Text(numbers, "list"),) if numbers else ()),
        Section("notes", "Notes", (Text((*notes, about), "list"),)),
    )
    return Report(comparison.example.instruction, sections)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"


def _images(comparison: Comparison) -> Pictures:
    pictures = []
    for name, image, preferred in named_images(comparison):
        image.thumbnail((SIDE, SIDE))
        out = BytesIO()
        image.save(out, "WEBP", quality=90, method=2)
        pictures.append(Picture(f"{name}, preferred" if preferred else name, out.getvalue(), preferred))
    return Pictures(tuple(pictures))


def named_images(comparison: Comparison) -> list[tuple[str, Image.Image, bool]]:
    """Return name and image of the source, the references and the candidates, and whether each is preferred."""
    example = comparison.example
    names = ["Source", *(f"Image {number}" for number in range(2, 2 + len(example.references)))]
    names += [f"Candidate {label}" for label in example.labels]
    images = (example.source_image, *example.references, *example.candidate_images)
    preferred = f"Candidate {comparison.judgment.preference}"
    return [
        (name, Image.fromarray(load_picture(image).pixels), name == preferred)
        for name, image in zip(names, images, strict=True)
    ]
