"""Comparisons behind the Score tab: inputs and results, the queue, sessions, and what is shared."""

import base64
import io
import json
import re
import threading
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from app_parts import Pictures, make_services
from hostile import HOSTILE, Reader, says
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.library.libraries import FOLDER, HUB, Choice
from app.markup import escape
from app.score import sessions as sessions_module
from app.score import sharing, views
from app.score.comparisons import (
    FIRST_FRAME,
    Comparison,
    ComparisonQueue,
    ComparisonRequest,
    Draft,
    Running,
    scalings,
    sent,
    uploaded,
)
from app.score.judges import BY_MEASURING, ENDPOINT, JudgeChoice
from app.score.page import displayed
from app.score.sessions import SHOWN, Session, Sessions
from app.services import AppServices, is_local
from app.viewer import chain_views
from app.viewer import results as results_module
from app.viewer.results import MARKS, RECORD, REPORT, ResultFiles, address, viewer
from rewardharness.data.folder import read_folder
from rewardharness.errors import HarnessError, InputError
from rewardharness.measure.images import load_picture
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings


@pytest.fixture
def services(tmp_path: Path) -> AppServices:
    return make_services(tmp_path)


def test_the_better_edit_wins_and_can_be_looked_at(services: AppServices, pictures: Pictures) -> None:
    done = services.compare(pictures.draft(), Choice())
    assert done.judgment.preference == "B" and done.library == "the built-in Library"
    assert done.model is None and not chain_views.pictures(done.judgment, "B")
    drawn, label = services.draw(done, "B")
    assert chain_views.pictures(drawn, label) and drawn.scores[label].quality == done.judgment.scores["B"].quality


def test_what_is_missing_is_named(services: AppServices, pictures: Pictures) -> None:
    source, good, bad = str(pictures.source), str(pictures.good), str(pictures.bad)
    for draft, missing in (
        (Draft(None, (good, bad, None), (), "x"), "The source image is missing."),
        (Draft(source, (None, bad, None), (), "x"), "Candidate A is missing."),
        (Draft(source, (good, None, bad), (), "x"), "Candidate B is missing."),
        (Draft(source, (good, bad, None, bad), (), "x"), "Candidate C is missing."),
        (Draft(source, (good, bad), (), "  "), "The instruction is missing."),
    ):
        with pytest.raises(InputError, match=missing) as caught:
            services.compare(draft, Choice())
        assert caught.value.next_step


def test_one_candidate_is_scored_and_each_of_several_has_its_reasons(services: AppServices, pictures: Pictures) -> None:
    alone = services.compare(pictures.draft("bad"), Choice()).judgment
    assert alone.judged and alone.preference is None and alone.critiques["A"].problems
    assert "no comparison" in views.verdict(alone) and sharing.headline(alone) == f"Reward {alone.reward:.2f} of 1"
    smile = services.compare(pictures.draft("good", instruction="Make the woman smile."), Choice()).judgment
    assert not smile.judged and smile.scores["A"].quality is not None
    says(views.verdict(smile), "not measurable", "cannot be measured")
    several = services.compare(pictures.draft("good bad good"), Choice())
    assert set(several.judgment.critiques) == {"A", "B", "C"} and not several.critique
    assert not services.compare(pictures.draft(), Choice()).judgment.critiques


def test_what_browsers_cannot_show_is_shown_as_it_is_judged(pictures: Pictures, tmp_path: Path) -> None:
    first, second = Image.open(pictures.good), Image.open(pictures.bad)
    for name, name_shown in (("moving.gif", f"moving{FIRST_FRAME}"), ("still.tiff", "still.png"), ("still.png", None)):
        path = tmp_path / name
        first.save(path, **({"save_all": True, "append_images": [second]} if name.startswith("moving") else {}))
        seen, picture = Path(displayed(load_picture(ImageInput("x", path)), path)), load_picture(ImageInput("x", path))
        assert seen.name == name_shown if name_shown else seen == path
        assert np.array_equal(load_picture(ImageInput("x", seen)).pixels, picture.pixels)
        assert len(scalings([("Candidate A", seen)])) == name.startswith("moving")


