"""What Python callers use of judges: one edit, datasets of any kind, options."""

import asyncio
import io
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
from drawn_pairs import draw_pairs
from PIL import Image

from rewardharness.errors import DataError, HarnessError, ImageError, InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY

PIXELS = np.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=np.uint8)
DARKER = (PIXELS * 0.6).astype(np.uint8)
INSTRUCTION = "make it darker"


@pytest.fixture
def judge() -> MeasuredJudge:
    found = open_judge("measured", no_cache=True)
    assert isinstance(found, MeasuredJudge)
    return found


def test_one_edit_is_scored_from_arrays_pictures_paths_and_bytes(judge: MeasuredJudge, tmp_path: Path) -> None:
    Image.fromarray(DARKER).save(tmp_path / "b.png")
    results = [
        judge.score(PIXELS, [PIXELS, second], INSTRUCTION)
        for second in (DARKER, Image.fromarray(DARKER), tmp_path / "b.png", (tmp_path / "b.png").read_bytes())
    ]
    assert [result.preference for result in results] == ["B"] * 4
    assert len({result.scores["B"].reward for result in results}) == 1
    alone = judge.score(PIXELS, DARKER, INSTRUCTION, library="builtin")
    assert alone.judged and alone.preference is None
    assert asyncio.run(_in_a_loop(judge)).preference == "B"


async def _in_a_loop(judge: MeasuredJudge):
    return judge.score(PIXELS, [PIXELS, DARKER], INSTRUCTION)


def test_what_cannot_be_scored_raises_or_gives_a_judgment_with_a_failure(judge: MeasuredJudge, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="candidate 1"):
        judge.score(PIXELS, [None, DARKER], INSTRUCTION)
    for instruction in (None, 3, ["darker"], [{"role": "user", "content": "darker"}]):
        with pytest.raises(InputError, match="The instruction is not text"):
            judge.score(PIXELS, [PIXELS, DARKER], instruction)
    lost = judge.score(tmp_path / "gone.png", [PIXELS, DARKER], INSTRUCTION)
    assert lost.failure.code == "image" and not lost.scores


def rows() -> list[dict]:
    return [
        {"source": PIXELS, "instruction": INSTRUCTION, "image_a": PIXELS, "image_b": DARKER, "label": "B"},
        {"source": DARKER, "instruction": "make it brighter", "image_a": PIXELS, "image_b": DARKER, "label": "A"},
    ]


def as_dataset() -> datasets.Dataset:
    pictures = [{k: Image.fromarray(v) if isinstance(v, np.ndarray) else v for k, v in row.items()} for row in rows()]
    kinds = {name: datasets.Image() if "image" in name or name == "source" else "string" for name in pictures[0]}
    features = {name: datasets.Value(kind) if kind == "string" else kind for name, kind in kinds.items()}
    return datasets.Dataset.from_list(pictures, features=datasets.Features(features))


