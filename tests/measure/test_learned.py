"""Learned measures with tiny encoders of random weights: what is read, remembered, downloaded and refused."""

import importlib.util
import json
import logging
import time
from pathlib import Path

import numpy as np
import pytest
from drawn_edits import photo, view
from hub_parts import running_hub
from tiny_encoders import write_image_encoder, write_text_encoder

from rewardharness.cli.main import main
from rewardharness.errors import InputError, MissingPackageError, ReleaseError, SettingsError
from rewardharness.hub.errors import HubError
from rewardharness.hub.repository import is_commit
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.opening import open_release
from rewardharness.judging.readings import Loaded, measure
from rewardharness.judging.release import make_release
from rewardharness.library.entry import parse_entry
from rewardharness.library.store import Library
from rewardharness.measure import encoders
from rewardharness.measure.encoders import encoder, named_encoder
from rewardharness.measure.images import encode_png
from rewardharness.measure.learned import ROLES, directional_similarity, subject_identity, text_agreement
from rewardharness.measure.table import MEASURES, known_measures
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

pytestmark = pytest.mark.skipif(
    bool(encoders.missing_package()) or importlib.util.find_spec("onnx") is None,
    reason="the extra `learned` or the package onnx is not installed",
)

REQUEST = read_instruction("make the cat blue")
KEEP = read_instruction("keep the image as it is")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RH_LEARNED_TEXT", str(write_text_encoder(tmp_path / "text")))
    monkeypatch.setenv("RH_LEARNED_IMAGE", str(write_image_encoder(tmp_path / "image")))
    return tmp_path


def edit() -> tuple[np.ndarray, np.ndarray]:
    source = photo("chelsea", 240, 160)
    return source, 255 - source


def test_learned_measures_are_known_only_where_an_encoder_is_named(tmp_path, monkeypatch):
    assert {name for name, each in MEASURES.items() if each.learned} == set(ROLES)
    assert not set(ROLES) & set(known_measures()) and known_measures() == tuple(
        name for name, each in MEASURES.items() if each.medium == "image" and name not in ROLES
    )
    monkeypatch.setenv("RH_LEARNED_IMAGE", str(write_image_encoder(tmp_path)))
    assert set(ROLES) & set(known_measures()) == {"subject_identity"}


def test_an_unchanged_image_neither_agrees_better_nor_moves_and_is_the_same_subject(named: Path) -> None:
    source, candidate = edit()
    same, other = view(source, source), view(source, candidate)
    assert text_agreement(same, REQUEST).grade == 0.5 and directional_similarity(same, REQUEST).grade == 0.0
    assert subject_identity(same, REQUEST).grade == pytest.approx(1.0, abs=1e-5)
    agreement = text_agreement(other, REQUEST)
    gain = agreement.quantities["gain"]
    assert gain != 0.0 and (agreement.grade > 0.5) == (gain > 0.0)  # type: ignore[operator]
    assert gain == pytest.approx(agreement.quantities["agreement"] - agreement.quantities["source_agreement"])
    cosine = directional_similarity(other, REQUEST).quantities["cosine"]
    opposite = directional_similarity(view(candidate, source), REQUEST).quantities["cosine"]
    assert cosine == pytest.approx(-opposite, abs=1e-4) and abs(cosine) > 1e-3
    assert subject_identity(other, REQUEST).grade < 0.9  # type: ignore[operator]
    assert text_agreement(other, KEEP).grade is None and directional_similarity(other, KEEP).grade is None


