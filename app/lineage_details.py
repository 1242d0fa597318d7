"""Says all that is known of single things of a lineage: records, releases, edits. Pure: nodes in, markup out.

Records, lines of `lineage.jsonl` and names are foreign text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from app.lineage_words import texts, words
from app.markup import bullets, callout, escape, hashed, named, paragraph, preformatted, table, whole
from rewardharness.library.evolved import read_steps
from rewardharness.runs.graph import Node

LISTED = 60
"""Examples, edits and lines that are listed, at most."""


def details(node: Node, inside: Sequence[Node] = ()) -> str:
    """Say all that is known of a thing, as markup. Arguments as in `words`."""
    return _ALL[node.kind](node.detail, inside) if node.kind in _ALL else paragraph(node.label)


def metric_rows(metrics: Sequence[Mapping[str, Any]]) -> str:
    """A table of metrics: value, interval, what it is about, and which way it is better."""
    rows = [
        [
            f'{escape(each["name"])} <span class="faint">{_better(each["direction"])}</span>',
            f"{each['value']:.4g}",
            interval(each["interval"]),
            counted(each["judged"], each["n"]),
        ]
        for each in metrics
    ]
    return table(["Metric", "Value", "95 % interval", "Judged"], rows, "cards metrics")


def differences(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Differences between two evals, each with its verdict and how it was taken."""
    shown = ""
    for each in metrics:
        before, after = each["coverage"]
        known = before is not None and after is not None
        rows = [
            ("Values", f"{each['base']:.4g} → {each['new']:.4g}"),
            ("Difference", f"{each['difference']:+.4g}"),
            ("95 % interval", interval(each["interval"], signed=True)),
            ("Taken", escape(METHODS.get(each["method"], each["method"]).format(n=each["n"]))),
            ("Judged of all", f"{before:.1%} and {after:.1%}" if known else "not known"),
        ]
        name = f'{escape(each["name"])} <span class="faint">{_better(each["direction"])}</span>'
        shown += f"<h4>{name}: {escape(each['verdict'])}</h4>{_facts(rows)}"
    return shown


METHODS: Mapping[str, str] = {
    "paired items": "in pairs, over {n} common examples",
    "two intervals": "from two intervals, as if independent",
    "two values": "from two values alone, which proves nothing",
}
"""How a difference is taken."""


def interval(found: Sequence[float] | None, *, signed: bool = False) -> str:
    """An interval in words."""
    if found is None:
        return "not known"
    low, high = (f"{each:+.4g}" if signed else f"{each:.4g}" for each in found)
    return f"{low} to {high}"


def counted(judged: int | None, n: int | None) -> str:
    """How many examples a metric is about."""
    if judged is None:
        return f"{n} asked, judged not known" if n is not None else "not known"
    return f"{judged}" if n is None else f"{judged} of {n}"


def _better(direction: str) -> str:
    return f"{escape(direction)} is better"


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    """Facts with markup, those without any left out."""
    shown = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in rows if value)
    return f'<dl class="facts">{shown}</dl>'


def _listed(names: Sequence[str]) -> str:
    """Names in a line, with how many there are beyond those shown."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(f"<code>{escape(name)}</code>" for name in names[:LISTED]) + more


def _data_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    names = [str(each.detail.get("id", "")) for each in inside]
    told = "" if detail["name"] else paragraph("A Library's own lineage names examples, not the data that hold them.")
    rows = [("Name", escape(detail["name"])), ("Revision", _revision(detail["revision"]))]
    return told + _facts([*rows, (f"Examples cited ({len(names)})", _listed(names))])


def _revision(text: str) -> str:
    return hashed(text) if len(text) == 64 else escape(text)


def _edit_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    if inside:
        folded = [
            [escape(few.title), escape(few.line), _id(each.detail.get("parent")), _id(each.detail.get("library"))]
            for each in inside[:LISTED]
            for few in [words(each)]
        ]
        more = paragraph(f"And {len(inside) - LISTED} more.", "faint") if len(inside) > LISTED else ""
        return table(["Edit", "What it did", "From Library", "To Library"], folded, "cards folded") + more
    [step] = read_steps([detail])
    evidence = detail.get("evidence")
    evidence = evidence if isinstance(evidence, dict) else {}
    agreement = ""
    if step.before is not None and step.after is not None:
        on = f" on {step.n} examples that edits were chosen on" if step.n is not None else ""
        agreement = f"{step.before:.1%} → {step.after:.1%}{on}"
    source = detail.get("source")
    rows = [
        ("What", escape(f"{step.operator} {', '.join(step.entries)}".strip())),
        ("Statement", named(detail["statement"]) if isinstance(detail.get("statement"), str) else ""),
        ("Because of", _listed(texts(detail.get("cited")))),
        ("Evidence", escape(str(evidence["reason"])) if isinstance(evidence.get("reason"), str) else ""),
        ("Fixed", _listed(texts(evidence.get("fixed")))),
        ("Broke", _listed(texts(evidence.get("broken")))),
        ("Agreement", agreement),
        *((name.capitalize(), escape(text)) for name, text in step.setting.items()),
        ("Proposed by", escape(source) if isinstance(source, str) else ""),
        ("From Library", _id(detail.get("parent"))),
        ("To Library", _id(detail.get("library"))),
    ]
    return _facts(rows) + _added(detail.get("added"))


def _id(value: Any) -> str:
    return hashed(value) if isinstance(value, str) else ""


def _added(added: Any) -> str:
    """The lines that an edit brought into a Library."""
    if not isinstance(added, dict):
        return ""
    lines = [f"{name}: {line}" for name, own in added.items() for line in texts(own)]
    return f"<h4>Lines that it brought</h4>{preformatted(_first_lines(lines), 'wrap')}" if lines else ""


def _library_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    return _facts([("Id", whole(detail["id"]))])


def _release_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    rows = [
        ("Id", whole(detail["id"])),
        ("File", f"<code>{escape(detail['file'])}</code>"),
        ("SHA-256 of the file", hashed(detail["sha256"])),
        ("Library", _id(detail["library"])),
    ]
    return _facts(rows)


def _model_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    return _facts([("Name", escape(detail["name"])), ("Revision", escape(detail["revision"] or "not known"))])


def _manifest_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    trainer, data, reward, model = detail["trainer"], detail["data"], detail["reward"], detail["base_model"]
    release = reward["release"] if reward else None
    library = (release or reward)["library"] if reward else None
    expected = [
        f"{escape(each['name'])}: {_better(each['direction'])}"
        + (f", target {each['target']:.4g}" if each["target"] is not None else "")
        for each in detail["expected"]
    ]
    rows = [
        ("Planned", escape(detail["activity"])),
        ("Base model", escape("@".join(filter(None, (model["name"], model["revision"]))))),
        ("Reward", f"release {hashed(release['id'])}" if release else "" if reward else "none"),
        ("Library", _id(library)),
        ("Data", escape(" ".join(filter(None, (data["name"], data["revision"])))) if data else ""),
        ("Trainer", escape(" ".join(filter(None, (trainer["name"], trainer["version"])))) if trainer else ""),
        ("Seeds", escape(", ".join(map(str, detail["seeds"])))),
        ("Will be looked at", bullets(expected)),
        *_common(detail),
    ]
    config = trainer["config"] if trainer else {}
    return _facts(rows) + (f"<h4>Configuration</h4>{_json(config)}" if config else "")


def _json(value: Any) -> str:
    return preformatted(_first_lines(json.dumps(value, indent=2, ensure_ascii=False).split("\n")), "wrap")


def _first_lines(lines: Sequence[str]) -> str:
    more = [f"… {len(lines) - LISTED} more lines"] if len(lines) > LISTED else []
    return "\n".join([*lines[:LISTED], *more])


def _common(detail: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What every record has."""
    return [
        ("Notes", escape(detail["notes"]) if detail.get("notes") else ""),
        ("Recorded", escape(detail["created"])),
        ("Record", hashed(detail["record"])),
    ]


