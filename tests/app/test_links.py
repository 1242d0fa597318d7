"""Kept links: what is stored, for how long, who deletes it, and how much of it there is."""

import os
import time
from pathlib import Path

import pytest
from app_parts import Pictures, make_services
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.library.libraries import Choice
from app.markup import escape
from app.score import links as links_module
from app.score.comparisons import Comparison
from app.score.links import ABOUT, KeptLinks
from app.services import AppServices
from rewardharness.errors import HarnessError
from rewardharness.measure.images import load_picture
from rewardharness.schema import ImageInput

ME, YOU = "0" * 32, "f" * 32


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> AppServices:
    return make_services(tmp_path_factory.mktemp("links"), local=False)


@pytest.fixture(scope="module")
def comparison(public: AppServices, pictures: Pictures) -> Comparison:
    return public.compare(
        pictures.draft("bad good", instruction="Make the red square blue. </h1><script>x</script>"), Choice()
    )


def keep(services: AppServices, comparison: Comparison, links: KeptLinks, maker: str = ME, address: str = "a") -> str:
    return links.keep(comparison, services.results, maker, address).rpartition("/")[2]


@pytest.fixture
def links(tmp_path: Path) -> KeptLinks:
    return KeptLinks(tmp_path / "kept", 30, local=False)


def test_the_page_runs_its_own_script_alone(public: AppServices, comparison: Comparison, links: KeptLinks) -> None:
    name = keep(public, comparison, links)
    client = TestClient(Starlette(routes=links.routes()))
    page = client.get(f"/comparison/{name}")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy and "frame-ancestors *" in policy
    assert page.text.count("<script>") == 1 and "People would most likely prefer B." in page.text
    for file in ("source.png", "a.png", "b.png", "a.webp", "b.webp"):
        place = f"{name}/{file}"
        assert f'"{escape(place)}"' in page.text and client.get(f"/comparison/{place}").status_code == 200
    for path in (ABOUT, "page.html", "..%2fabout.json", "c.png"):
        assert client.get(f"/comparison/{name}/{path}").status_code == 404
    for other in (YOU, name[:-1], "..%2f..%2fnote", ".."):
        assert client.get(f"/comparison/{other}").status_code == 404
    draft = links.draft(name)
    assert draft is not None and draft.instruction == comparison.example.instruction
    kept = [load_picture(ImageInput("x", Path(path))).pixels for path in (draft.source, *draft.candidates) if path]
    for pixels, image in zip(kept, comparison.example.images, strict=True):
        assert (pixels == load_picture(image).pixels).all()


def test_only_its_maker_deletes_a_link(public: AppServices, comparison: Comparison, links: KeptLinks) -> None:
    name, nobody = keep(public, comparison, links), keep(public, comparison, links, maker="")
    for link, secret in ((name, YOU), (name, ""), (nobody, ""), (nobody, ME), (YOU, ME), ("../kept", ME)):
        with pytest.raises(HarnessError, match="gone, or was kept in another browser"):
            links.delete(link, secret)
    links.delete(name, ME)
    assert links.draft(name) is None and links.find(nobody) is not None


def test_links_of_visitors_are_few_small_and_expire(
    public: AppServices, comparison: Comparison, links: KeptLinks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(links_module, "MAX_OWN", 2)
    monkeypatch.setattr(links_module, "MAX_LINKS", 3)
    made = []
    for age, address in enumerate("aaab"):  # the third of one address takes the place of its first
        made.append(keep(public, comparison, links, address=address))
        os.utime(tmp_path / "kept" / made[-1] / ABOUT, (time.time() - 100 + age,) * 2)
    assert [links.find(name) is not None for name in made] == [False, True, True, True]
    made.append(keep(public, comparison, links, address="c"))  # at the limit of all, who has most loses the oldest
    assert [links.find(name) is not None for name in made] == [False, False, True, True, True]
    os.utime(tmp_path / "kept" / made[2] / ABOUT, (time.time() - 31 * 86_400,) * 2)
    assert links.find(made[2]) is None and not (tmp_path / "kept" / made[2]).exists()
    monkeypatch.setattr(links_module, "MAX_SIZE", 1000)
    with pytest.raises(HarnessError, match="the maximum of a link"):
        keep(public, comparison, links)
    with pytest.raises(HarnessError, match="No links are kept here"):
        keep(public, comparison, KeptLinks(tmp_path, 0, local=False))
    own = KeptLinks(tmp_path / "own", 0, local=True)
    assert own.find(keep(public, comparison, own)) is not None, "on one's own computer there are no limits"