def test_images_of_programs_are_files_or_bytes(pictures: Pictures) -> None:
    data = base64.b64encode(pictures.good.read_bytes()).decode()
    assert sent(None) is None and sent({"path": "/a.png"}) == "/a.png"
    path = sent({"url": f"data:image/png;base64,{data}", "path": None})
    assert path and Path(path).read_bytes() == pictures.good.read_bytes()
    for bad in ({"url": "data:image/png;base64,@", "path": None}, {"path": None}, {}):
        with pytest.raises(InputError, match="cannot be decoded"):
            sent(bad)


def test_a_broken_picture_is_named_as_candidate(services: AppServices, pictures: Pictures, tmp_path: Path) -> None:
    broken = tmp_path / "secret-name.png"
    broken.write_bytes(b"<svg onload=alert(1)>")
    draft = replace(pictures.draft(), candidates=(str(pictures.good), str(broken)))
    judgment = services.compare(draft, Choice()).judgment
    assert judgment.preference is None
    says(views.verdict(judgment), "Candidate B is not a PNG", no=["secret"])


def test_feedback_becomes_an_example_and_the_last_answer_counts(services: AppServices, pictures: Pictures) -> None:
    done = services.compare(pictures.draft(), Choice())
    assert not services.settings.feedback.exists()
    assert services.give_feedback(done, "A").count == 1
    assert services.give_feedback(done, "B").count == 1
    [example] = read_folder(services.settings.feedback).examples
    assert example.preference == "B" and example.instruction == pictures.instruction
    assert example.source.path is not None and example.source.path.read_bytes() == pictures.source.read_bytes()


def test_who_sits_at_this_computer() -> None:
    here, space = Settings.from_env({}), Settings.from_env({"SYSTEM": "spaces"})
    assert is_local(here, "127.0.0.1") and not is_local(here, "0.0.0.0")
    assert not is_local(space, "127.0.0.1")


@pytest.mark.slow
def test_the_samples_give_what_their_makers_meant(services: AppServices) -> None:
    drafts = {
        each.title: Draft(str(each.source), tuple(map(str, each.candidates)), (), each.instruction)
        for each in services.samples()
    }
    winners = {title: services.compare(draft, Choice()).judgment.preference for title, draft in drafts.items()}
    assert winners == {"Blue space suit": "A", "A red balloon": "B", "Brighter picture": "C", "Black and white": "A"}


def test_a_result_is_about_what_was_compared(services: AppServices, pictures: Pictures, tmp_path: Path) -> None:
    draft, good, bad = pictures.draft("good bad"), str(pictures.good), str(pictures.bad)
    asked = (replace(draft, candidates=(good, bad, None, None)), Choice(), BY_MEASURING)
    done = services.compare(*asked)
    assert services.is_current(done, *asked)
    untouched = Choice(folder="/somewhere", spec="not/loaded"), JudgeChoice(url="http://not.chosen")
    assert services.is_current(done, replace(draft, instruction=f" {pictures.instruction} "), *untouched)
    edits = [{"candidates": paths} for paths in ((bad, good), (good, bad, good), (good, None))]
    for changed in (*edits, {"source": None}, {"instruction": ""}):
        assert not services.is_current(done, replace(draft, **changed), *asked[1:])  # type: ignore[arg-type]
    for choice in (Choice(FOLDER, str(tmp_path)), Choice(HUB, "", "not/loaded")):
        assert not services.is_current(done, draft, choice, BY_MEASURING)
    assert not services.is_current(done, draft, Choice(), JudgeChoice(ENDPOINT))


