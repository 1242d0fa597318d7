import asyncio
from pathlib import Path

import pytest

from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.llm_router import LLMRouter
from rewardharness.judging.router import route
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.models.base import ChatRequest, ModelError, TextPart
from rewardharness.models.scripted import ScriptedModel
from rewardharness.prompts import in_language


def make(*entries: Entry) -> Library:
    library = EMPTY
    for entry in entries:
        library = library.apply(AddEntry(entry))
    return library


HATS = Entry("hats", "skill", "Judging hats.", "Look at hats.", metadata={"triggers": "hat, /\\bcaps?\\b/"})
ALWAYS = Entry("basics", "skill", "Basics.", "Look.", metadata={"triggers": "always"})
SILENT = Entry("text-rendering", "skill", "Guidelines for text, spelling and lettering added to images.", "Read.")


def names(library: Library, instruction: str) -> list[str]:
    return [entry.name for entry in route(library, instruction).entries]


def test_triggers_and_wording_decide_with_a_reason() -> None:
    library = make(HATS, ALWAYS, SILENT)
    assert names(library, "put a Hat on the dog") == ["basics", "hats"]
    assert names(library, "fix the spelling of the text") == ["basics", "text-rendering"]
    reasons = {each.name: each.reason for each in route(library, "two hats").reasons}
    assert reasons == {"basics": "always", "hats": "the instruction says 'hats'"}


def test_an_entry_is_decided_on_its_own() -> None:
    for instruction in ("add a hat", "remove the text", "make it red"):
        alone = set(names(make(HATS), instruction)) | set(names(make(SILENT), instruction))
        assert set(names(make(HATS, SILENT), instruction)) == alone
    one, two = route(make(HATS), "x"), route(make(HATS, SILENT), "x")
    assert one.context_id == two.context_id, "an entry that does not fire changes no context"


def test_the_built_in_library_speaks_to_every_kind_of_edit() -> None:
    library = open_library("builtin")
    for instruction, wanted in {
        "let there be a movie poster on the wall": "following-additions",
        "get rid of the man": "following-removals",
        "turn the remote into a VR headset": "following-replacements",
        "make the chair red": "color-and-material-changes",
        "change the background to a beach": "background-and-scene-changes",
        "make it a watercolor painting": "style-and-tone-changes",
        'write "SALE" on the sign': "text-edits",
        "Move the book to the left of the headphones": "count-and-position-edits",
        "Have the dog lick the teddy bear": "pose-and-motion-edits",
        "Reproduce the source image as faithfully as possible": "faithful-reproduction",
    }.items():
        found = names(library, instruction)
        assert wanted in found
        assert {"preserving-the-rest", "scoring-scale", "visual-quality-and-artifacts"} <= set(found)


def test_a_model_is_asked_about_entries_without_triggers_only_and_once(tmp_path: Path) -> None:
    def say(request: ChatRequest) -> str:
        part = request.messages[0].parts[0]
        assert isinstance(part, TextPart)
        assert request.choices == ("yes", "no")
        return "Yes." if "text-rendering" in part.text else "no"

    model, cache = ScriptedModel(say), JudgmentCache(tmp_path)
    router = LLMRouter(model, cache)
    other = Entry("weather", "skill", "Judging weather.", "Look up.")
    for _ in range(2):
        found = asyncio.run(router.route(make(HATS, ALWAYS, SILENT, other), "add a slogan"))
        assert [entry.name for entry in found.entries] == ["basics", "text-rendering"]
    assert len(model.requests) == 2
    cache.close()


@pytest.mark.parametrize(("said", "routed"), [("是。", 1), ("否", 0), ("yes", 1)])
def test_a_router_may_be_asked_in_chinese(said: str, routed: int) -> None:
    model = ScriptedModel([said])
    with in_language("zh"):
        found = asyncio.run(LLMRouter(model).route(make(SILENT), "add a slogan"))
    assert len(found.entries) == routed and "指令" in model.requests[0].messages[0].parts[0].text  # type: ignore[union-attr]


def test_a_router_that_answers_neither_is_an_error_and_no_guess() -> None:
    with pytest.raises(ModelError, match="neither yes nor no"):
        asyncio.run(LLMRouter(ScriptedModel(lambda request: "maybe")).route(make(SILENT), "add a slogan"))
