"""The arena: the better editor wins, failures are counted, and more comparisons continue a run."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_pairs import draw_pairs
from hub_parts import Hub

from rewardharness.benchmark.leaderboard import leaderboard_section, read_leaderboard
from rewardharness.cli.main import main
from rewardharness.data.opening import open_data
from rewardharness.data.votes import append_feedback
from rewardharness.editors.config import ArenaConfig
from rewardharness.editors.editor import FunctionEditor
from rewardharness.editors.job import ArenaJob
from rewardharness.editors.making import Duel, next_duels, possible_duels
from rewardharness.editors.refine import Refined, refine
from rewardharness.editors.report import read_ratings
from rewardharness.errors import InputError
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge
from rewardharness.judging.ranking import rate_editors
from rewardharness.judging.subagent import SubAgent
from rewardharness.measure.images import load_picture
from rewardharness.models.base import ChatRequest, TextPart
from rewardharness.models.open import ScriptedModel
from rewardharness.report import Table, Value
from rewardharness.runs.spending import Budget, SpendingLimits
from rewardharness.schema import ImageInput
from rewardharness.settings import Settings

TASKS = 6


@pytest.fixture
def data(tmp_path: Path) -> Path:
    draw_pairs(tmp_path / "data", TASKS)
    return tmp_path / "data"


def editors(calls: list[str]) -> list[FunctionEditor]:
    """Three editors: one changes nothing, one repaints with noise, one fails on half of the images."""

    def same(image: Any, instruction: str, seed: int) -> Any:
        calls.append("same")
        return image

    def noise(image: Any, instruction: str, seed: int) -> Any:
        calls.append("noise")
        return np.random.default_rng(0).integers(0, 255, (image.height, image.width, 3), dtype=np.uint8)

    def failing(image: Any, instruction: str, seed: int) -> Any:
        calls.append("failing")
        if sum(call == "failing" for call in calls) % 2:
            raise RuntimeError("out of memory")
        return noise(image, instruction, seed)

    return [FunctionEditor(each, each.__name__) for each in (same, noise, failing)]


def open_arena(data: Path, found: list[FunctionEditor], **options: Any) -> ArenaJob:
    config = ArenaConfig(str(data), editors=("painter:0.1,painter:0.2",), judge="closer", **options)
    settings = Settings.from_env({"RH_HOME": str(data.parent / "home")})
    return ArenaJob.open(config, settings, folder=data.parent / "run", editors=found)


def test_the_better_editor_wins_and_more_comparisons_continue_the_run(data: Path) -> None:
    calls: list[str] = []
    found = editors(calls)
    first = open_arena(data, found, comparisons=5).run()
    assert (first.n, first.judged) == (5, 5) and first.edits["same"].made == TASKS
    assert first.edits["failing"].failed == TASKS / 2
    assert "out of memory" in first.edits["failing"].failure
    made = len(calls)
    job = open_arena(data, found, comparisons=1000)
    result = job.run()
    assert calls[made:].count("failing") == 3 and "same" not in calls[made:], "only what failed is made again"
    assert result.n == result.judged == sum(each.n for each in result.editors) / 2 > first.n
    assert result.editors[0].name == "same" and result.editors[0].place == 1
    assert result.wins["same"]["noise"] == 1 and result.wins["noise"]["same"] == 0
    report = json.loads((job.folder / "report.json").read_text("utf-8"))
    assert report["n"] == result.n and report["judge"]["judge"] == job.opened.judge.name
    assert read_ratings(job.folder) == result
    assert "out of memory" in (job.folder / "report.html").read_text("utf-8")
    lines = [json.loads(line) for line in (job.folder / "results.jsonl").read_text("utf-8").splitlines()]
    assert len({line["id"] for line in lines}) == len(lines) == result.n and set(lines[0]["editors"]) <= {
        "same", "noise", "failing",
    }  # fmt: skip


def test_the_report_says_what_a_second_judge_and_people_say(data: Path) -> None:
    first = open_arena(data, editors([])[:2], comparisons=1000, second_judge="farther").run()
    run, feedback = data.parent / "run", data.parent / "votes"
    (other,) = first.agreements
    assert (other.n, other.same, other.alike) == (first.judged, first.ties, 0), "it prefers what is farther"
    assert other.editors[-1].name == "same" and first.met["same"]["noise"] == TASKS == first.n
    table = open_data(str(run / "comparisons.jsonl"), Settings.from_env({"RH_HOME": str(data.parent / "home")}))
    assert len(table.examples) == first.n and {each.preference for each in table.examples} == {None}
    for example in table.examples:
        names = [image.editor for image in example.candidate_images]
        turned = replace(example, candidates=example.candidates[::-1])
        append_feedback(feedback, turned, "AB"[1 - names.index("same")])  # people prefer it
    source = table.examples[0].source_image
    foreign = (replace(source, editor="noise"), replace(source, editor="same"))
    append_feedback(feedback, replace(table.examples[0], candidates=foreign), "A")
    options = {"comparisons": 1000, "second_judge": "farther", "votes": str(feedback)}
    again = open_arena(data, editors([])[:2], **options).run()
    assert again.agreements[0] == other and again.n == first.n
    people = again.agreements[1]
    assert people.n == people.alike == people.same == TASKS, "the other pixels are another edit"
    assert sum(each.n for each in people.editors) // 2 == people.n + 1
    page, text = ((run / f"report.{ending}").read_text("utf-8") for ending in ("html", "md"))
    assert "No edit" not in page and 'class="range"' in page and "votes of people" in text
    assert "same is the best of 2 editors" in text and read_ratings(run) == again


def test_an_arena_without_two_edits_says_why(data: Path) -> None:
    def never(image: Any, instruction: str, seed: int) -> Any:
        raise RuntimeError("no GPU")

    found = [FunctionEditor(never, name) for name in ("one", "two")]
    with pytest.raises(InputError, match=r"no two edits.*no GPU"):
        open_arena(data, found).run()


def test_uncertain_orders_are_compared_first() -> None:
    made = {str(task): ["best", "good", "worst"] for task in range(60)}
    duels = possible_duels(made, 0)
    assert len(duels) == len(set(duels)) == 180 and {duel.first for duel in duels} == {"best", "good", "worst"}
    known = [("best", "worst", "A")] * 30 + [("good", "worst", "A")] * 30
    chosen = next_duels(duels, rate_editors(known), 20, "active")
    doubtful = [duel for duel in chosen if {duel.first, duel.second} == {"best", "good"}]
    assert len(chosen) == len(set(chosen)) == 20 and len(doubtful) > 15
    assert next_duels(duels, rate_editors(known), 20, "random") == duels[:20]
    assert next_duels(duels[:3], rate_editors(known), 20, "active") != []
    assert Duel("t", "b", "a").id == Duel("t", "a", "b").id


def test_ratings_land_in_a_leaderboard(hub: Hub, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.user("ann").token)
    specs = []
    for name in ("a", "b"):  # of each pair, one of both is the source
        folder = data.parent / name
        folder.mkdir()
        for number in range(TASKS):
            shutil.copy(data / f"{name}{number}.png", folder / f"p{number:02d}.png")
        specs.append(f"folder:{folder}")
    words = ["arena", str(data), "--judge", "closer", "--run", str(data.parent / "run"), "--quiet"]
    assert main([*words, "--editors", ",".join(specs), "--push", "leaderboard:ann/board"]) == 0
    board = read_leaderboard("ann/board", hub.anonymous)
    assert [(row.editor, row.metric, row.n) for row in board.rows] == [("a", "rating", TASKS), ("b", "rating", TASKS)]
    assert board.rows[0].low < board.rows[0].value == board.rows[1].value < board.rows[0].high, "each wins half"
    assert main([*words, "--editors", ",".join(specs), "--push", "ann/board"]) == 0, "it is complete: published again"
    assert len(read_leaderboard("ann/board", hub.anonymous).rows) == 2
    table = leaderboard_section(board.rows).blocks[0]
    assert isinstance(table, Table) and table.headings[0] == "Editor" and "closer" in table.title
    value = table.rows[0][1]
    assert isinstance(value, Value) and value.text.startswith("1000 [") and value.low < 1000 < value.high
    other = replace(board.rows[0], judge="another")
    assert len(leaderboard_section([*board.rows, other]).blocks) == 3, "ratings of judges do not compare"


def test_refining_keeps_the_best_and_says_what_another_judge_sees(data: Path) -> None:
    asked: list[tuple[str, int]] = []
    source = ImageInput("s", data / "s0.png")
    pixels = load_picture(source).pixels

    def better(image: Any, instruction: str, seed: int) -> Any:
        """The first attempt is bad; later rounds are better."""
        asked.append((instruction, seed))
        if seed == 1:
            raise RuntimeError("busy")
        noise = np.random.default_rng(seed).normal(0, 60 / (1 + 3 * (seed > 2)), pixels.shape)
        return np.clip(pixels + noise, 0, 255).astype(np.uint8)

    settings = Settings.from_env({"RH_HOME": str(data.parent / "home")})
    judge = open_judge("measured", settings)
    words = "Keep the image exactly as it is."
    second = open_judge("closer", settings)
    found = refine(source, words, better, judge, rounds=2, n=3, settings=settings, second=second)
    rewards = [each.reward for each in found.attempts]
    assert rewards[1] is None and "busy" in found.attempts[1].failure
    best = found.attempts[found.best]
    assert best.reward == max(reward for reward in rewards if reward is not None) and best.round > 1 and found.gain > 0
    assert sorted(seed for _, seed in asked[:6]) == list(range(6)) and asked[0][0] == words
    assert asked[3][0].startswith(words.rstrip(".")) and found.ended


def test_a_given_edit_is_the_first_attempt_and_stopping_ends_what_hangs(data: Path) -> None:
    settings = Settings.from_env({"RH_HOME": str(data.parent / "home")})
    judge, source = open_judge("measured", settings), data / "s0.png"
    pixels = load_picture(ImageInput("s", source)).pixels
    noisy = np.clip(pixels + np.random.default_rng(5).normal(0, 40, pixels.shape), 0, 255).astype(np.uint8)
    said: list[tuple[str, int, int]] = []

    async def edit(image: Any, instruction: str, seed: int) -> Any:
        if seed > 2:
            await asyncio.sleep(600)
        return image

    def run(**options: Any) -> Refined:
        words = "Keep the image exactly as it is."
        return refine(source, words, edit, judge, candidate=noisy, n=2, rounds=2, settings=settings, **options)

    found = run(progress=lambda *tell: said.append(tell), stop=lambda: (said or [("",)])[-1][0].startswith("round 2"))
    assert [each.round for each in found.attempts] == [0, 1, 1, 2, 2] and found.ended == "Stopped."
    assert found.best in {1, 2} and found.gain > 0.05 and found.attempts[0].problems
    assert {each.failure for each in found.attempts[3:]} == {"Stopped."}
    assert said[0][1:] == (0, 4) and "best reward" in said[-1][0]
    assert run(stop=lambda: True).best == 0


@pytest.mark.parametrize("requests", [99, 6, 4, 3])
def test_a_budget_ends_it_and_covers_the_last_comparison(data: Path, requests: int) -> None:
    """A comparison in both orders takes two requests."""
    grades = {"instruction": 3, "quality": 3}
    compared = json.dumps({"preference": "B", "scores": {"A": grades, "B": grades}})
    asked: list[str] = []

    def reply(request: ChatRequest) -> str:
        asked.append("".join(part.text for part in request.messages[-1].parts if isinstance(part, TextPart)))
        if "What is wrong" in asked[-1]:
            return json.dumps({"problems": ["Dark."], "next_instruction": "Make it brighter."})
        return compared if "Candidate B" in asked[-1] else json.dumps(grades)

    def edit(image: Any, instruction: str, seed: int) -> Any:
        return np.full((32, 32, 3), 40 * seed, np.uint8)

    judge = SubAgent(ScriptedModel(reply), ModelJudgeConfig(protocol="direct"))
    settings, limits = Settings.from_env({"RH_HOME": str(data.parent)}), SpendingLimits(Budget(requests=requests))

    def run() -> Refined:
        return refine(data / "s0.png", "Brighter.", edit, judge, n=2, rounds=2, settings=settings, limits=limits)

    if requests == 3:
        with pytest.raises(InputError, match="budget of 3 requests"):
            run()
    else:
        found = run()
        assert ("budget" in found.ended) is (requests < 99) and found.attempts[0].reward is not None
    assert len(asked) <= requests and (requests < 99 or any("What is wrong" in text for text in asked))


def test_the_command_writes_all_attempts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "edits"
    folder.mkdir()
    (folder / "refine.png").write_bytes((data / "s0.png").read_bytes())
    words = ["refine", str(data / "s0.png"), "Keep the image exactly as it is.", "--editor", f"folder:{folder}"]
    assert main([*words, "--run", "out", "--n", "1", "--json", "--quiet"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["best"], told["gain"]) == (1, 0)
    assert Path(told["image"]).read_bytes() == (data / "s0.png").read_bytes()
    assert json.loads(Path("out/refined.json").read_text("utf-8"))["attempts"][0]["reward"] > 0.9
    assert main([*words[:3], "--editor", "painter:0", "--run", "out2"]) == 1
    assert "demo data" in capsys.readouterr().err and not Path("out2/best.png").exists()