def test_references_belong_to_a_comparison_and_can_be_looked_at(services: AppServices, pictures: Pictures) -> None:
    good, bad = str(pictures.good), str(pictures.bad)
    draft = pictures.draft(instruction="Like image 2.", references=(good, bad, None))
    done = services.compare(draft, Choice())
    assert [image.path for image in done.example.references] == [pictures.good, pictures.bad]
    assert services.is_current(done, draft, Choice(), BY_MEASURING)
    for references in ((), (good, None, None), (bad, good, None)):
        assert not services.is_current(done, replace(draft, references=references), Choice(), BY_MEASURING)
    with pytest.raises(HarnessError, match="Image 2 is missing"):
        services.compare(replace(draft, references=(None, good, None)), Choice())
    services.give_feedback(done, "B")
    [stored] = read_folder(services.settings.feedback).examples
    expected = [pictures.good.read_bytes(), pictures.bad.read_bytes()]
    assert [image.path.read_bytes() for image in stored.references if image.path] == expected


def begin(tmp_path: Path, pictures: Pictures) -> Running:
    return make_services(tmp_path).start(pictures.draft(), Choice())


def taken(queue: ComparisonQueue, who: str) -> ComparisonRequest:
    request = queue.take(who)
    assert request is not None
    return request


def test_a_request_is_taken_once_or_withdrawn() -> None:
    queue = ComparisonQueue()
    assert queue.take("") is None
    queue.ask("")
    queue.ask("")
    taken(queue, "").end()
    assert queue.take("") is None
    queue.ask("")
    assert deepcopy(queue).take("") is None, "each visitor has requests of their own"
    queue.forget()
    assert queue.take("") is None
    queue.replace("one sample")
    queue.replace("another")
    assert queue.take("one sample") is None
    request = taken(queue, "another")
    queue.ask("")  # a key too many
    assert queue.take("") is None and not request.forgotten and not request.replaced


def take_after(queue: ComparisonQueue, trigger: str, before: ComparisonRequest) -> ComparisonRequest:
    """Take the next request, which begins when the one before has ended."""
    found: list[ComparisonRequest | None] = []
    waiting = threading.Thread(target=lambda: found.append(queue.take(trigger)))
    waiting.start()
    while not before.replaced:
        assert waiting.is_alive()
    assert found == []
    before.end()
    waiting.join()
    assert found[0] is not None
    return found[0]


def test_the_next_one_begins_when_the_one_before_has_fallen_silent(tmp_path: Path, pictures: Pictures) -> None:
    queue = ComparisonQueue()
    queue.ask("")
    request = taken(queue, "")
    request.ending = True  # who has read the last word may ask at once
    queue.ask("")
    before = take_after(queue, "", request)
    running = before.begin(begin(tmp_path, pictures))
    queue.replace("another")
    assert running.forgotten and not take_after(queue, "another", before).forgotten


def test_what_is_forgotten_before_its_judge_is_open_comes_to_nothing(tmp_path: Path, pictures: Pictures) -> None:
    queue = ComparisonQueue()
    queue.ask("")
    request = taken(queue, "")
    queue.forget()
    running = request.begin(begin(tmp_path, pictures))
    list(running.follow())
    assert running.result() is None and not request.replaced


def test_stop_reaches_a_comparison_whose_judge_is_still_being_opened(tmp_path: Path, pictures: Pictures) -> None:
    queue = ComparisonQueue()
    queue.ask("")
    request = taken(queue, "")
    queue.stop()
    running = request.begin(begin(tmp_path, pictures))
    assert running._cancel.requested and not running.forgotten


ME, YOU = "0" * 32, "f" * 32


@pytest.fixture
def public(tmp_path: Path) -> AppServices:
    return make_services(tmp_path, local=False)


@pytest.fixture
def kept(public: AppServices, pictures: Pictures) -> Comparison:
    return public.compare(pictures.draft("good bad"), Choice())


def test_a_visit_is_kept_under_its_name_alone(kept: Comparison) -> None:
    sessions = Sessions()
    sessions.draft(ME, Draft(instruction="Make it red."))
    assert [each.comparison for each in sessions.add(ME, kept).past] == [kept]
    assert sessions.of(ME).draft.instruction == "Make it red." and sessions.of(YOU) == Session()
    assert sessions.add("../evil", kept) == Session() == sessions.of("../evil")