def test_embeddings_are_those_of_the_graph_and_computed_once_in_one_batch(named: Path) -> None:
    import onnx

    model = encoder("text")
    sizes: list[int] = []
    run = model._run
    model._run = lambda graph, given, name: sizes.append(len(next(iter(given.values())))) or run(graph, given, name)  # type: ignore[method-assign,func-returns-value]
    pictures = [np.full((16, 16, 3), value, np.uint8) for value in (0, 90, 255)]
    first = model.images([pictures[0], pictures[1], pictures[0]])
    again = model.images(pictures)
    assert sizes == [2, 1] and np.array_equal(first[0], first[2]) and np.array_equal(first[1], again[1])
    weights = onnx.numpy_helper.to_array(onnx.load(str(named / "text/onnx/vision_model.onnx")).graph.initializer[0])
    expected = np.full((1, weights.shape[0]), -1.0, np.float32) @ weights
    np.testing.assert_allclose(first[0], expected[0] / np.linalg.norm(expected), rtol=1e-4)
    texts = model.texts(["make the cat blue", "make the cat red", "a photo"])
    assert sizes == [2, 1, 3] and all(np.linalg.norm(text) == pytest.approx(1.0) for text in texts)
    assert not np.allclose(texts[0], texts[1])


RUBRIC = """criteria:
  - {id: subject, text: It is the same., weight: 1, scale: [1, 4], dimension: quality, measure: subject_identity}
  - {id: color, text: It has the color., weight: 1, scale: [1, 4], dimension: instruction, measure: color_target}
"""
SKILL = """---
schema_version: 2
name: same-subject
kind: skill
description: The subject is still the same.
metadata:
  triggers: always
---

Look whether it is the same subject.
"""


def library() -> Library:
    return Library((parse_entry(SKILL, name="same-subject", kind="skill", rubric_text=RUBRIC),))


def image(value: np.ndarray) -> ImageInput:
    return ImageInput("image", data=encode_png(np.ascontiguousarray(value)))


def example() -> Example:
    source, candidate = (image(each) for each in edit())
    return Example("e", REQUEST.instruction, source, (candidate, source))


def test_readings_are_cached_per_encoder_and_taken_only_where_they_are_named(named, monkeypatch):
    source, candidate = (Loaded.of(image(each)) for each in edit())
    cache = JudgmentCache(named / "cache")
    assert set(measure(source, candidate, REQUEST, ["sharpness"], cache).readings) == {"sharpness"}
    first = measure(source, candidate, REQUEST, [*ROLES], cache).readings
    assert set(first) == set(ROLES) and all(reading.grade is not None for reading in first.values())
    monkeypatch.setattr(encoders.Encoder, "images", None)
    assert measure(source, candidate, REQUEST, [*ROLES], cache).readings == first
    monkeypatch.undo()
    monkeypatch.setenv("RH_LEARNED_TEXT", str(named / "text"))
    monkeypatch.setenv("RH_LEARNED_IMAGE", str(write_image_encoder(named / "other", seed=1)))
    other = measure(source, candidate, REQUEST, [*ROLES], cache).readings
    assert other["text_agreement"] == first["text_agreement"]
    assert other["subject_identity"] != first["subject_identity"]


def test_a_rubric_with_a_learned_measure_is_judged_and_released_with_its_encoder(named, monkeypatch):
    judged = MeasuredJudge().judge_now(example(), library())
    assert judged.failure is None and "embeddings of source and candidate" in str(judged.steps)
    release = make_release("measured", library())
    open_release(release, Settings.from_env())
    monkeypatch.setenv("RH_LEARNED_IMAGE", str(write_image_encoder(named / "other", seed=1)))
    with pytest.raises(ReleaseError, match="measures"):
        open_release(release, Settings.from_env())
    monkeypatch.delenv("RH_LEARNED_IMAGE")
    failed = MeasuredJudge().judge_now(example(), library())
    assert failed.failure is not None and "RH_LEARNED_IMAGE is not set" in failed.failure.message


