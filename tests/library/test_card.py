import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from library_samples import write_sample

from rewardharness.errors import LibraryError
from rewardharness.library import card as cards
from rewardharness.library.card import CardSubject, Facts, hand_written_text, make_card, make_chart, make_config
from rewardharness.library.card_parts import foreign, read_card
from rewardharness.library.entry import Entry
from rewardharness.library.new import export_skills
from rewardharness.library.store import EMPTY, AddEntry, Library, RemoveEntry
from rewardharness.schema import Accuracy, Interval

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)> ![p](https://evil.example/a.png) [l](javascript:alert(1)) "
    '"><svg onload=alert(2)> $$x$$ <https://evil.example/b> https://evil.example/c www.evil.example me@evil.example '
    "| a | `b` | {{spec}} <!-- rh:end entries --> &#x3c;b&#x3e; \\<i\\> [^1] [[x]] ~~y~~ *z* _w_ \u202egpj.exe\u200b"
)


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library.load(write_sample(tmp_path / "sample"))


def facts_about(library: Library, **other: object) -> Facts:
    facts = Facts(
        library_id=library.id,
        judge="vllm:some/model",
        protocol="pairs, both orders",
        data="org/data, audit",
        label_kind="human",
        accuracy=Accuracy(40, 38, 30.5),
        interval=Interval(0.66, 0.9),
        without=Accuracy(40, 40, 28),
        without_interval=Interval(0.55, 0.83),
        dataset="org/data",
        model="some/model",
    )
    return replace(facts, **other)  # type: ignore[arg-type]


def rendered(card: str) -> str:
    """The card as HTML, with everything switched on that a reader may have."""
    from markdown_it import MarkdownIt

    body = read_card(card).parts
    markdown = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return str(markdown.render("".join(text for _, text in body)))


def test_without_facts_the_card_says_that_nothing_was_measured(library: Library) -> None:
    card = make_card(CardSubject(library, "ann/library", "0.1.0"))
    header = yaml.safe_load(card.split("---")[1])
    assert header["library_name"] == "rewardharness"
    assert header["tags"] == ["rewardharness", "rh-library", "image-editing", "reward-model"]
    assert not re.search(r"accuracy|model-index|base_model|license|\{\{", card)
    links = [f"[`{entry.name}`]({entry.path})" for entry in library.entries]
    words = ("Not evaluated", library.id, 'open_library("ann/library@v0.1.0")', *links)
    assert [word for word in words if word not in card] == []


def test_facts_are_given_with_n_interval_protocol_and_the_judge_without_the_library(library: Library) -> None:
    card = make_card(CardSubject(library, "ann/library", "0.1.0", facts=(facts_about(library),)))
    assert "pairs, both orders | 0.803 (0.660 to 0.900 at 95%), 38 of 40 judged | 0.700 (0.550 to 0.830 at 95%)" in card
    assert f"without {'█' * 28}{'░' * 12} 0.700" in card and f"with    {'█' * 32}{'░' * 8} 0.803" in card
    hub = pytest.importorskip("huggingface_hub")
    data = hub.ModelCard(card).data
    assert (data.base_model, data.datasets, data.pipeline_tag) == (["some/model"], ["org/data"], "image-text-to-text")
    (result,) = data.eval_results
    assert (result.dataset_type, result.metric_type, result.metric_value) == ("org/data", "accuracy", 0.8026)
    assert result.metric_args["n"] == 40
    unknown = facts_about(library, without=None, accuracy=Accuracy(3, 0, 0), model="x y", dataset="", judge="<b>")
    card = make_card(CardSubject(library, "ann/library", facts=(unknown,)))
    assert "none of 3 judged" in card and "not measured" in card
    assert not re.search("█|model-index|base_model", card)
    with pytest.raises(LibraryError, match="The evaluated Library is"):
        make_card(CardSubject(EMPTY, "ann/library", facts=(facts_about(library),)))


