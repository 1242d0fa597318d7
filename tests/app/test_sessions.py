from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import Pictures, make_services

from app.library.libraries import Choice
from app.score import sessions as sessions_module
from app.score.comparisons import Comparison, uploaded
from app.score.sessions import SHOWN, Draft, Session, Sessions
from app.services import AppServices
from rewardharness.errors import InputError

ME, YOU = "0" * 32, "f" * 32


@pytest.fixture
def services(tmp_path: Path) -> AppServices:
    return make_services(tmp_path, local=False)


@pytest.fixture
def done(services: AppServices, pictures: Pictures) -> Comparison:
    return services.compare(pictures.draft("good bad"), Choice())


def test_a_visit_is_kept_under_its_name_alone(done: Comparison) -> None:
    sessions = Sessions()
    sessions.draft(ME, Draft(instruction="Make it red."))
    assert [each.comparison for each in sessions.add(ME, done).past] == [done]
    assert sessions.of(ME).draft.instruction == "Make it red." and sessions.of(YOU) == Session()
    assert sessions.add("../evil", done) == Session() == sessions.of("../evil")


def test_the_newest_comes_first_and_the_same_counts_once(done: Comparison) -> None:
    sessions, other = Sessions(), replace(done, library="another")
    for each in (done, other, done):
        past = sessions.add(ME, each).past
    assert [each.comparison for each in past] == [done, other]
    for number in range(2 * SHOWN):
        past = sessions.add(ME, replace(done, library=str(number))).past
    assert len(past) == SHOWN and past[0].comparison.library == str(2 * SHOWN - 1)


def test_the_oldest_sessions_go_first(done: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_KEPT", 4)
    sessions = Sessions()
    for number in range(4):
        sessions.add(f"{number:032x}", done)
    assert [len(sessions.of(f"{number:032x}").past) for number in range(4)] == [0, 0, 1, 1]


def test_only_uploads_are_taken_from_the_page(
    pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    upload = tmp_path / "uploads" / "a" / "picture.png"
    upload.parent.mkdir(parents=True)
    upload.write_bytes(pictures.good.read_bytes())
    assert uploaded({"path": str(upload)}) == str(upload)
    for path in (str(pictures.good), "/etc/passwd", f"{upload}/../../../../x", str(upload.parent), "", None):
        assert uploaded({"path": path}) is None
    assert uploaded(None) is None


def test_a_public_app_keeps_no_pages(services: AppServices, done: Comparison) -> None:
    with pytest.raises(InputError, match="own computer"):
        services.keep(done)


def test_a_removed_upload_is_not_restored(tmp_path: Path, pictures: Pictures) -> None:
    there = Draft(str(pictures.source), (str(pictures.good), None))
    assert there.is_there() and Draft().is_there()
    assert not replace(there, references=(str(tmp_path / "gone.png"),)).is_there()
