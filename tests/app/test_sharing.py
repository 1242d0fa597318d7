import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import Pictures, make_services
from hostile import HOSTILE, Reader
from PIL import Image

from app.library.libraries import Choice
from app.score import sharing
from app.score.comparisons import Comparison
from rewardharness.errors import HarnessError


@pytest.fixture
def done(tmp_path: Path, pictures: Pictures) -> Comparison:
    return make_services(tmp_path).compare(pictures.draft(references=(str(pictures.good),)), Choice())


def read_page(page: str) -> Reader:
    """Read a page without the elements that have no end."""
    return Reader(re.sub(r'<(meta|img)( [a-z-]+="[^"<>]*")+>', "", page))


def test_the_page_shows_all_images_and_the_result(done: Comparison) -> None:
    page = sharing.page(done)
    text = read_page(page).text
    assert page.count("data:image/webp;base64,") == 4
    for part in (
        "Image 2",
        "Candidate B",
        done.example.instruction,
        done.judgment.judge,
        sharing.headline(done.judgment),
    ):
        assert part in text


def test_foreign_text_stays_text(done: Comparison) -> None:
    example = replace(done.example, instruction=HOSTILE)
    judgment = replace(done.judgment, reasons=(HOSTILE,), notes=(HOSTILE,), judge=HOSTILE)
    evil = replace(done, example=example, judgment=judgment, library=HOSTILE)
    ours = "html head title style body h1 h2 p strong div figure figcaption table thead tbody tr th td ul li"
    assert set(read_page(sharing.page(evil)).tags) <= set(ours.split())
    assert sharing.picture(evil).startswith(b"\x89PNG")


def test_the_picture_frames_the_preferred_edit(done: Comparison) -> None:
    chosen = replace(done, judgment=replace(done.judgment, preference="A"))
    images = [Image.open(io.BytesIO(sharing.picture(each))) for each in (done, chosen)]
    assert {image.width for image in images} == {sharing.WIDTH} and images[0].tobytes() != images[1].tobytes()
    colors = dict((color, count) for count, color in images[1].getcolors(1 << 24) or [])
    assert colors[(15, 118, 110)] > 1000


def test_a_script_that_the_font_lacks_is_left_out(done: Comparison) -> None:
    chinese = replace(done, example=replace(done.example, instruction="\u8ba9\u6c7d\u8f66\u53d8\u7ea2"))
    assert (
        Image.open(io.BytesIO(sharing.picture(chinese))).height < Image.open(io.BytesIO(sharing.picture(done))).height
    )
    assert "\u8ba9\u6c7d\u8f66\u53d8\u7ea2" in sharing.page(chinese)


def test_a_deleted_upload_is_an_error(done: Comparison, pictures: Pictures) -> None:
    pictures.bad.rename(pictures.bad.with_suffix(".gone"))
    try:
        with pytest.raises(HarnessError):
            sharing.page(done)
    finally:
        pictures.bad.with_suffix(".gone").rename(pictures.bad)
