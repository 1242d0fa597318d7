"""A starting Library that a model writes: checked, repaired once, recorded, and without labels or held-out examples."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from drawn_pairs import draw_pairs
from small_world import make_dataset, text_of

from rewardharness.errors import InputError, RunError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.evolution.llm_orchestrator import MOST_SKILLS, write_library
from rewardharness.evolution.proposal import Replies
from rewardharness.jobs import open_job
from rewardharness.library.evolved import data_digests
from rewardharness.library.opening import THIN, UNCOUNTED, check_library, open_library
from rewardharness.library.store import Library
from rewardharness.models.base import ModelError
from rewardharness.models.open import Script, ScriptedModel
from rewardharness.settings import Settings

EXAMPLES = make_dataset(3).examples


def skill(name: str, triggers: str, body: str) -> dict[str, object]:
    criteria = [{"id": "lit", "text": "4: lit; 1: dark.", "weight": 1, "dimension": "instruction", "measure": None}]
    description = f"How to judge {name}."
    return {"name": name, "description": description, "triggers": triggers, "body": body, "criteria": criteria}


EVERY = skill("every-edit", "always", "Compare each candidate with the source, and look for what was not asked for.")
CATS = skill("cats", "cat", "Fur should keep its structure; flat fur without single hairs is the worst failure.")
UNREACHED = skill("boats", "boat", "The hull should be dry above the line of the water, and wet below it.")
PLACED = skill("dogs", "dog", "Prefer candidate A if its dog has four legs and the first image shows three of them.")


def reply(*skills: dict[str, object]) -> str:
    return f"Here they are.\n{json.dumps({'skills': skills})}"


def write(model: ScriptedModel, folder: Path | None = None) -> Library:
    return write_library(model, EXAMPLES, Replies(folder), origin={"data_digest": "a" * 64})


def test_the_skills_of_a_good_reply_are_the_library() -> None:
    model = ScriptedModel([reply(EVERY, CATS)], id="writer")
    library = write(model)
    assert [entry.name for entry in library.entries] == ["cats", "every-edit"]
    assert library.entries[0].rubric is not None and len(model.requests) == 1 and not model.requests[0].images
    text = text_of(model.requests[0])
    for example in EXAMPLES:
        assert example.instruction in text
        assert not any(secret in text for secret in (example.id, example.label_kind, example.source.name))
    [line] = library.lineage
    assert line["operator"] == "initialize" and line["source"] == "writer" and line["library"] == library.id
    assert data_digests(library.lineage) == {"a" * 64}, "the data are not unseen any more"


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (reply(EVERY, CATS, UNREACHED), "match no instruction"),
        (reply(EVERY, CATS, PLACED), "dogs"),
        (reply(EVERY, CATS, CATS), "cats"),
        (reply(CATS), "No Skill has the triggers `always`"),
        (reply(*(EVERY for _ in range(MOST_SKILLS + 1))), f"at most {MOST_SKILLS}"),
        ("I would rather not.", "no JSON object"),
    ],
)
def test_problems_are_returned_to_the_model_once(bad: str, problem: str) -> None:
    model = ScriptedModel([bad, reply(EVERY, CATS)])
    assert [entry.name for entry in write(model).entries] == ["cats", "every-edit"]
    assert problem in text_of(model.requests[1])


def test_what_stays_unusable_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([reply(EVERY, CATS, UNREACHED)] * 2)
    assert [entry.name for entry in write(model).entries] == ["cats", "every-edit"]
    assert len(model.requests) == 2 and "boats" in caplog.text


@pytest.mark.parametrize("script", [["No.", "No."], [ModelError("unauthorized", "No key.")]])
def test_without_a_usable_skill_there_is_one_clear_error(script: list[Script]) -> None:
    with pytest.raises(RunError, match="initializer") as caught:
        write(ScriptedModel(script))
    assert "starting Library" in caught.value.next_step


def test_a_run_starts_from_the_library_that_a_model_writes(tmp_path: Path) -> None:
    home, data = replace(Settings.from_env(), home=tmp_path / "home"), tmp_path / "demo"
    draw_pairs(data, 12)
    with pytest.raises(InputError, match="needs a model"):
        open_job(EvolveConfig(data=str(data), library="llm"), home)
    script = tmp_path / "writer.jsonl"
    script.write_text(json.dumps({"text": reply(EVERY)}) + "\n")
    config = EvolveConfig(data=str(data), library="llm", initializer_model=f"scripted:{script}")
    job = open_job(config, home)
    assert [entry.name for entry in job.library.entries] == ["every-edit"]
    script.write_text("")
    assert open_job(config, home).manifest == job.manifest, "the reply is saved"


def test_the_demo_data_start_from_half_of_the_criteria_unless_a_library_is_named() -> None:
    def start(data: str, library: str | None = None, **environment: str) -> str | None:
        return EvolveConfig(data, library=library).with_defaults(Settings.from_env(environment)).library

    assert start("demo") == THIN and start("demo", "builtin") == start("mine") == "builtin"
    assert start("demo", RH_LIBRARY="org/name") == "org/name"
    thin, full = (
        [
            one.measure
            for skill in open_library(spec).skills
            if skill.rubric
            for one in skill.rubric.criteria
            if one.measure
        ]
        for spec in (THIN, "builtin")
    )
    assert len(thin) - len(UNCOUNTED) == -(-(len(full) - len(UNCOUNTED)) // 2) and set(thin) >= UNCOUNTED
    assert [problem for problem in check_library(THIN) if problem.severity == "error"] == []


def test_a_published_reward_model_reads_no_library_that_could_be_evolved(tmp_path: Path) -> None:
    draw_pairs(tmp_path / "pairs", 8)
    (tmp_path / "mine.yaml").write_text(
        "profile: 1\nname: mine\nversion: '1'\nabout: Mine.\nvalues: {grade: {}}\nscore: grade\n"
        "calls: {rate: {user: [{image: candidate}, {text: Grade it.}], reply: {json: {grade: [grade]}}}}\n",
        encoding="utf-8",
    )
    config = EvolveConfig(str(tmp_path / "pairs"), judge=f"{tmp_path / 'mine.yaml'}:m@http://127.0.0.1:1/v1")
    with pytest.raises(InputError, match="reads no Library"):
        open_job(config, Settings.from_env({"RH_HOME": str(tmp_path / "home")}))