def test_what_people_wrote_survives(library: Library) -> None:
    about = CardSubject(library, "ann/library", "0.1.0")
    mine = "---\nlicense: mit\ntags: [mine, rh-library]\nx: [1, {y: no}]\n---\n\n# My words\n\n<b>bold</b> {{x}}\n"
    card = make_card(about, mine)
    header = read_card(card).header
    assert (header["license"], header["x"]) == ("mit", [1, {"y": "no"}])
    assert header["tags"] == ["rewardharness", "rh-library", "image-editing", "reward-model", "mine"]
    assert "# My words\n\n<b>bold</b> {{x}}\n" in card
    assert make_card(about, card) == card
    card = card.replace("<!-- rh:begin results -->", "Between.\n\n<!-- rh:begin results -->") + "\nAfter.\n"
    newer = make_card(replace(about, version="0.2.0"), card.replace("\n", "\r\n"))
    assert "Between.\n\n<!-- rh:begin results -->" in newer and newer.endswith("\nAfter.\n")
    assert "Version **0.2.0**" in newer and "0.1.0" not in newer
    assert hand_written_text(newer) == hand_written_text(card)
    assert hand_written_text(card) != hand_written_text(card + "more")
    assert hand_written_text(make_card(about)) == hand_written_text(make_card(replace(about, version="9.9.9")))


def test_results_of_an_earlier_library_do_not_stay_in_the_header(library: Library) -> None:
    about = CardSubject(library, "ann/library", "0.1.0", facts=(facts_about(library),))
    foreign_results = "---\nmodel-index:\n- name: by hand\n  results: []\n---\n"
    card = make_card(about, foreign_results)
    names = [each["name"] for each in read_card(card).header["model-index"]]
    assert names == ["by hand", f"library (Library {library.id[:12]})"]
    smaller = library.apply(RemoveEntry("text-edits"))
    newer = make_card(CardSubject(smaller, "ann/library", "0.2.0"), card)
    assert [each["name"] for each in read_card(newer).header["model-index"]] == ["by hand"]


@pytest.mark.parametrize(
    ("card", "word"),
    [
        ("<!-- rh:begin summary -->\nx", "has no end"),
        ("<!-- rh:end summary -->\nx", "no matching marker"),
        ("<!-- rh:begin a -->\n<!-- rh:begin b -->\n", "no matching marker"),
        ("<!-- rh:begin a -->\n<!-- rh:end a -->\n" * 2, "occurs twice"),
        ("---\na: b\n", "no closing line"),
        ("---\na: *b\n---\n", "anchor or alias"),
        ("---\n- a\n---\n", "not a mapping"),
    ],
)
def test_cards_that_cannot_be_read_are_said(library: Library, card: str, word: str) -> None:
    with pytest.raises(LibraryError, match=word) as caught:
        make_card(CardSubject(library, "ann/library"), card)
    assert "README.md" in caught.value.message
    assert caught.value.next_step


def test_nothing_foreign_becomes_markup(library: Library) -> None:
    entry = Entry("hostile", "skill", HOSTILE, HOSTILE, {"triggers": "/<b>|\\[x\\]\\(https:..evil\\)/"})
    lineage: dict[str, object] = dict.fromkeys(("operator", "reason", "judge", "data", "budget"), HOSTILE)
    lineage |= {"entries": [HOSTILE], "evidence": {"n": 3, "before": 0.5, "after": 0.75}}
    grown = replace(library.apply(AddEntry(entry)), meta={"id": HOSTILE, "license": HOSTILE})
    grown = grown.with_lineage(lineage).with_lineage({**lineage, "accepted": False}).with_lineage(lineage)
    worded = facts_about(grown, judge=HOSTILE, protocol=HOSTILE, data=HOSTILE, label_kind=HOSTILE, dataset=HOSTILE)
    before = grown.apply(RemoveEntry("hostile")).apply(AddEntry(replace(entry, description="x", body="y")))
    about = CardSubject(grown, "ann/library", "0.2.0", previous=("v0.1.0", before), facts=(worded,))
    card = make_card(about)
    plain = make_card(CardSubject(library, "ann/library", "0.2.0"))
    assert list(read_card(card).blocks) == list(read_card(plain).blocks)
    assert yaml.safe_load(card.split("\n---\n")[0].removeprefix("---\n")).keys() >= {"tags", "model-index"}
    html = rendered(card)
    tags = set(re.findall(r"<([a-zA-Z][a-zA-Z0-9]*)", html))
    assert tags <= set("h1 h2 p strong code pre table thead tbody tr th td a ul li img".split())
    assert set(re.findall(r'src="([^"]*)"', html)) == {"evolution.svg"}
    assert set(re.findall(r'href="([^"]*)"', html)) == {each.path for each in grown.entries}
    body = card.split("\n---\n", 1)[1]
    assert not re.search(r"(?i)://|www\.|\w@(?!v0)\w|\u202e|\u200b", body)
    assert "evil.example" in html  # told, and harmless
    assert make_card(about, card) == card


