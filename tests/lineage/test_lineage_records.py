"""Records of a lineage: written once, tied by hashes, read strictly, whole after `kill -9`."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures_shared import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.codec import from_json, to_json
from rewardharness.errors import HarnessError, InputError
from rewardharness.files import content_id, sha256
from rewardharness.lineage import records
from rewardharness.lineage.records import BenchmarkRef, Evaluation, Manifest, MetricValue, NamedRevision, RewardRef
from rewardharness.lineage.store import Lineage, LineageError, Record, digest_of, read_release

HASH = sha256(b"some Library")
EXPECTED = (records.ExpectedMetric("accuracy", "higher"),)
PLAN = Manifest("training", NamedRevision("base"), reward=RewardRef(library=HASH), expected=EXPECTED)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
leaves = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | words
leaves |= st.floats(allow_nan=False, allow_infinity=False)
configs = st.dictionaries(
    words, st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
)
plans = st.builds(
    Manifest,
    st.sampled_from(["training", "filtering", "best-of-n", "other"]),
    st.builds(NamedRevision, names, words),
    reward=st.none() | st.just(RewardRef(library=HASH)),
    data=st.none() | st.builds(NamedRevision, names, words),
    trainer=st.none() | st.builds(records.Trainer, names, words, configs),
    seeds=st.lists(st.integers(0, 2**31), max_size=3).map(tuple),
    notes=words,
)
several = settings(max_examples=20, deadline=None, suppress_health_check=SHARED)


@pytest.fixture
def lineage(tmp_path: Path) -> Lineage:
    return Lineage(tmp_path / "lineage")


def trained(lineage: Lineage, folder: Path) -> tuple[Record, Record, Path]:
    """A manifest, its result, and the checkpoint that it left."""
    manifest = lineage.record("run-1", PLAN)
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "weights.bin").write_bytes(b"weights")
    artifact = records.Artifact("last", str(checkpoint), *digest_of(checkpoint))
    outcome = records.RunOutcome(manifest.id, "succeeded", artifacts=(artifact,))
    return manifest, lineage.record("run-1", outcome), checkpoint


def measured(result: Record, value: float = 0.5, **more: Any) -> Evaluation:
    metric = MetricValue("accuracy", "higher", value, **more)
    return Evaluation(records.Subject(result=result.id, artifact="last"), BenchmarkRef("bench"), (metric,))


@several
@given(plan=plans, name=names)
def test_what_is_recorded_is_read_back(plan: Manifest, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    lineage = Lineage(tmp_path_factory.mktemp("lineage"))
    try:
        record = lineage.record(name, plan)
    except InputError as error:
        assert "secret" in error.message  # a random key may be a name for one
        return
    assert lineage.read_all() == {record.id: record}
    stored = to_json(record.stored)
    assert record.id == content_id({key: stored[key] for key in ("schema", "kind", "name", "body")})
    assert lineage.record(name, plan) == record, "the same again is the same record"
    with pytest.raises(InputError, match="never changed"):
        lineage.record(name, replace(plan, notes=plan.notes + "."))


@several
@given(data=st.data())
def test_no_byte_of_a_record_changes_unseen(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    lineage = Lineage(tmp_path_factory.mktemp("lineage"))
    record = lineage.record("run-1", PLAN)
    path = lineage.folder / "manifest.run-1.json"
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        assert lineage.read_all() == {record.id: record}, "only where the meaning is the same, as with a space"
    except HarnessError as error:
        assert str(path) in error.message


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda record: record | {"name": "run-2"}, "differs from the file name"),
        (lambda record: record | {"more": 1}, "unknown key more"),
        (lambda record: {key: record[key] for key in record if key != "seal"}, "missing required field `seal`"),
        (lambda record: record | {"schema": 2}, "another version"),
        (lambda record: record | {"created": "2020-01-01T00:00:00Z"}, "seal"),
        (lambda record: sealed(record | {"created": "today"}), "created is not a UTC time"),
        (lambda record: sealed(record | {"body": record["body"] | {"note": "x"}}), "unknown key note"),
        (lambda record: sealed(record | {"body": record["body"] | {"seeds": ["1"]}}), r"seeds\[0\]: expected `int`"),
        (lambda record: sealed(record | {"body": record["body"] | {"notes": "x"}}), "the id is not the hash"),
        (lambda record: [record], "Expected `object`, got `array`"),
    ],
)
def test_a_record_that_was_changed_is_named(lineage: Lineage, change: Any, why: str) -> None:
    lineage.record("run-1", PLAN)
    path = lineage.folder / "manifest.run-1.json"
    path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), "utf-8")
    with pytest.raises(LineageError, match=why) as error:
        lineage.read_all()
    assert str(path) in error.value.message


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """A record as someone would change it who knows of seals."""
    return record | {"seal": content_id({key: value for key, value in record.items() if key != "seal"})}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 1}', "missing required field"),
        ('{"a": NaN}', "not valid JSON"),
        ("[" * 100_000, "not a valid record"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        ("", "not a valid record"),
    ],
)
def test_what_is_no_record_is_named(lineage: Lineage, text: str, why: str) -> None:
    lineage.record("run-1", PLAN)
    (lineage.folder / "manifest.odd.json").write_text(text, "utf-8")
    with pytest.raises(LineageError, match=why):
        lineage.read_all()
    (lineage.folder / "manifest.odd.json").rename(lineage.folder / "dream.run-1.json")  # of a kind that is not known
    with pytest.raises(LineageError, match=r"dream\.run-1\.json"):
        lineage.read_all()


def test_other_files_in_the_folder_are_none_of_its_business(lineage: Lineage) -> None:
    record = lineage.record("run-1", PLAN)
    (lineage.folder / "README.md").write_text("ours", "utf-8")
    (lineage.folder / ".manifest.run-2.json.x.tmp").write_text("{", "utf-8")
    assert list(lineage.read_all()) == [record.id]


def test_references_must_be_there_and_of_the_right_kind(lineage: Lineage, tmp_path: Path) -> None:
    manifest, result, _ = trained(lineage, tmp_path)
    with pytest.raises(LineageError, match="is not in"):
        lineage.record("run-2", records.RunOutcome(HASH, "stopped"))
    with pytest.raises(LineageError, match="is a result, not a manifest"):
        lineage.record("run-2", records.RunOutcome(result.id, "stopped"))
    with pytest.raises(LineageError, match="which its result does not have"):
        lineage.record("e", replace(measured(result), subject=records.Subject(result=result.id, artifact="first")))
    wrong = replace(measured(result), metrics=(MetricValue("accuracy", "lower", 0.5),))
    with pytest.raises(LineageError, match="in its manifest, higher"):
        lineage.record("e", wrong)
    child = lineage.record("run-2", replace(PLAN, parents=(result.id, manifest.id)))
    assert child.id in lineage.read_all()
    (lineage.folder / "result.run-1.json").unlink()
    with pytest.raises(LineageError, match=r"refers to parent .* is not in"):
        lineage.read_all()


def test_a_manifest_has_one_result(lineage: Lineage, tmp_path: Path) -> None:
    manifest, _, _ = trained(lineage, tmp_path)
    with pytest.raises(InputError, match="never changed"):
        lineage.record("run-1", records.RunOutcome(manifest.id, "stopped"))
    with pytest.raises(InputError, match="must have the same name"):
        lineage.record("another", records.RunOutcome(manifest.id, "stopped"))


def test_an_artifact_that_has_changed_since_is_not_measured(lineage: Lineage, tmp_path: Path) -> None:
    _, result, checkpoint = trained(lineage, tmp_path)
    lineage.record("before", measured(result))
    (checkpoint / "weights.bin").write_bytes(b"others")
    with pytest.raises(LineageError, match="has changed since it was recorded"):
        lineage.record("after", measured(result))
    (checkpoint / "weights.bin").unlink()
    checkpoint.rmdir()
    lineage.record("elsewhere", measured(result))  # it may have been measured on another machine


def test_a_release_that_has_changed_since_is_an_error(lineage: Lineage, tmp_path: Path) -> None:
    file = tmp_path / "release.json"
    file.write_text(json.dumps({"id": "r1", "library": {"id": HASH}, "more": 1}), "utf-8")
    release = read_release(file)
    assert (release.id, release.library) == ("r1", HASH)
    manifest = lineage.record("run-1", replace(PLAN, reward=RewardRef(release=release)))
    file.write_text(json.dumps({"id": "r1", "library": {"id": HASH}, "more": 2}), "utf-8")
    with pytest.raises(LineageError, match=r"release\.json has changed"):
        lineage.record("run-1", records.RunOutcome(manifest.id, "stopped"))
    for text in ("[]", "{}", '{"id": 3}', '{"id": "r", "library": {"id": "short"}}', "no"):
        file.write_text(text, "utf-8")
        with pytest.raises(InputError, match=r"not (a reward release|valid JSON)"):
            read_release(file)


@pytest.mark.parametrize(
    "config",
    [
        {"hub_token": "abc"},
        {"env": [{"WANDB_API_KEY": "abc"}]},
        {"apiKey": 12345},
        {"password": ["a"]},
        {"note": "use hf_abcdefghijklmnopqrstuvwxyz1234"},
        {"url": "https://me:pass1@host/v1"},
        {"sk-abcdefghijklmnopqrstuvwx1": 1},
    ],
)
def test_secrets_are_refused_and_not_repeated(lineage: Lineage, config: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="would store a secret") as error:
        lineage.record("run-1", replace(PLAN, trainer=records.Trainer("t", config=config)))
    assert not lineage.folder.exists() or not list(lineage.folder.iterdir())
    for secret in ("abc", "12345", "pass1", "hf_", "sk-"):
        assert secret not in error.value.message


def test_what_only_stands_for_a_secret_is_none(lineage: Lineage) -> None:
    config = {"hub_token": None, "api_key": "${KEY}", "token": "<image>", "password": "", "pad_token": "<|end|>"}
    config |= {"max_tokens": 3, "use_auth_token": True, "api_key_env": "LLM_API_KEY", "tokenizer": "x"}
    recorded = lineage.record("run-1", replace(PLAN, trainer=records.Trainer("t", config=config)))
    assert recorded.body.trainer.config == config


@pytest.mark.parametrize("name", ["", ".", "../x", "a/b", "a b", "-a", "a" * 101, "é", "a\n"])
def test_a_name_stays_in_the_folder(lineage: Lineage, name: str) -> None:
    with pytest.raises(InputError, match="is not a valid record name"):
        lineage.record(name, PLAN)


@pytest.mark.parametrize(
    "make",
    [
        lambda: records.RunOutcome(HASH, "failed"),
        lambda: records.RunOutcome(HASH, "succeeded", records.RunFailure("training", "x")),
        lambda: records.RunFailure("training", " "),
        lambda: RewardRef(),
        lambda: records.Subject(),
        lambda: records.Subject(result=HASH),
        lambda: MetricValue("m", "higher", 1.0, n=3, judged=4),
        lambda: MetricValue("m", "higher", 1.0, interval=(0.0, 0.5)),
        lambda: Evaluation(records.Subject(library=HASH), BenchmarkRef("b"), ()),
        lambda: replace(PLAN, parents=(HASH, HASH)),
        lambda: replace(PLAN, parents=("short",)),
    ],
)
def test_values_that_say_nothing_or_contradict_themselves_are_refused(make: Any) -> None:
    with pytest.raises(InputError):
        value = make()
        from_json(type(value), to_json(value))


def test_items_are_kept_and_must_make_up_the_metric(lineage: Lineage, tmp_path: Path) -> None:
    _, result, _ = trained(lineage, tmp_path)
    items = {"accuracy": {"a": 1.0, "b": 0.0}}
    record = lineage.record("e", measured(result, judged=2), items)
    assert isinstance(record.body, Evaluation) and lineage.items(record.body) == items
    for body, values, why in (
        (measured(result, 0.6), items, "the mean of its items"),
        (measured(result, judged=3), items, "3 judged examples, but 2 items"),
        (measured(result), {"other": {"a": 1.0}}, "not a metric of this eval"),
    ):
        with pytest.raises(InputError, match=why):
            lineage.record("f", body, values)
    [file] = (lineage.folder / "items").iterdir()
    file.write_text('{"accuracy": {"a": 1.0, "b": 1.0}}', "utf-8")
    with pytest.raises(LineageError, match="was changed"):
        lineage.items(record.body)


def test_a_record_is_found_by_what_people_call_it(lineage: Lineage, tmp_path: Path) -> None:
    manifest, result, _ = trained(lineage, tmp_path)
    assert lineage.find("run-1", "result") == result
    assert lineage.find("manifest.run-1") == lineage.find(manifest.id[:8]) == manifest
    with pytest.raises(LineageError, match="ambiguous") as error:
        lineage.find("run-1")
    assert "manifest.run-1, result.run-1" in error.value.next_step or "result.run-1" in error.value.next_step
    with pytest.raises(LineageError, match="There is no eval 'nobody'"):
        lineage.find("nobody", "eval")


def test_of_many_writers_of_one_name_one_wins(lineage: Lineage) -> None:
    ready = threading.Barrier(8)

    def write(number: int) -> str:
        ready.wait()
        try:
            return lineage.record("run-1", replace(PLAN, notes=f"writer {number}")).id
        except InputError:
            return ""

    with ThreadPoolExecutor(8) as pool:
        written = sorted(pool.map(write, range(8)))
    assert written[:7] == [""] * 7 and list(lineage.read_all()) == written[7:]


WRITER = """
import sys
from pathlib import Path
from rewardharness.lineage.records import Manifest, NamedRevision
from rewardharness.lineage.store import Lineage
lineage = Lineage(Path(sys.argv[1]))
for number in range(10**6):
    record = lineage.record(f"{sys.argv[2]}-{number}", Manifest("training", NamedRevision("base"), notes="x" * 2000))
    print(record.id, flush=True)
"""


@pytest.mark.slow
def test_what_was_acknowledged_survives_kill_9_and_nothing_is_torn(lineage: Lineage) -> None:
    acknowledged: list[str] = []
    for round_ in range(3):
        command = [sys.executable, "-c", WRITER, str(lineage.folder), f"round-{round_}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged += [process.stdout.readline().strip() for _ in range(5 + 3 * round_)]
            os.kill(process.pid, signal.SIGKILL)
    known = lineage.read_all()
    assert "" not in acknowledged and set(acknowledged) <= known.keys()
    assert lineage.record("after", PLAN).id in lineage.read_all()


def test_a_folder_is_hashed_by_paths_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    (folder / "deep" / "b").write_bytes(b"22")
    first, size = digest_of(folder)
    assert size == 3
    (folder / "deep" / "b").rename(folder / "b")
    assert digest_of(folder)[0] != first
    for odd in (tmp_path / "nothing", folder / "deep"):
        with pytest.raises(InputError, match="does not exist or contains no files"):
            digest_of(odd)
    (folder / "deep" / "up").symlink_to(tmp_path)
    with pytest.raises(InputError, match="neither a file nor a folder"):
        digest_of(folder)
