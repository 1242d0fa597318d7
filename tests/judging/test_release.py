"""A release's file: the same again when read, and refused when anything of it was changed."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fixtures_shared import SHARED
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st
from release_parts import measured_release, model_release, small_library

from rewardharness.codec import ValidationError
from rewardharness.errors import DataError, InputError, ReleaseError
from rewardharness.files import content_id
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig
from rewardharness.judging.release import Release, make_release
from rewardharness.judging.release_card import Figure, read_report
from rewardharness.judging.release_file import load_release, release_text
from rewardharness.library.entry import parse_entry
from rewardharness.library.store import EMPTY, Library

RELEASES = (measured_release, model_release)


def text_of(document: dict[str, Any]) -> str:
    """A document in the form of a release's file."""
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def rehashed(document: dict[str, Any]) -> dict[str, Any]:
    """A document whose hashes fit again, as a forger would make it."""
    parts = {name: content_id(document[name]) for name in ("judge", "settings", "code", "library")}
    return {**document, "parts": parts, "id": content_id(parts), "card_id": content_id(document["card"])}


def load_text(folder: Path, text: str | bytes, **more: str) -> Release:
    path = folder / "release.json"
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return load_release(path, **more)


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every field of a document, however deep."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(each, (*path, key))


def test_the_card_keeps_which_data_the_library_was_evolved_on_and_the_id_does_not(tmp_path: Path) -> None:
    digest, plain = "0f" * 32, small_library()
    garbage = ({"data_digest": "x" * 64}, {"data_digest": [digest]}, {"data_digest": "1a" * 32, "accepted": False})
    for line in garbage:
        plain = plain.with_lineage({"operator": "add", **line})
    evolved = plain.with_lineage({"operator": "add", "data_digest": digest})
    known, unknown = make_release("measured", evolved), make_release("measured", plain)
    assert known.id == unknown.id and known.evolved_on == {digest} and not unknown.evolved_on
    assert release_text(unknown) == release_text(make_release("measured", small_library())), "as it was before"
    again = load_text(tmp_path, release_text(known), id=known.id)
    assert again.evolved_on == {digest} and not again.library.lineage
    for wrong in ([digest, "x"], digest, [3], None):
        document = known.to_json()
        forged = rehashed({**document, "card": {**document["card"], "evolved_on": wrong}})
        with pytest.raises(ReleaseError, match="evolved_on"):
            load_text(tmp_path, text_of(forged))


def changed(document: Any, path: tuple[str | int, ...], change: Callable[[Any], Any]) -> Any:
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = change(holder[path[-1]])
    return copy