@settings(max_examples=50)
@given(st.text(max_size=200))
def test_foreign_text_stays_one_harmless_cell(text: str) -> None:
    shown = foreign(text)
    assert not re.search(r"[\n\r<>|`*_\[\]\\~$@{}\x00-\x1f\u202e]", re.sub(r"&#\d+;", "", shown))
    assert "://" not in shown
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark").enable("table").render(f"| a |\n| --- |\n| x {shown} |\n")
    assert html.count("<t") == 7  # table, thead, tr, th, tbody, tr, td
    assert not re.search(r"<(?!/?(?:table|thead|tbody|tr|th|td)>)", html)


def test_what_changed_since_the_last_version_is_told(library: Library) -> None:
    after = library.apply(RemoveEntry("text-edits")).apply(AddEntry(Entry("hats", "skill", "For hats.", "Look.")))
    card = make_card(CardSubject(after, "ann/library", "0.2.0", previous=("v0.1.0", library)))
    changes = "Changes since v0.1.0:\n\n- Added the skill `hats`: For hats.\n- Removed the skill `text-edits`"
    assert changes in read_card(card).blocks["changes"]
    same = make_card(CardSubject(library, "ann/library", "0.2.0", previous=("v0.1.0", library)))
    assert "No entry has changed since v0.1.0." in same


def test_the_evolution_is_told_and_drawn_from_the_lineage(library: Library) -> None:
    grown = library
    for number, (after, accepted) in enumerate([(0.6, True), (0.5, False), (0.7, True), (0.75, True)]):
        evidence = {"n": 40, "before": 0.5, "after": after}
        record = {"operator": "add", "entries": ["hats"], "reason": f"Why {number}.", "accepted": accepted}
        grown = grown.with_lineage({**record, "evidence": evidence, "judge": "some judge", "budget": "800 calls"})
    block = read_card(make_card(CardSubject(grown, "ann/library"))).blocks["evolution"]
    assert "4 of 5 recorded edits were accepted." in block
    assert "- budget: 800 calls\n- judge: some judge" in block
    assert "| 3 | rejected | add | hats | Why 1. | 0.500 to 0.500 (n = 40) |" in block
    chart = ElementTree.fromstring(make_chart(grown) or "")
    assert len(chart.findall("{http://www.w3.org/2000/svg}circle")) == 3 and "](evolution.svg)" in block
    assert make_chart(library) is None
    assert "The lineage is empty" in make_card(CardSubject(EMPTY, "ann/library"))
    strange = [{"evidence": 1}, {"evidence": {"n": -1, "after": 2}}, {"entries": 3, "operator": []}, {"accepted": "no"}]
    for record in [*strange, {"evidence": {"n": True, "after": float(10**300), "before": "x"}}]:
        grown = grown.with_lineage(record)
    assert "9 of 10 recorded edits were accepted." in make_card(CardSubject(grown, "ann/library"))


