"""Puts reasoning chains into words: what the measured judge measured, and what a model thought, called and answered.

Pure: records in, markup out, for `gr.Markdown` (see `app.markup`).
"""

import io
import json
from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

from PIL import Image

from app.markup import block, document, escape, paragraph, plain, table
from app.running import Seen
from rewardharness.codec import finite
from rewardharness.judging.answers import read_object
from rewardharness.schema import LABELS, TIE, ChainStep, Judgment

FOLDED = 200
"""Characters from which a step of the measured judge is folded."""

FOLDED_THOUGHT = 700
"""Characters from which a finished thought of a model is folded."""

SHOWN_AS = "Shown as: "
"""How the first step of a showing begins, which says what the model calls whom; it stands above the showing."""


def overall_steps(judgment: Judgment) -> str:
    """The steps of the chain that are about the whole example, in order."""
    shown = [step.text for step in judgment.steps if not step.subject and step.kind == "think"]
    return block(f'<ol class="steps">{"".join(f"<li>{_folded(text)}</li>" for text in shown)}</ol>')


def _folded(text: str) -> str:
    """Text in full; a long one is folded behind its beginning."""
    if len(text) <= FOLDED:
        return escape(text)
    begin = shorten(plain(text), FOLDED // 2, placeholder=" …")
    return f"<details><summary>{escape(begin)}</summary>{paragraph(text, 'faint')}</details>"


def candidate_steps(judgment: Judgment, label: str) -> str:
    """What the judge measured on one candidate, Tool by Tool, with the numbers, and how it weighed them."""
    parts: list[str] = []
    tool = ""
    for step in judgment.steps:
        if step.subject != label:
            continue
        if step.kind == "tool":
            tool = _tool_name(step)
        elif step.kind == "obs":
            parts.append(_observation(tool, step.text))
            tool = ""
        else:
            parts.append(
                f'<section class="step wide"><h4>How the grades were weighed</h4>{_folded(step.text)}</section>'
            )
    nothing = paragraph("Nothing was measured on this candidate.", "faint")
    return block(f'<h3>Candidate {escape(label)}, tool by tool</h3><div class="grid">{"".join(parts) or nothing}</div>')


def _tool_name(step: ChainStep) -> str:
    name = _json_object(step.text).get("name")
    return name if isinstance(name, str) else "tool"


def pictures(judgment: Judgment, label: str) -> list[tuple[Image.Image, str]]:
    """The pictures that Tools made of one candidate, each with the Tool's name in the chain."""
    found = []
    tool = ""
    for step in judgment.steps:
        if step.subject == label and step.kind == "tool":
            tool = _tool_name(step)
        elif step.subject == label and step.picture is not None:
            found.append((_opened(step.picture), tool))
    return found


def _observation(tool: str, text: str) -> str:
    result = _json_object(text)
    says = result.pop("says", None)
    grade = finite(result.pop("grade", None))
    title = escape(tool.replace("-", " ").replace("_", " "))
    graded = f'<span class="pill">grade {grade:.2f}</span>' if grade is not None else ""
    said = paragraph(says if isinstance(says, str) else "" if result else text)
    rows = [[escape(name.replace("_", " ")), escape(_value(value))] for name, value in result.items()]
    numbers = (
        f"<details><summary>Numbers</summary>{table(['measured', 'value'], rows, 'numbers')}</details>" if rows else ""
    )
    return f'<section class="step"><h4>{title} {graded}</h4>{said}{numbers}</section>'


def _json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def showings(seen: Sequence[Seen], *, live: bool) -> str:
    """What a model thought, called and answered, one card per showing of the candidates.

    Args:
        seen: The showings, as far as they have come.
        live: Whether the model is still at work: then nothing is folded, and each card says what is awaited.
    """
    several = any(each.showing.sample for each in seen)
    cards = "".join(_card(each, several=several, live=live) for each in seen)
    return block(f'<div class="grid showings">{cards}</div>')


def showing_title(seen: Seen, *, several: bool = False) -> str:
    """Name a showing by who is shown first. `several`: whether there are several samples of each."""
    own = seen.showing.own
    title = f"Candidate {own[0]} alone" if len(own) == 1 else f"{own[0]} first, then {', then '.join(own[1:])}"
    return f"{title} · sample {seen.showing.sample + 1}" if several else title


def model_pictures(seen: Sequence[Seen]) -> list[tuple[Image.Image, str]]:
    """The pictures that Tools made for a model, each with the Tool's name and the showing."""
    several = any(each.showing.sample for each in seen)
    found = []
    for each in seen:
        tool = ""
        for step in each.steps:
            if step.kind == "tool":
                tool = _tool_name(step)
            elif step.picture is not None:
                found.append((_opened(step.picture), f"{tool} · {showing_title(each, several=several)}"))
    return found


def last_thought(seen: Sequence[Seen]) -> tuple[Seen, str] | None:
    """The thought before the answer, of the first showing that has one."""
    for each in seen:
        thoughts = [step.text for step in each.steps if step.kind == "think" and not step.text.startswith(SHOWN_AS)]
        if thoughts:
            return each, thoughts[-1]
    return None


def swapped(seen: Seen) -> str:
    """What to know about letters in what a model wrote: there, whoever is shown first is A."""
    renamed = [f"{own} “{label}”" for own, label in zip(seen.showing.own, LABELS, strict=False) if own != label]
    return f"Here the model calls candidate {' and candidate '.join(renamed)}." if renamed else ""


def _card(seen: Seen, *, several: bool, live: bool) -> str:
    state = "answered" if seen.answered else _awaited(seen) if live else "no answer"
    busy = "busy" if live and not seen.answered else ""
    title = escape(showing_title(seen, several=several))
    parts = [f'<h4>{title} <span class="pill {busy}">{escape(state)}</span></h4>']
    note = swapped(seen) if len(seen.showing.own) > 1 else ""
    parts.append(paragraph(note, "faint"))
    tool = ""
    for step in seen.steps:
        if step.kind == "think" and not step.text.startswith(SHOWN_AS):
            parts.append(_thought(step.text, folded=not live))
        elif step.kind == "tool":
            tool = _tool_name(step)
            parts.append(_call(seen, step))
        elif step.kind == "obs":
            parts.append(_observed(seen, tool, step.text))
        elif step.kind == "answer":
            parts.append(f'<p class="answer">{_answer(seen, step.text)}</p>')
    return f'<section class="step">{"".join(parts)}</section>'


def _awaited(seen: Seen) -> str:
    last = seen.steps[-1] if seen.steps else None
    if last is not None and last.kind == "tool":
        return f"running {_tool_name(last)} …"
    return "thinking …"


def _thought(text: str, *, folded: bool) -> str:
    if not folded or len(text) <= FOLDED_THOUGHT:
        return f'<div class="thought">{document(text)}</div>'
    begin = shorten(plain(text), FOLDED, placeholder=" …")
    return f'<details class="thought"><summary>{escape(begin)}</summary>{document(text)}</details>'


def _own(seen: Seen) -> Mapping[str, str]:
    """What the names that the model uses stand for."""
    return {"source": "source", **dict(zip(LABELS, seen.showing.own, strict=False))}


def _call(seen: Seen, step: ChainStep) -> str:
    call, own = _json_object(step.text), _own(seen)
    images = call.get("images")
    named = [own.get(str(image), str(image)) for image in images] if isinstance(images, list) else []
    query = call.get("query")
    on = f" on {escape(', '.join(named))}" if named else ""
    asked = f": “{escape(query)}”" if isinstance(query, str) and query else ""
    return f"<p>Calls <strong>{escape(_tool_name(step))}</strong>{on}{asked}</p>"


def _observed(seen: Seen, tool: str, text: str) -> str:
    """What a Tool said: about each picture it looked at, or as a whole."""
    result, own = _json_object(text), _own(seen)
    parts = {own[label]: each for label, each in result.items() if label in own and isinstance(each, dict)}
    if not parts:
        return f"<blockquote>{_said(result) if result else paragraph(text)}</blockquote>"
    lines = (f"<p><strong>{escape(label)}</strong> {_said(dict(each))}</p>" for label, each in parts.items())
    return f"<blockquote>{''.join(lines)}</blockquote>"


def _said(result: dict[str, Any]) -> str:
    """The sentence of a result, or its values where it has none."""
    for name in ("says", "error"):
        if isinstance(result.get(name), str):
            return escape(result[name])
    return "; ".join(f"{escape(name.replace('_', ' '))}: {escape(_value(value))}" for name, value in result.items())


def _answer(seen: Seen, text: str) -> str:
    """An answer in the candidates' own letters."""
    value, own = read_object(text), _own(seen)
    if not isinstance(value, dict):
        return escape(text)
    preference = str(value.get("preference", ""))
    if preference:
        whom = own.get(preference.upper(), preference)
        said = "Calls it a tie." if preference.lower() == TIE else f"Prefers candidate <strong>{escape(whom)}</strong>."
        scores = value.get("scores")
        given = scores.items() if isinstance(scores, dict) else ()
        return " ".join([said, *(f"{escape(own.get(label, label))}: {_numbers(each)}." for label, each in given)])
    if isinstance(value.get("odds"), dict):
        return f"Odds: {_numbers(value['odds'])}."
    return f"Gives {_numbers({name: each for name, each in value.items() if name != 'candidate'})}."


def _numbers(scores: object) -> str:
    if not isinstance(scores, dict):
        return escape(str(scores))
    return ", ".join(f"{escape(str(name).replace('_', ' '))} {escape(_value(each))}" for name, each in scores.items())


def _opened(picture: bytes) -> Image.Image:
    with Image.open(io.BytesIO(picture)) as opened:
        return opened.convert("RGB")