def test_datasets_rows_and_examples_give_the_same_judgments(judge: MeasuredJudge) -> None:
    def preferences(data: object, **options: Any) -> list[str | None]:
        return [each.preference for each in judge.score_dataset(data, **options)]

    dataset = as_dataset()
    listed = judge.score_dataset(rows(), library=EMPTY)
    assert [each.failure.code for each in listed if each.failure] == ["nothing_to_measure"] * 2
    found = judge.score_dataset(dataset)
    named = [{"before": row["source"], **{key: row[key] for key in row if key != "source"}} for row in rows()]
    assert preferences(dataset) == preferences(rows()) == preferences(list(dataset)) == ["B", "A"]
    assert preferences(named, fields={"source": "before"}) == ["B", "A"]
    assert found[0].library_id == open_library("builtin").id and len(found) == 2
    assert [each.correct for each in found.report.by_label_kind.values()] == [2]
    assert judge.score_dataset(found.examples).dataset.digest == found.dataset.digest


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "A NoneType is not a dataset"),
        ([], "are empty"),
        ([1, 2], "contain 'int' instead of a row"),
        ({"source": [1]}, "A dict is not a list"),
        ([{"source": PIXELS, "instruction": "x"}], "no column for the field 'candidates' was found"),
        ([*rows(), {**rows()[0], "image_b": "no image"}], "not a readable image"),
        ("no/such-folder.csv", "does not exist"),
    ],
)
def test_data_that_cannot_be_read_are_named(judge: MeasuredJudge, data: object, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        judge.score_dataset(data)
    assert caught.value.next_step in str(caught.value)


def test_options_are_given_by_name() -> None:
    agent = open_judge("vllm:m@http://127.0.0.1:9/v1", protocol="pointwise", samples=3, ties=True)
    assert (agent.settings.protocol, agent.settings.samples, agent.settings.ties) == ("pointwise", 3, True)
    assert agent.with_ties(False).settings.ties is False
    assert open_judge("vllm:m@http://127.0.0.1:9/v1", protocol="logprob").with_ties(True).settings.ties is False
    earlier: dict[str, Any] = {"both_orders": False, "tool_limit": 2, "language": "zh", "cache": False, "attempts": 1}
    with pytest.warns(FutureWarning, match="of judges") as notices:
        agent = open_judge("vllm:m@http://127.0.0.1:9/v1", **earlier)
    assert isinstance(agent, SubAgent) and agent.cache is None
    assert agent.settings == ModelJudgeConfig(one_order=True, tool_calls=2, prompt_language="zh")
    assert "The option 'both_orders' of judges is now 'one_order'." in {str(each.message) for each in notices}
    for wrong in ({"colour": 1}, {"protocol": "guess"}):
        with pytest.raises(HarnessError) as caught:
            open_judge("measured", **wrong)
        assert caught.value.next_step


def test_timeout_and_retries_reach_the_endpoint() -> None:
    config = JudgeConfig(judge="openai:m@http://127.0.0.1:1/v1", request_timeout=3, retries=0)
    model = open_judge(config).model
    assert (model.pool.settings.request_timeout, model.pool.settings.retries) == (3, 0)
    for wrong in ({"retries": -1}, {"request_timeout": 0}):
        with pytest.raises(InputError, match="out of range"):
            JudgeConfig(**wrong)


def test_results_are_short_in_text_and_tables_in_notebooks(judge: MeasuredJudge, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.fromarray(DARKER).save(buffer, "PNG")
    pair, alone = judge.score(PIXELS, [PIXELS, buffer], INSTRUCTION), judge.score(PIXELS, buffer, INSTRUCTION)
    assert pair.preference == "B" and pair.reward is None and pair.rewards["B"] == pair.scores["B"].reward
    assert alone.reward == alone.rewards["A"] is not None and alone.raise_for_failure() is alone
    lost = judge.score(tmp_path / "gone.png", DARKER, "<b>darker</b>")
    with pytest.raises(ImageError, match=r"gone\.png does not exist"):
        lost.raise_for_failure()
    draw_pairs(tmp_path / "data", 2)
    scored, library = judge.score_dataset(tmp_path / "data"), open_library("builtin")
    for shown in (judge, pair, alone, lost, scored, library):
        assert len(repr(shown)) < 250 and type(shown).__name__.replace("MeasuredJudge", "") in repr(shown)
    pages = [each._repr_html_() for each in (pair, library, scored.report, scored)]
    assert all("<table>" in page for page in pages) and pages[-1].count("data:image/webp") == 6
    table = scored.to_pandas()
    assert list(table["id"]) == [each.id for each in scored.examples] and {"label", "reward_B"} <= set(table.columns)


def test_without_pandas_the_message_names_it(judge: MeasuredJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    scored = judge.score_dataset([{"source": PIXELS, "candidates": [PIXELS, DARKER], "instruction": INSTRUCTION}])
    with pytest.raises(HarnessError, match="'pandas' is not installed"):
        scored.to_pandas()
