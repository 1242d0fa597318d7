from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import Pictures

from app import visits as visits_module
from app.comparisons import Comparison
from app.libraries import Choice
from app.services import AppServices
from app.uploaded import uploaded
from app.visits import SHOWN, Draft, Visit, Visits
from rewardharness.errors import InputError
from rewardharness.settings import Settings

ME, YOU = "0" * 32, "f" * 32


@pytest.fixture
def services(tmp_path: Path) -> AppServices:
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home"), "RH_WORKERS": "1"})
    return AppServices(settings, tmp_path / "scratch", local=False)


@pytest.fixture
def done(services: AppServices, pictures: Pictures) -> Comparison:
    paths = (str(pictures.good), str(pictures.bad))
    return services.compare(str(pictures.source), paths, pictures.instruction, Choice())


def test_a_visit_is_kept_under_its_name_alone(done: Comparison) -> None:
    visits = Visits()
    visits.draft(ME, Draft(instruction="Make it red."))
    assert [each.comparison for each in visits.add(ME, done).past] == [done]
    assert visits.of(ME).draft.instruction == "Make it red." and visits.of(YOU) == Visit()
    assert visits.add("../evil", done) == Visit() == visits.of("../evil")


def test_the_newest_comes_first_and_the_same_counts_once(done: Comparison) -> None:
    visits, other = Visits(), replace(done, library="another")
    for each in (done, other, done):
        past = visits.add(ME, each).past
    assert [each.comparison for each in past] == [done, other]
    for number in range(2 * SHOWN):
        past = visits.add(ME, replace(done, library=str(number))).past
    assert len(past) == SHOWN and past[0].comparison.library == str(2 * SHOWN - 1)


def test_the_oldest_visits_go_first(done: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits_module, "MAX_KEPT", 4)
    visits = Visits()
    for number in range(4):
        visits.add(f"{number:032x}", done)
    assert [len(visits.of(f"{number:032x}").past) for number in range(4)] == [0, 0, 1, 1]


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