def test_the_newest_comes_first_and_the_same_counts_once(kept: Comparison) -> None:
    sessions, other = Sessions(), replace(kept, library="another")
    for each in (kept, other, kept):
        past = sessions.add(ME, each).past
    assert [each.comparison for each in past] == [kept, other]
    for number in range(2 * SHOWN):
        past = sessions.add(ME, replace(kept, library=str(number))).past
    assert len(past) == SHOWN and past[0].comparison.library == str(2 * SHOWN - 1)


def test_comparisons_of_a_session_are_deleted_one_by_one(kept: Comparison) -> None:
    sessions, other = Sessions(), replace(kept, library="another")
    for token, comparison in ((ME, kept), (ME, other), (YOU, kept)):
        sessions.add(token, comparison)
    assert [each.comparison for each in sessions.remove(ME, [other]).past] == [kept]
    assert sessions.remove(ME, [kept]).past == () and len(sessions.of(YOU).past) == 1
    assert views.history_caption(kept, "12:05").startswith("12:05 · A: ")


def test_the_oldest_sessions_go_first(kept: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "MAX_KEPT", 4)
    sessions = Sessions()
    for number in range(4):
        sessions.add(f"{number:032x}", kept)
    assert [len(sessions.of(f"{number:032x}").past) for number in range(4)] == [0, 0, 1, 1]