def _result_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    failure, curve = detail["failure"], detail["curve"]
    told = ""
    if failure is not None:
        told = callout("error", f"Failed in the stage {failure['stage']}", paragraph(failure["message"]))
    seconds = detail["wall_seconds"]
    rows = [
        ("Ended", escape(detail["status"])),
        ("Steps", "not known" if detail["steps"] is None else f"{detail['steps']:,}"),
        ("Took", "not known" if seconds is None else f"{seconds:,.0f} s"),
        ("Reward", _curve(curve) if curve is not None else "no curve was recorded"),
        *_common(detail),
    ]
    artifacts = [
        [
            escape(each["name"]),
            f"<code>{escape(each['location'])}</code>",
            _id(each["sha256"]) or "not hashed",
            "not known" if each["bytes"] is None else f"{each['bytes']:,}",
        ]
        for each in detail["artifacts"]
    ]
    left = table(["Artifact", "Where", "SHA-256", "Bytes"], artifacts, "cards artifacts") if artifacts else ""
    return told + _facts(rows) + left


def _curve(curve: Mapping[str, Any]) -> str:
    def at(name: str) -> str:
        step, reward = curve[name]
        return f"{reward:.4g} at step {step:,}"

    return (
        f"{at('first')} at first, {at('last')} at last, {curve['late_mean']:.4g} over the last tenth; lowest "
        f"{at('lowest')}, highest {at('highest')}; {curve['points']:,} points, {curve['missing']:,} without a reward"
    )


def _eval_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    about = detail["benchmark"]
    source = detail["source"]
    rows = [
        ("Benchmark", escape("/".join(filter(None, (about["name"], about["task"]))))),
        ("Revision of its data", escape(about["revision"])),
        ("Protocol", escape(detail["protocol"] or "not said")),
        ("Measured by", escape(detail["judge"] or "not said")),
        ("Read from", f"<code>{escape(source['file'])}</code>" if source else ""),
        ("Example by example", "kept" if detail["items"] else "not kept: it can be compared by its intervals alone"),
        *_common(detail),
    ]
    return metric_rows(detail["metrics"]) + _facts(rows)


def _comparison_details(detail: Mapping[str, Any], inside: Sequence[Node]) -> str:
    return differences(detail["metrics"]) + missing(detail) + _facts(_common(detail))


def missing(found: Mapping[str, Any]) -> str:
    """What only one of two evals has, and whether different judges measured."""
    told = [
        f"Only the {name} eval has: {', '.join(found[key])}."
        for name, key in (("base", "only_base"), ("new", "only_new"))
        if found[key]
    ]
    told += ["Different judges measured: a difference may be theirs."] if found["different_judges"] else []
    return "".join(paragraph(each) for each in told)


_ALL: Mapping[str, Callable[[Mapping[str, Any], Sequence[Node]], str]] = {
    "data": _data_details,
    "edit": _edit_details,
    "library": _library_details,
    "release": _release_details,
    "model": _model_details,
    "manifest": _manifest_details,
    "result": _result_details,
    "eval": _eval_details,
    "comparison": _comparison_details,
}
