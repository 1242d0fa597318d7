import asyncio
import json
import re
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
from judge_parts import edit, judge_one, text_of

from rewardharness.judging.batches import expected_cost
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.llm_router import LLMRouter
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.report import consulted_words, count_consulted
from rewardharness.judging.router import Route, route
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry, Library, ReplaceEntry
from rewardharness.models.base import ChatRequest
from rewardharness.models.open import ScriptedModel
from rewardharness.prompts import in_language


def make(*entries: Entry) -> Library:
    return reduce(lambda library, entry: library.apply(AddEntry(entry)), entries, EMPTY)


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


def asked(request: ChatRequest) -> str:
    return text_of(request.messages[0])


def sensible(request: ChatRequest) -> str:
    """Choose what a reader would choose: general guidance always, and entries on text only where text is requested."""
    text = asked(request)
    wanted = re.search(r"<instruction>(.*?)</instruction>", text, re.S)
    return json.dumps({name: "text" not in name or "Sale" in wanted[1] for name in request.schema["required"]})


COMPLETENESS = Entry("completeness", "skill", "Score completeness of instruction execution.", "Look at every part.")
ARTIFACTS = Entry("artifacts", "skill", "Guidance on penalizing artifacts.", "Look for seams.")
READER = Entry("text-reader", "tool", "Extracts text to verify its spelling.", "Call it.", system_prompt="Read. JSON.")


def test_a_model_is_asked_once_about_all_entries_without_triggers(tmp_path: Path) -> None:
    model, cache = ScriptedModel(sensible), JudgmentCache(tmp_path)
    library = make(HATS, ALWAYS, COMPLETENESS, ARTIFACTS, READER)

    async def several() -> list[Route]:
        routers = [LLMRouter(model, cache) for _ in range(3)]
        return await asyncio.gather(*(router.route(library, "add a 'Sale' sign") for router in routers))

    for found in (*asyncio.run(several()), *asyncio.run(several())):
        assert [each.name for each in found.entries] == ["artifacts", "basics", "completeness", "text-reader"]
    assert len(model.requests) == 1 and "hats" not in asked(model.requests[0])
    edited = library.apply(ReplaceEntry(replace(ARTIFACTS, description="Halos and seams.")))
    asyncio.run(LLMRouter(model, cache).route(edited, "add a 'Sale' sign"))
    assert "artifacts" in asked(model.requests[-1]) and "completeness" not in asked(model.requests[-1])
    same = edited.apply(ReplaceEntry(replace(READER, body="x")))
    asyncio.run(LLMRouter(model, cache).route(same, "add a 'Sale' sign"))
    assert len(model.requests) == 2, "the text of an entry decides nothing"


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("cached", [True, False])
def test_a_model_that_judges_routes_a_library_without_triggers(
    published: bool, cached: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    library = make(COMPLETENESS, ARTIFACTS, READER)
    if published:
        library = Library.load(request.getfixturevalue("real_data") / "libraries/seed_library")
    answer = '{"preference": "A", "scores": {}}'

    def say(chat: ChatRequest) -> str:
        return sensible(chat).replace("false", "true") if not chat.images else answer

    model = ScriptedModel(say)
    cache = JudgmentCache(tmp_path) if cached else None
    judge = SubAgent(model, ModelJudgeConfig(protocol="direct"), cache)
    examples = [
        edit(90, 180, name=text, instruction=text)
        for text in ("Add a 'Sale' sign", "make the chair red", "make it a watercolor")
    ]
    for judgments in ([each for _, each in evaluate(judge, library, examples)] for _ in range(2)):
        assert [len(each.entries) for each in judgments] == [len(library)] * 3
        assert all(each.consulted == (len(library), len(library)) and not each.notes for each in judgments)
    assert sum(not chat.images for chat in model.requests) == 3, "one request per instruction, also without a cache"


def test_the_request_about_entries_counts_and_no_consulted_entry_is_said() -> None:
    model = ScriptedModel(lambda request: '{"artifacts": false}' if not request.images else '{"preference": "A"}')
    judge = SubAgent(model, ModelJudgeConfig(protocol="direct"))
    judgment = judge_one(judge, edit(90, 180, instruction="make it red"), make(ARTIFACTS))
    assert judgment.consulted == (0, 1) and "0 of 1 entries" in judgment.notes[0]
    assert judgment.usage.calls == len(model.requests) == 5
    for library, requests in ((make(ARTIFACTS), 5), (EMPTY, 4)):
        assert expected_cost(judge, [edit(90, 180, instruction="make it red")] * 2, library).requests == requests
    assert consulted_words(count_consulted([judgment, judgment]))[1].startswith("0 of 1 entries of the Library")


@pytest.mark.parametrize(
    ("said", "routed"),
    [
        ('{"completeness": true, "text_reader": "no"}', ["completeness"]),
        ('I would say {both}: {"Completeness": "Yes", "text-reader": true,}', ["completeness", "text-reader"]),
        ('{"skills": ["completeness"], "tools": []}', ["completeness"]),
        ('{"entries": [{"name": "text-reader"}]}', ["text-reader"]),
        ('<think>{"entries": ["completeness"]}</think>{"entries": []}', []),
    ],
)
def test_forms_of_the_answer_of_a_router(said: str, routed: list[str]) -> None:
    found = asyncio.run(LLMRouter(ScriptedModel([said])).route(make(COMPLETENESS, READER), "add a slogan"))
    assert [entry.name for entry in found.entries] == routed


@pytest.mark.parametrize(("said", "routed"), [("是。", 1), ("否", 0), ('{"text-rendering": true}', 1)])
def test_a_router_may_be_asked_in_chinese(said: str, routed: int) -> None:
    model = ScriptedModel([said])
    with in_language("zh"):
        found = asyncio.run(LLMRouter(model).route(make(SILENT), "add a slogan"))
    assert len(found.entries) == routed and "指令" in asked(model.requests[0])


@pytest.mark.parametrize(
    "said", ["maybe", '{"completeness": true}', '{"entries": ["hats"]}', '{"completeness": "so-so"}']
)
def test_a_router_that_gives_no_answer_is_a_failure_and_no_guess(said: str) -> None:
    model = ScriptedModel(lambda request: said)
    judge = SubAgent(model, ModelJudgeConfig(protocol="direct"))
    judgment = judge_one(judge, edit(90, 180, instruction="add a slogan"), make(COMPLETENESS, READER))
    assert judgment.failure.code == "bad_response"
    assert "could not be selected" in judgment.failure.message and judgment.usage.calls == 2
    assert [step.text for step in judgment.steps if step.kind == "reply"] == [said, said]


def test_the_pixel_based_judge_says_what_it_cannot_use() -> None:
    judgment = judge_one(MeasuredJudge(), edit(90, 180, instruction="make it red"), make(COMPLETENESS, READER))
    assert judgment.failure is not None and judgment.consulted == (0, 2)
    assert "cannot use 2 of 2 entries, which have no measure: completeness, text-reader" in judgment.failure.message