def test_the_first_use_downloads_an_encoder_and_says_how_large_it_is(tmp_path, monkeypatch, caplog):
    pytest.importorskip("huggingface_hub")
    folder = write_image_encoder(tmp_path / "image")
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with running_hub(tmp_path, monkeypatch) as hub:
        commit = hub.server.store.create("ann/encoder").put({**files, "modeling.py": b"raise SystemExit"})
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("RH_LEARNED_IMAGE", f"ann/encoder@{commit}")
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        named = named_encoder("image")
        assert named is not None and not named.local()
        with caplog.at_level(logging.WARNING):
            assert subject_identity(view(*edit()), REQUEST).grade is not None
        assert "Downloading the encoder ann/encoder (0 MB); its license is on" in caplog.text
        assert named.local() and not list((tmp_path / "cache").rglob("modeling.py"))
        monkeypatch.setenv("RH_LEARNED_IMAGE", f"ann/encoder@{commit}:quantized")
        with pytest.raises(SettingsError, match=r"has no onnx/model_quantized\.onnx"):
            encoder("image")
        monkeypatch.setenv("RH_LEARNED_IMAGE", f"ann/encoder@{commit}")
    encoders._open.cache_clear()
    assert subject_identity(view(*edit()), REQUEST).grade is not None, "the Hub is not asked again"


def test_an_encoder_that_cannot_be_downloaded_is_not_asked_for_again_at_once(tmp_path, monkeypatch):
    with running_hub(tmp_path, monkeypatch) as hub:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("RH_LEARNED_IMAGE", f"ann/missing@{COMMIT}")
        with pytest.raises(HubError) as first:
            encoder("image")
        asked = len(hub.server.requests)
        with pytest.raises(HubError) as again:
            encoder("image")
        assert again.value is first.value and len(hub.server.requests) == asked > 0
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 61)
        with pytest.raises(HubError):
            encoder("image")
        assert len(hub.server.requests) > asked


@pytest.mark.parametrize("text", ["ann/encoder", "ann/encoder@main", f"encoder@{COMMIT}", f"ann/encoder@{COMMIT}:../x"])
def test_an_encoder_needs_a_complete_commit(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_LEARNED_TEXT", text)
    with pytest.raises(SettingsError, match="names no encoder at a commit"):
        known_measures()


def test_one_word_names_an_encoder_of_texts_and_none_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_LEARNED_TEXT", "default")
    files = encoders.named_encoder("text")
    assert files is not None and is_commit(files.commit) and files.variant == "quantized"
    monkeypatch.setenv("RH_LEARNED_IMAGE", "default")
    with pytest.raises(SettingsError, match="RH_LEARNED_IMAGE='default' names no encoder"):
        encoders.named_encoder("image")


def test_a_missing_package_and_unusable_files_are_clear_errors(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits = view(*edit())
    for name, content in {
        "preprocessor_config.json": '{"size": {"height": 99999, "width": 1}, "image_mean": [0], "image_std": [0]}',
        "onnx/model.onnx": "no graph",
    }.items():
        file = named / "image" / name
        before = file.read_bytes()
        file.write_text(content)
        with pytest.raises(InputError, match="cannot be used"):
            subject_identity(edits, REQUEST)
        file.write_bytes(before)
    (named / "text" / "tokenizer.json").unlink()
    with pytest.raises(SettingsError, match=r"has no tokenizer\.json"):
        text_agreement(edits, REQUEST)
    monkeypatch.setattr(encoders, "PACKAGES", ("no_such_package",))
    with pytest.raises(MissingPackageError, match="learned measures"):
        subject_identity(edits, REQUEST)
    assert not set(ROLES) & set(known_measures())


def test_doctor_says_what_is_named_and_what_is_not(named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (named / "text" / "tokenizer.json").unlink()
    assert main(["doctor", "--json"]) == 1
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert "for subject_identity" in checks["RH_LEARNED_IMAGE"]["detail"]
    assert checks["RH_LEARNED_IMAGE"]["status"] == "ok" and checks["RH_LEARNED_TEXT"]["status"] == "problem"
    assert "has no tokenizer.json" in checks["RH_LEARNED_TEXT"]["detail"]


def test_doctor_downloads_only_if_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RH_LEARNED_IMAGE", f"ann/encoder@{COMMIT}")
    assert main(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["RH_LEARNED_TEXT"]["status"] == checks["RH_LEARNED_IMAGE"]["status"] == "missing"
    assert "rh doctor --download" in checks["RH_LEARNED_IMAGE"]["next_step"]
