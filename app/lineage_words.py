"""Puts single things of a lineage into a few words, as they stand in the drawing. Pure: nodes in, plain text out.

Records, lines of `lineage.jsonl` and names are foreign text.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from textwrap import shorten
from typing import Any, Literal

from rewardharness.library.evolved import read_steps
from rewardharness.runs.graph import Node
from rewardharness.runs.lineage import SHORT

Tone = Literal["", "bad", "good"]


@dataclass(frozen=True)
class Words:
    """What stands on a thing in the drawing. Plain text, foreign."""

    kind: str
    title: str
    line: str = ""
    tone: Tone = ""


def words(node: Node, inside: Sequence[Node] = ()) -> Words:
    """Say in a few words what a thing is.

    Args:
        node: The thing.
        inside: What stands inside it.
    """
    return _FEW[node.kind](node.detail, inside) if node.kind in _FEW else Words(node.kind, node.label)


def many(number: int, one: str) -> str:
    """Count things in words."""
    return f"1 {one}" if number == 1 else f"{number} {one}s"


def texts(value: Any) -> list[str]:
    """The texts in a foreign list; nothing for what is no list."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _data(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    cited = f"{many(len(inside), 'example')} cited" if inside else ""
    if not detail["name"]:
        return Words("Preferences", many(len(inside), "example"), "of data that are not named")
    revision = detail["revision"][:SHORT]
    return Words("Data", detail["name"], ", ".join(filter(None, (revision, cited))))


def _edit(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    if inside:
        return Words("Edits", f"{len(inside)} more edits", "listed when you open this")
    [step] = read_steps([detail])
    title = f"{step.operator or 'edit'} {', '.join(step.entries)}".strip()
    return Words("Edit", title, _effect(detail) or shorten(step.reason, 80, placeholder="…"))


def _effect(detail: Mapping[str, Any]) -> str:
    """What an edit fixed and broke, if its evidence says so."""
    evidence = detail.get("evidence")
    evidence = evidence if isinstance(evidence, dict) else {}
    counts = [evidence.get(name) for name in ("fixes", "breaks")]
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in counts):
        return ""
    cited = len(texts(detail.get("cited")))
    return f"{counts[0]} fixed, {counts[1]} broken" + (f", because of {many(cited, 'example')}" if cited else "")


def _library(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    return Words("Library", detail["id"][:SHORT])


def _release(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    return Words("Release", detail["id"][:SHORT], PurePath(detail["file"]).name)


def _model(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    return Words("Model", detail["name"], f"revision {detail['revision']}" if detail["revision"] else "")


def _manifest(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    trainer, data = detail["trainer"], detail["data"]
    line = [trainer["name"] if trainer else "", f"on {data['name']}" if data else ""]
    return Words(f"Plan: {detail['activity']}", detail["name"], " ".join(filter(None, line)))


def _result(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    failure, curve = detail["failure"], detail["curve"]
    if failure is not None:
        return Words("Result: failed", detail["name"], f"in {failure['stage']}: {failure['message']}", "bad")
    steps = "" if detail["steps"] is None else f"{detail['steps']} steps"
    reward = "" if curve is None else f"reward {curve['first'][1]:.3g} → {curve['late_mean']:.3g}"
    tone: Tone = "good" if detail["status"] == "succeeded" else ""
    return Words(f"Result: {detail['status']}", detail["name"], ", ".join(filter(None, (steps, reward))), tone)


def _eval(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    metrics = detail["metrics"]
    first = metrics[0]
    bounds = "" if first["interval"] is None else " [{:.3g}, {:.3g}]".format(*first["interval"])
    more = f", and {len(metrics) - 1} more" if len(metrics) > 1 else ""
    return Words(
        f"Eval: {detail['benchmark']['name']}", detail["name"], f"{first['name']} {first['value']:.3g}{bounds}{more}"
    )


def _comparison(detail: Mapping[str, Any], inside: Sequence[Node]) -> Words:
    verdicts = {each["verdict"] for each in detail["metrics"]}
    first = detail["metrics"][0]
    bounds = "" if first["interval"] is None else " [{:+.3g}, {:+.3g}]".format(*first["interval"])
    said = verdicts.pop() if len(verdicts) == 1 else "mixed"
    tones: Mapping[str, Tone] = {"better": "good", "worse": "bad"}
    line = f"{first['name']} {first['difference']:+.3g}{bounds}"
    return Words(f"Comparison: {said}", detail["name"], line, tones.get(said, ""))


_FEW: Mapping[str, Callable[[Mapping[str, Any], Sequence[Node]], Words]] = {
    "data": _data,
    "edit": _edit,
    "library": _library,
    "release": _release,
    "model": _model,
    "manifest": _manifest,
    "result": _result,
    "eval": _eval,
    "comparison": _comparison,
}