def test_only_uploads_are_taken(pictures: Pictures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    upload = tmp_path / "uploads" / "a" / "picture.png"
    upload.parent.mkdir(parents=True)
    upload.write_bytes(pictures.good.read_bytes())
    assert uploaded({"path": str(upload)}) == str(upload)
    for path in (str(pictures.good), "/etc/passwd", f"{upload}/../../../../x", str(upload.parent), "", None):
        assert uploaded({"path": path}) is None
    assert uploaded(None) is None


def test_a_removed_upload_is_not_restored(tmp_path: Path, pictures: Pictures) -> None:
    there = Draft(str(pictures.source), (str(pictures.good), None))
    assert there.is_there() and Draft().is_there()
    assert not replace(there, references=(str(tmp_path / "gone.png"),)).is_there()


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    path = tmp_path / "photo.from-600x400.png"
    Image.new("RGB", (205, 137), "red").save(path)
    return path


def test_a_scaled_image_is_named_with_both_sizes(photograph: Path, tmp_path: Path) -> None:
    named = [("The source", photograph), ("Candidate A", None), ("Candidate B", tmp_path / "gone.from-9x9.png")]
    assert scalings(named) == ["The source: scaled from 600x400 to 205x137 before the upload."]


def test_a_name_alone_makes_no_scaling(photograph: Path) -> None:
    for name in ("photo.png", "photo.from-100x67.png", "photo.from-600x600.png", "photo.from-600x400.png.png"):
        other = photograph.with_name(name)
        other.write_bytes(photograph.read_bytes())
        assert scalings([("Candidate A", other)]) == []
    photograph.write_bytes(b"no image")
    assert scalings([("Candidate A", photograph)]) == []


def test_the_record_of_a_comparison_names_scaled_images(photograph: Path, tmp_path: Path, pictures: Pictures) -> None:
    services = make_services(tmp_path)
    draft = Draft(str(photograph), (str(pictures.good), str(photograph)), (), "Make it blue.")
    done = services.compare(draft, Choice())
    notes = [note for note in done.judgment.notes if "before the upload" in note]
    assert [note.partition(":")[0] for note in notes] == ["The source", "Candidate B"]


@pytest.fixture
def shared(tmp_path: Path, pictures: Pictures) -> Comparison:
    return make_services(tmp_path).compare(pictures.draft(references=(str(pictures.good),)), Choice())


def read_page(page: str) -> Reader:
    """Read a page without the elements that have no end."""
    return Reader(re.sub(r'<(meta|img)( [a-z-]+="[^"<>]*")+>', "", page))


def test_the_page_shows_all_images_and_the_result(shared: Comparison) -> None:
    page = sharing.page(shared)
    text = read_page(page).text
    assert page.count("data:image/webp;base64,") == 4
    headline = sharing.headline(shared.judgment)
    for part in ("Image 2", "Candidate B", shared.example.instruction, shared.judgment.judge, headline):
        assert part in text


def test_foreign_text_stays_text(shared: Comparison) -> None:
    example = replace(shared.example, instruction=HOSTILE)
    judgment = replace(shared.judgment, reasons=(HOSTILE,), notes=(HOSTILE,), judge=HOSTILE)
    evil = replace(shared, example=example, judgment=judgment, library=HOSTILE)
    ours = "html head title style body main h1 h2 p strong div figure figcaption table thead tbody tr th td ul li"
    assert set(read_page(sharing.page(evil)).tags) <= set(ours.split())


def test_a_deleted_upload_is_an_error(shared: Comparison, pictures: Pictures) -> None:
    pictures.bad.rename(pictures.bad.with_suffix(".gone"))
    try:
        with pytest.raises(HarnessError):
            sharing.page(shared)
    finally:
        pictures.bad.with_suffix(".gone").rename(pictures.bad)


@pytest.fixture
def result(services: AppServices, pictures: Pictures, tmp_path: Path) -> Comparison:
    source = tmp_path / "source.png"
    source.write_bytes(pictures.source.read_bytes())
    return services.compare(pictures.draft(source=str(source)), Choice())


def client(results: ResultFiles) -> TestClient:
    return TestClient(Starlette(routes=results.routes()))


def test_a_result_is_downloaded_as_a_record_and_a_report(services: AppServices, result: Comparison) -> None:
    page = client(services.results)
    assert page.get(f"/{address(result, RECORD)}").status_code == 404
    services.results.add(result)
    record = page.get(f"/{address(result, RECORD)}")
    assert record.json()["preference"] == "B" and record.json() == json.loads(record.text)
    report = page.get(f"/{address(result, REPORT)}")
    assert "data:image/webp" in report.text and "default-src 'none'" in report.headers["content-security-policy"]
    names = [page.get(f"/{address(result, file)}").headers["content-disposition"] for file in (RECORD, REPORT)]
    assert all(name.startswith("attachment; filename=") for name in names) and len(set(names)) == 2
    others = (address(result, "C.webp"), address(result, "..%2fA.webp"), address(replace(result, name="0"), RECORD))
    for unknown in others:
        assert page.get(f"/{unknown}").status_code == 404


def test_the_viewer_marks_what_each_candidate_changed(services: AppServices, result: Comparison) -> None:
    services.results.add(result)
    page, markup = client(services.results), viewer(result, "B")
    marked = []
    for label in result.example.labels:
        place = address(result, f"{label}.webp")
        assert f'data-marked="{escape(place)}"' in markup
        marked.append(np.asarray(Image.open(io.BytesIO(page.get(f"/{place}").content))))
    assert {each.shape for each in marked} == {(192, 256, 3)} and (marked[0] != marked[1]).any()


def test_a_file_is_drawn_once_and_the_oldest_go_first(
    services: AppServices, result: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "MAX_RESULTS", 2)
    monkeypatch.setattr(results_module, "MAX_FILES", 2)
    others = [replace(result, name=str(number)) for number in range(2)]
    services.results.add(result)
    assert services.results.open(result.name, REPORT) is not None
    (tmp_path / "source.png").unlink()
    page = client(services.results)
    assert page.get(f"/{address(result, REPORT)}").status_code == 200
    gone = page.get(f"/{address(result, f'A{MARKS}')}")
    assert gone.status_code == 410 and "source" in gone.text
    services.results.remove([result])
    assert services.results.open(result.name, RECORD) is None
    for other in others:
        services.results.add(other)
        assert services.results.open(other.name, RECORD) is not None
    assert services.results.open(result.name, REPORT) is None
    assert len(list((tmp_path / "scratch" / "results").iterdir())) == 2