@pytest.mark.parametrize("make", RELEASES)
def test_a_change_of_any_byte_is_found(make: Callable[[], Release], tmp_path: Path) -> None:
    data = release_text(make()).encode("utf-8")
    others = [data[:cut] for cut in (0, 1, len(data) // 2, len(data) - 1)]
    others += [data + more for more in (b"\n", b" ", b"{}", b"\0")]
    for place in range(0, len(data), max(1, len(data) // 120)):
        others.append(data[:place] + bytes([data[place] ^ 1 << (place % 7)]) + data[place + 1 :])
    for other in others:
        with pytest.raises(ReleaseError):
            load_text(tmp_path, other)


@pytest.mark.parametrize("make", RELEASES)
def test_a_change_of_any_field_is_found_and_named(make: Callable[[], Release], tmp_path: Path) -> None:
    document = make().to_json()
    for path in places(document):
        for change in (lambda _: None, lambda old: [old]):
            other = changed(document, path, change)
            if other == document:
                continue
            with pytest.raises(ReleaseError) as caught:
                load_text(tmp_path, text_of(other))
            names = {"card_id": "`card`", "format": "format", "parts": "differ"}
            wanted = names.get(path[0], f"`{path[0]}`")
            assert wanted in caught.value.message or "`parts`" in caught.value.message, (path, caught.value.message)
            assert caught.value.next_step


def test_the_entry_that_was_changed_is_named(tmp_path: Path) -> None:
    document = measured_release().to_json()
    path = ("library", "entries", "seeing-red", "files", "SKILL.md")
    softer = changed(document, path, lambda text: text.replace("Look whether", "Do not look whether"))
    with pytest.raises(ReleaseError, match="its entry `seeing-red`"):
        load_text(tmp_path, text_of(softer))
    with pytest.raises(ReleaseError, match="'seeing-red' under an id that is not its own"):
        load_text(tmp_path, text_of(rehashed(softer)))


def test_an_unknown_field_is_refused_also_where_the_hashes_fit(tmp_path: Path) -> None:
    document = model_release().to_json()
    holders = [(), *(path for path in places(document) if _is_object(document, path))]
    free = {("code",), ("card", "made_with"), ("library", "entries")}  # named freely; what they hold is checked
    for path in holders:
        if path in free:
            continue
        add = changed({"x": document}, ("x", *path), lambda old: {**old, "base_url": "http://elsewhere"})["x"]
        with pytest.raises(ReleaseError):
            load_text(tmp_path, text_of(add))
        with pytest.raises(ReleaseError, match=r"base_url|files of"):
            load_text(tmp_path, text_of(rehashed(add)) if path != ("parts",) else text_of(add))


def _is_object(document: Any, path: tuple[str | int, ...]) -> bool:
    for key in path:
        document = document[key]
    return isinstance(document, dict)


@pytest.mark.parametrize("make", RELEASES)
def test_a_value_of_another_kind_is_refused_also_where_the_hashes_fit(
    make: Callable[[], Release], tmp_path: Path
) -> None:
    document = make().to_json()
    for path, value in product(places(document), ({"a": [1]}, -1, True, "\x00")):
        if path[0] in ("parts", "id", "card_id"):
            continue
        other = rehashed(changed(document, path, lambda _, value=value: value))
        with suppress(ReleaseError):
            forged = load_text(tmp_path, text_of(other))
            if other == document:
                continue
            assert release_text(forged) == text_of(other)
            assert forged.id != document["id"] or path[0] == "card", "another content has another id"
            assert forged.model is None or isinstance(forged.model, ModelJudgeConfig)


def test_a_forged_release_is_told_by_its_id(tmp_path: Path) -> None:
    release = model_release()
    forged = rehashed(changed(release.to_json(), ("settings", "ties"), lambda _: True))
    assert load_text(tmp_path, text_of(forged)).id != release.id
    with pytest.raises(ReleaseError, match="is release"):
        load_text(tmp_path, text_of(forged), id=release.id)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        *((text, "not JSON") for text in ("", '{"format": NaN}', "[" * 100_000, b"\xff\xfe")),
        *((text, "not a release") for text in ("[]", "{}")),
        ('{"format": 2}', "format 2"),
        ('{"format": true}', "format True"),
        ('{"format": 1, "id": "x"}', "not a whole release"),
    ],
)
def test_what_is_no_release_is_said_to_be_none(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(ReleaseError, match=says):
        load_text(tmp_path, text)
    with pytest.raises(DataError, match="cannot be read"):
        load_release(tmp_path / "nowhere.json")


def test_doubled_fields_and_other_spacing_are_found(tmp_path: Path) -> None:
    release = measured_release()
    text = release_text(release)
    changes = {'"ties": false': '"ties": true,\n  "ties": false', "—": "\\u2014", "\n": "\r\n"}
    for other in (json.dumps(release.to_json(), sort_keys=True), *(text.replace(*each) for each in changes.items())):
        assert other != text
        with pytest.raises(ReleaseError, match="rewritten"):
            load_text(tmp_path, other)


@hypothesis(max_examples=30, deadline=None, suppress_health_check=SHARED)
@given(
    settings=st.builds(
        ModelJudgeConfig,
        protocol=st.sampled_from(PROTOCOLS),
        one_order=st.booleans(),
        samples=st.integers(1, 9),
        ties=st.booleans(),
        groups=st.sampled_from(("pairs", "all")),
        tool_calls=st.integers(0, 9),
        max_tokens=st.integers(1, 9999),
        temperature=st.floats(0, 2) | st.just(0),
        sample_temperature=st.floats(0, 2),
        max_pixels=st.none() | st.integers(784, 10**8),
        deadline=st.none() | st.floats(1, 100),
        consistency=st.none() | st.floats(0, 1),
        principles=st.sampled_from(((), ("instruction 3: The box is red.", "Sharp."))),
    ),
    body=st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=60),
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@/-]{0,40}", fullmatch=True),
    revision=st.none() | st.from_regex(r"[A-Za-z0-9ä][A-Za-z0-9 ._@-]{0,20}", fullmatch=True),
)
def test_any_release_comes_back_as_it_was(
    tmp_path: Path, settings: ModelJudgeConfig, body: str, name: str, revision: str | None
) -> None:
    release = make_release(f"openai:{name}", small_library(body), settings, model_revision=revision)
    again = load_text(tmp_path, release_text(release))
    assert again == release and again.id == release.id
    assert again.model == replace(settings, deadline=ModelJudgeConfig().deadline)


def test_everything_that_changes_a_score_changes_the_id() -> None:
    base = model_release()
    others = [
        model_release("vllm:judge2"),
        model_release("openai:judge"),
        measured_release(),
        make_release("vllm:judge", small_library("\nMore.")),
        make_release("vllm:judge", small_library(), model_revision="abc"),
        make_release("vllm:judge", small_library(), router="vllm:router"),
        make_release("measured", small_library(), ModelJudgeConfig(ties=True)),
        replace(base, code={**base.code, "judging": "0" * 64}),
        replace(base, code={**base.code, "prompt judge": "0" * 64}),
    ]
    other = {"protocol": "direct", "one_order": True, "ties": True, "groups": "all", "max_pixels": 784}
    other |= {
        "consistency": 0.0,
        "prompt_language": "zh",
        "temperature": 0.5,
        "sample_temperature": 0.5,
        "principles": ("Red.",),
    }
    for name in {each.name for each in fields(ModelJudgeConfig)} - {"deadline"}:
        value = other[name] if name in other else getattr(ModelJudgeConfig(), name) + 1
        others.append(model_release(**{name: value}))
    assert len({base.id, *(each.id for each in others)}) == 1 + len(others)
    assert model_release(deadline=3.0).id == base.id
    assert replace(base, card={"made_with": {}, "evaluation": []}).id == base.id


def test_no_place_and_no_secret_gets_into_a_release() -> None:
    spec = "vllm:judge@https://tester:s3cret-pass@gpu-17.internal:8443/v1?key=tok3n,http://10.1.2.3/v1"
    text = release_text(make_release(spec, small_library(), router="openai:router@http://router.internal:9/v1"))
    for secret in ("tester", "s3cret", "gpu-17", "internal", "8443", "tok3n", "10.1.2.3", "sk-", "http", "/v1"):
        assert secret not in text
    assert '"name": "vllm:judge"' in text and '"router": "openai:router"' in text and str(Path.home()) not in text
    assert "/folder/" not in release_text(make_release("scripted:/folder/replies.jsonl", EMPTY))


@pytest.mark.parametrize(
    "spec",
    [
        *("vllm:/data/models/judge@http://h/v1", "vllm:~/judge", "vllm:./judge", "openai:C:\\models\\judge"),
        *("vllm:http://h/v1", "vllm:", "vllm:@http://h/v1", "openai:a\nb", "gemini:" + "x" * 300),
        *("random", "file:scores.jsonl", "nonsense:x", ""),
    ],
)
def test_what_cannot_be_pinned_is_refused(spec: str) -> None:
    with pytest.raises(InputError) as caught:
        make_release(spec, EMPTY)
    assert caught.value.next_step and "//" not in caught.value.message
    with pytest.raises(InputError):
        make_release("measured", EMPTY, model_revision="https://tester:pass@host/weights")


def test_a_library_with_a_key_in_it_is_not_released() -> None:
    text = "---\nschema_version: 2\nname: leaky\nkind: skill\ndescription: x\n---\n\nUse hf_" + "aB3" * 12 + "\n"
    library = Library((parse_entry(text, name="leaky", kind="skill"),))
    with pytest.raises(ReleaseError, match=r"leaky/SKILL\.md, line 8, holds what looks like a Hugging Face token"):
        make_release("measured", library)


def folder_report(release: Release) -> dict[str, Any]:
    counts = {"n": 40, "judged": 38, "accuracy": 0.75, "interval": [0.59, 0.86]}
    groups = {"n": 10, "judged": 10, "best_accuracy": 0.4, "interval": [0.17, 0.69]}
    judged = {"judge": release.judged_by, "judge_revision": release.revision, "protocol": release.protocol}
    judged |= {"library_id": release.library.id, "results": "/home/somebody/results.jsonl"}
    return {"n": 50, "by_label_kind": {"people": counts}, "groups": groups, **judged}


def evolution_report(release: Release) -> dict[str, Any]:
    score = {"n": 30, "judged": 30, "accuracy": 0.6, "interval": [0.42, 0.75]}
    run = {"judge": release.judged_by, "judge_revision": release.revision, "protocol": release.protocol}
    library = {"start_id": "0" * 64, "final_id": release.library.id}
    return {"schema": 1, "run": run, "library": library, "audit": {"n": 30, "final": score, "start": score}}


def benchmark_report(release: Release) -> dict[str, Any]:
    number = {"part": "all", "dimension": "", "metric": "exact", "name": "found", "value": 0.7, "interval": [0.6, 0.8]}
    number |= {"n": 90, "judged": 80, "basis": "judged"}
    others = [{"metric": "tuned", "value": 0.9}, {"metric": "spearman", "value": 0.3}, {"value": None}]
    others = [{"metric": "forced", "basis": "all", "interval": None, "dimension": "quality"}, *others]
    row = {"role": "judge", "name": release.judged_by, "revision": release.revision, "protocols": [release.protocol]}
    row |= {"library_id": release.library.id, "numbers": [number, *({**number, **other} for other in others)]}
    baseline = {**row, "role": "baseline", "name": "random (baseline)"}
    return {"task": {"name": "t", "title": "Task"}, "protocol": "pairs", "rows": [baseline, row]}


def write(folder: Path, value: Any) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize("make", RELEASES)
def test_a_card_shows_figures_with_n_interval_coverage_and_protocol(
    make: Callable[[], Release], tmp_path: Path
) -> None:
    plain = make()
    reports = (folder_report(plain), evolution_report(plain), benchmark_report(plain))
    figures = [figure for report in reports for figure in read_report(write(tmp_path, report))]
    release = make_release(plain.judge, plain.library, evaluation=figures)
    assert release.id == plain.id, "no score hangs on the card"
    again = load_text(tmp_path, release_text(release))
    assert again.figures == tuple(figures)
    first = again.figures[0]
    assert (first.n, first.judged, first.coverage, first.accuracy) == (40, 38, 0.95, 0.75)
    assert (first.interval, first.protocol) == ((0.59, 0.86), plain.protocol)
    assert [each.n for each in again.figures] == [40, 10, 30, 90, 90]
    assert [each.name for each in again.figures[3:]] == [
        "Task, all: found (pairs)",
        "Task, all, quality: found (pairs; what was not judged counts as wrong)",
    ]
    assert "somebody" not in release_text(release)


@pytest.mark.parametrize("what", ["judge", "judge_revision", "protocol", "library_id"])
def test_figures_of_something_else_are_refused(what: str, tmp_path: Path) -> None:
    release = measured_release()
    report = {**folder_report(release), what: "another"}
    with pytest.raises(ReleaseError, match="is of another"):
        make_release("measured", release.library, evaluation=read_report(write(tmp_path, report)))


@pytest.mark.parametrize(
    "report",
    [
        *({}, [], 7, {"audit": {}}, {"rows": []}, {"by_label_kind": {}}),
        {"rows": [{"role": "judge", "protocols": ["a", "b"]}]},
        {"by_label_kind": {"x": {"n": "many"}}, "groups": {"n": 0}},
    ],
)
def test_what_is_no_report_is_refused(report: Any, tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="not a report with figures"):
        read_report(write(tmp_path, report))


def test_figures_of_a_benchmark_are_of_the_judge_without_ties(tmp_path: Path) -> None:
    release = model_release(ties=True)
    without = model_release().revision
    report = benchmark_report(release)
    report["rows"][1]["revision"] = without
    figures = read_report(write(tmp_path, report))
    assert make_release("vllm:judge", release.library, ModelJudgeConfig(ties=True), evaluation=figures).id == release.id
    with pytest.raises(ReleaseError, match="another protocol"):
        make_release("vllm:judge", release.library, evaluation=figures)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"coverage": 1.0}, "coverage"),
        ({"n": 4, "judged": 5, "coverage": 1.25}, "x"),
        ({"n": 1, "judged": 1, "coverage": 1.0, "accuracy": 1.5}, "x"),
        ({"interval": [0.9, 0.1]}, "x"),
    ],
)
def test_figures_come_back_from_json(change: dict[str, object], says: str) -> None:
    figure = Figure("x", 0, 0, None, None, "judge", "protocol", "library", "revision")
    assert Figure.from_json(json.loads(json.dumps(figure.to_json()))) == figure
    with pytest.raises(ValidationError, match=says):
        Figure.from_json({**figure.to_json(), **change})