def test_results_on_the_data_of_the_evolution_are_said_to_be(library: Library) -> None:
    facts = (facts_about(library, evolved_on=True), facts_about(library, data="org/other"))
    about = CardSubject(library, "ann/library", facts=facts)
    card = make_card(about)
    caution = "Where marked, the Library was evolved on the same data, so expect lower accuracy"
    assert caution in read_card(card).blocks["results"]
    assert card.count("**evolved on it**") == 1 and "| org/other | " in card
    results = yaml.safe_load(card.split("---")[1])["model-index"][0]["results"]
    assert [each["metrics"][0]["args"].get("evolved_on_these_data") for each in results] == [True, None]
    assert cards.read_config(make_config(about)).facts == facts
    told = [each.keys() for each in json.loads(make_config(about))["evaluation"]]
    assert ["evolved_on" in each for each in told] == [True, False], "what is not so is written as before"
    plain = make_card(CardSubject(library, "ann/library", facts=facts[1:]))
    assert "evolved on" not in read_card(plain).blocks["results"]


def test_config_goes_there_and_back_and_foreign_ones_are_read_with_care(library: Library) -> None:
    facts = (facts_about(library), facts_about(library, without=None))
    about = CardSubject(library, "ann/library", "0.1.0", facts=facts)
    config = cards.read_config(make_config(about))
    assert (config.library_id, config.version, config.facts) == (library.id, "0.1.0", about.facts)
    assert cards.known_facts(config, library) == about.facts
    assert cards.known_facts(config, EMPTY) == ()
    value = json.loads(make_config(about))
    assert (value["skills"], value["tools"]) == (1, 2)
    damages: list[tuple[str, object]] = [
        ("judge", 1),
        ("accuracy", []),
        ("accuracy", {"n": 1, "judged": 2, "correct": 0}),
        ("interval", {"low": 1, "high": 0, "level": 0.95}),
        ("interval", {"low": "0", "high": 1, "level": 0.95}),
        ("interval", {"low": 0, "high": 10**400, "level": 0.95}),
        ("accuracy", {"n": 1, "judged": 1, "correct": 10**400}),
        ("data", "x" * 2000),
    ]
    for key, wrong in damages:
        broken = {**value, "evaluation": [{**value["evaluation"][0], key: wrong}, 3, None]}
        assert cards.read_config(json.dumps(broken)).facts == ()
    for text in ("", "[]", "[" * 100_000, '{"library_id": "x", "version": 3, "evaluation": {}}', "NaN"):
        assert cards.read_config(text).library_id == ""


def test_cards_of_very_large_libraries_stay_readable() -> None:
    entries = tuple(Entry(f"skill-{number}", "skill", "x" * 1000, "y") for number in range(400))
    card = make_card(CardSubject(Library(entries), "ann/library", "1.0.0", previous=("v0.1.0", EMPTY)))
    assert "200 more entries" in card
    assert len(card) < 300_000


def test_skills_are_exported_with_standard_keys_alone(library: Library, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    (written,) = export_skills(library, folder)
    text = written.read_text("utf-8")
    assert written == folder / "text-edits" / "SKILL.md"
    front = yaml.safe_load(text.split("---\n")[1])
    assert set(front) == {"name", "description", "metadata"} and front["name"] == "text-edits"
    assert all(isinstance(value, str) for value in front["metadata"].values())
    assert "- **spelling** (67%): Every letter is right." in text and "Look at each letter." in text
    assert export_skills(library, folder) == (written,)
    (folder / "text-edits" / "SKILL.md").write_text("---\nname: text-edits\ndescription: theirs\n---\nx", "utf-8")
    with pytest.raises(LibraryError, match="contains another Skill"):
        export_skills(library, folder)
    old = Library((Entry("Old_Name", "skill", "x", "y"), Entry("old-name", "skill", "x", "y")))
    with pytest.raises(LibraryError, match="Two Skills would be named"):
        export_skills(old, tmp_path / "other")
    assert export_skills(Library(old.entries[:1]), tmp_path / "other")[0].parent.name == "old-name"
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "text-edits").symlink_to(tmp_path / "agent")
    with pytest.raises(LibraryError, match="link"):
        export_skills(library, tmp_path / "linked")
