import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_parts import Pictures, make_services
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.library.libraries import Choice
from app.score.comparisons import Comparison
from app.services import AppServices
from app.viewer import results as results_module
from app.viewer.results import PICTURE, RECORD, REPORT, ResultFiles, address, viewer


@pytest.fixture
def services(tmp_path: Path) -> AppServices:
    return make_services(tmp_path)


@pytest.fixture
def done(services: AppServices, pictures: Pictures, tmp_path: Path) -> Comparison:
    source = tmp_path / "source.png"
    source.write_bytes(pictures.source.read_bytes())
    return services.compare(pictures.draft(source=str(source)), Choice())


def client(results: ResultFiles) -> TestClient:
    return TestClient(Starlette(routes=results.routes()))


def test_a_result_is_downloaded_as_a_record_a_report_and_a_picture(services: AppServices, done: Comparison) -> None:
    page = client(services.results)
    assert page.get(f"/{address(done, RECORD)}").status_code == 404
    services.results.add(done)
    record = page.get(f"/{address(done, RECORD)}")
    assert record.json()["preference"] == "B" and record.json() == json.loads(record.text)
    report = page.get(f"/{address(done, REPORT)}")
    assert "data:image/webp" in report.text and "default-src 'none'" in report.headers["content-security-policy"]
    assert Image.open(io.BytesIO(page.get(f"/{address(done, PICTURE)}").content)).width == 1200
    names = [page.get(f"/{address(done, file)}").headers["content-disposition"] for file in (RECORD, REPORT, PICTURE)]
    assert all(name.startswith("attachment; filename=") for name in names) and len(set(names)) == 3
    for unknown in (address(done, "C.webp"), address(done, "..%2fA.webp"), address(replace(done, name="0"), RECORD)):
        assert page.get(f"/{unknown}").status_code == 404


def test_the_viewer_marks_what_each_candidate_changed(services: AppServices, done: Comparison) -> None:
    services.results.add(done)
    page, markup = client(services.results), viewer(done, "B")
    marked = []
    for label in done.example.labels:
        place = address(done, f"{label}.webp")
        assert f'data-marked="{place}"' in markup
        marked.append(np.asarray(Image.open(io.BytesIO(page.get(f"/{place}").content))))
    assert {each.shape for each in marked} == {(192, 256, 3)} and (marked[0] != marked[1]).any()


def test_a_file_is_drawn_once_and_the_oldest_go_first(
    services: AppServices, done: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "MAX_RESULTS", 2)
    monkeypatch.setattr(results_module, "MAX_FILES", 2)
    others = [replace(done, name=str(number)) for number in range(2)]
    services.results.add(done)
    assert services.results.open(done.name, REPORT) is not None
    (tmp_path / "source.png").unlink()
    page = client(services.results)
    assert page.get(f"/{address(done, REPORT)}").status_code == 200
    gone = page.get(f"/{address(done, PICTURE)}")
    assert gone.status_code == 410 and "source" in gone.text
    for other in others:
        services.results.add(other)
        assert services.results.open(other.name, RECORD) is not None
    assert services.results.open(done.name, REPORT) is None
    assert len(list((tmp_path / "scratch" / "results").iterdir())) == 2
