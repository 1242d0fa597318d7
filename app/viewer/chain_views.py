"""Formats reasoning: the measurements of the pixel-based judge; the thoughts, Tool calls and answers of a model.

Pure: records in, markup out, for `gr.Markdown` (see `app.markup`).
"""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from textwrap import shorten
from typing import Any

from PIL import Image

from app.markup import block, document, escape, folded, paragraph, plain, preformatted, table
from app.score.comparisons import OrderProgress
from rewardharness.codec import finite
from rewardharness.judging.answers import read_object
from rewardharness.schema import LABELS, TIE, ChainStep, Judgment

FOLDED = 200
"""Characters above which a step of the pixel-based judge is collapsed."""

FOLDED_THOUGHT = 700
"""Characters above which a finished thought of a model is collapsed."""

SHOWN_AS = "Shown as: "
"""Prefix of the first step, which maps letters to candidates; the card shows this mapping itself."""


def overall_steps(judgment: Judgment) -> str:
    """Format the steps about the whole example, in order."""
    thoughts = [step.text for step in judgment.steps if not step.subject and step.kind == "think"]
    return block(f'<ol class="steps">{"".join(f"<li>{_folded(text)}</li>" for text in thoughts)}</ol>')


def _folded(text: str) -> str:
    """Format text; a long one is collapsed."""
    if len(text) <= FOLDED:
        return escape(text)
    begin = shorten(plain(text), FOLDED // 2, placeholder=" …")
    return f"<details><summary>{escape(begin)}</summary>{paragraph(text, 'faint')}</details>"


def candidate_steps(judgment: Judgment, label: str) -> str:
    """Format the measurements of one candidate per Tool, and their weighting."""
    parts: list[str] = []
    tool = ""
    for step in (entry for entry in judgment.steps if entry.subject == label):
        if step.kind == "tool":
            tool = _tool_name(step)
        elif step.kind == "obs":
            parts.append(_observation(tool, step.text))
            tool = ""
        elif step.kind != "reply":
            title = "<h4>How the grades were weighed</h4>"
            parts.append(f'<section class="step wide">{title}{_folded(step.text)}</section>')
    nothing = paragraph("No measurements of this candidate.", "faint")
    return block(f'<h3>Candidate {escape(label)}, tool by tool</h3><div class="grid">{"".join(parts) or nothing}</div>')


def _tool_name(step: ChainStep) -> str:
    name = _json_object(step.text).get("name")
    return name if isinstance(name, str) else "tool"


def pictures(judgment: Judgment, label: str) -> list[tuple[Image.Image, str]]:
    """Return the images that Tools made of one candidate, with the names of the Tools."""
    return _pictures(step for step in judgment.steps if step.subject == label)


def _pictures(steps: Iterable[ChainStep], suffix: str = "") -> list[tuple[Image.Image, str]]:
    images, tool = [], ""
    for step in steps:
        if step.kind == "tool":
            tool = _tool_name(step)
        elif step.picture is not None:
            with Image.open(io.BytesIO(step.picture)) as opened:
                images.append((opened.convert("RGB"), tool + suffix))
    return images


def _observation(tool: str, text: str) -> str:
    result = _json_object(text)
    says = result.pop("says", None)
    grade = finite(result.pop("grade", None))
    title = escape(tool.replace("-", " ").replace("_", " "))
    graded = f'<span class="pill">grade {grade:.2f}</span>' if grade is not None else ""
    sentence = paragraph(says if isinstance(says, str) else "" if result else text)
    rows = [[escape(name.replace("_", " ")), escape(_value(value))] for name, value in result.items()]
    numbers = folded("Numbers", table(["measured", "value"], rows, "numbers") if rows else "")
    return f'<section class="step"><h4>{title} {graded}</h4>{sentence}{numbers}</section>'


def _json_object(text: str) -> dict[str, Any]:
    value = None
    with suppress(ValueError):
        value = json.loads(text)
    return value if isinstance(value, dict) else {}


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def showings(orders: Sequence[OrderProgress], *, live: bool) -> str:
    """Format thoughts, Tool calls and answers of a model, one card per presentation order.

    Args:
        orders: Progress per presentation order.
        live: Whether the model is still running: then nothing is collapsed, and each card names the pending step.
    """
    several = any(order.showing.sample for order in orders)
    cards = "".join(_card(order, several=several, live=live) for order in orders)
    return block(f'<div class="grid showings">{cards}</div>')


def showing_title(order: OrderProgress, *, several: bool = False) -> str:
    """Return the name of a presentation order. `several`: whether there are several samples of each."""
    own = order.showing.labels
    title = f"Candidate {own[0]} only" if len(own) == 1 else f"{own[0]} first, then {', then '.join(own[1:])}"
    return f"{title} · sample {order.showing.sample + 1}" if several else title


def model_pictures(orders: Sequence[OrderProgress]) -> list[tuple[Image.Image, str]]:
    """Return the images that Tools made for a model, with Tool name and presentation order."""
    several = any(order.showing.sample for order in orders)
    titles = [f" · {showing_title(order, several=several)}" for order in orders]
    return [image for order, title in zip(orders, titles, strict=True) for image in _pictures(order.steps, title)]


def last_thought(orders: Sequence[OrderProgress]) -> tuple[OrderProgress, str] | None:
    """Return the last thought before the answer, of the first presentation order that has one."""
    thoughts = (
        (order, step.text)
        for order in orders
        for step in reversed(order.steps)
        if step.kind == "think" and not step.text.startswith(SHOWN_AS)
    )
    return next(thoughts, None)


def swapped(order: OrderProgress) -> str:
    """Explain the letters in the text of a model, where the candidate that is shown first is A."""
    renamed = [f"{own} “{label}”" for own, label in zip(order.showing.labels, LABELS, strict=False) if own != label]
    return f"In this order the model calls candidate {' and candidate '.join(renamed)}." if renamed else ""


def _card(order: OrderProgress, *, several: bool, live: bool) -> str:
    state = "answered" if order.answered else _awaited(order) if live else "no answer"
    busy = "busy" if live and not order.answered else ""
    title = escape(showing_title(order, several=several))
    parts = [f'<h4>{title} <span class="pill {busy}">{escape(state)}</span></h4>']
    note = swapped(order) if len(order.showing.labels) > 1 else ""
    parts.append(paragraph(note, "faint"))
    tool = ""
    for step in order.steps:
        if step.kind == "think" and not step.text.startswith(SHOWN_AS):
            parts.append(_thought(step.text, folded=not live))
        elif step.kind == "tool":
            tool = _tool_name(step)
            parts.append(_call(order, step))
        elif step.kind == "obs":
            parts.append(_observed(order, tool, step.text))
        elif step.kind == "answer":
            parts.append(f'<p class="answer">{_answer(order, step.text)}</p>')
        elif step.kind == "reply":
            parts.append(_unread(step.text))
    return f'<section class="step">{"".join(parts)}</section>'


def unread_replies(judgment: Judgment) -> str:
    """Format the replies of a model that could not be read; empty without any."""
    replies = [step for step in judgment.steps if step.kind == "reply"]
    parts = [f"<h4>{', '.join(map(escape, step.order))}</h4>{_unread(step.text)}" for step in replies]
    return block(f"<h3>How the judge got there</h3>{''.join(parts)}") if parts else ""


def _unread(text: str) -> str:
    return f"<details open><summary>Reply that could not be read</summary>{preformatted(text, 'wrap')}</details>"


def _awaited(order: OrderProgress) -> str:
    calls = bool(order.steps) and order.steps[-1].kind == "tool"
    return f"running {_tool_name(order.steps[-1])} …" if calls else "thinking …"


def _thought(text: str, *, folded: bool) -> str:
    if not folded or len(text) <= FOLDED_THOUGHT:
        return f'<div class="thought">{document(text)}</div>'
    begin = shorten(plain(text), FOLDED, placeholder=" …")
    return f'<details class="thought"><summary>{escape(begin)}</summary>{document(text)}</details>'


def _own(order: OrderProgress) -> Mapping[str, str]:
    """Map the names that the model uses to the candidates."""
    return {"source": "source", **dict(zip(LABELS, order.showing.labels, strict=False))}


def _call(order: OrderProgress, step: ChainStep) -> str:
    call, own = _json_object(step.text), _own(order)
    images = call.get("images")
    named = [own.get(str(image), str(image)) for image in images] if isinstance(images, list) else []
    query = call.get("query")
    on = f" on {escape(', '.join(named))}" if named else ""
    asked = f": “{escape(query)}”" if isinstance(query, str) and query else ""
    return f"<p>Calls <strong>{escape(_tool_name(step))}</strong>{on}{asked}</p>"


def _observed(order: OrderProgress, tool: str, text: str) -> str:
    """Format the result of a Tool, per image or as a whole."""
    result, own = _json_object(text), _own(order)
    parts = {own[label]: values for label, values in result.items() if label in own and isinstance(values, dict)}
    if not parts:
        return f"<blockquote>{_sentence(result) if result else paragraph(text)}</blockquote>"
    lines = (f"<p><strong>{escape(label)}</strong> {_sentence(dict(values))}</p>" for label, values in parts.items())
    return f"<blockquote>{''.join(lines)}</blockquote>"


def _sentence(result: dict[str, Any]) -> str:
    """Return the sentence of a result, or its values if there is none."""
    for name in ("says", "error"):
        if isinstance(result.get(name), str):
            return escape(result[name])
    return "; ".join(f"{escape(name.replace('_', ' '))}: {escape(_value(value))}" for name, value in result.items())


def _answer(order: OrderProgress, text: str) -> str:
    """Format an answer with the original letters of the candidates."""
    value, own = read_object(text), _own(order)
    if not isinstance(value, dict):
        return escape(text)
    preference = str(value.get("preference", ""))
    if preference:
        candidate = own.get(preference.upper(), preference)
        preferred = f"Prefers candidate <strong>{escape(candidate)}</strong>."
        verdict = "Calls it a tie." if preference.lower() == TIE else preferred
        scores = value.get("scores")
        pairs = scores.items() if isinstance(scores, dict) else ()
        return " ".join([verdict, *(f"{escape(own.get(label, label))}: {_numbers(score)}." for label, score in pairs)])
    if isinstance(value.get("odds"), dict):
        return f"Odds: {_numbers(value['odds'])}."
    return f"Gives {_numbers({name: number for name, number in value.items() if name != 'candidate'})}."


def _numbers(scores: object) -> str:
    if not isinstance(scores, dict):
        return escape(str(scores))
    return ", ".join(f"{escape(str(name).replace('_', ' '))} {escape(_value(score))}" for name, score in scores.items())
