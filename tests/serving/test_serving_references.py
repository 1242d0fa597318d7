"""Reference images of an edit arrive at the judge in order, by every route, client and trainer."""

import asyncio

import pytest
from serving_parts import ONE, SOURCE, TWO, ReadyJudge, Running, b64, edit, group, pair, picture, reward_of

from rewardharness.library.store import EMPTY
from rewardharness.serving import verl
from rewardharness.serving.client import Ask, RewardClient
from rewardharness.serving.flow_grpo import edit_r1_reward, edit_reward
from rewardharness.serving.limits import Limits
from rewardharness.serving.trl import AsyncEditReward, EditReward

TEXT = "make it lighter"
SECOND, THIRD = picture(77), picture(78)
TWICE = {"references": [b64(SECOND), {"ref": "third"}], "images": {"third": b64(THIRD)}}


@pytest.fixture
def judge() -> ReadyJudge:
    return ReadyJudge()


@pytest.fixture
def server(judge: ReadyJudge):
    with Running(judge) as running:
        yield running


def seen(judge: ReadyJudge) -> set[tuple[bytes | None, ...]]:
    """The source and references of what was judged."""
    return {tuple(image.data for image in example.sources) for example in judge.asked}


ROUTES = {
    "/score": edit() | TWICE,
    "/batch_score": {"items": [edit() | {"references": TWICE["references"]}], "images": TWICE["images"]},
    "/compare": pair() | TWICE,
    "/rank": group(ONE, TWO) | TWICE,
    "/rank by win rate": group(ONE, TWO, method="win_rate") | TWICE,
    "/score of several": group(ONE, TWO) | TWICE,
}


@pytest.mark.parametrize("route", ROUTES)
def test_all_routes_take_references(server: Running, judge: ReadyJudge, route: str) -> None:
    reply = server.post(route.split()[0], ROUTES[route])
    assert reply.status == 200 and reply.json["n_error"] == 0 and seen(judge) == {(SOURCE, SECOND, THIRD)}
    assert [image.name for image in judge.asked[0].references] == ["image 2", "image 3"]


def test_a_remembered_judgment_belongs_to_its_references(server: Running, judge: ReadyJudge) -> None:
    for references in ([], [SECOND], [THIRD], [SECOND, THIRD], [THIRD, SECOND], []):
        server.post("/score", edit(references=[b64(image) for image in references]))
    assert len(judge.asked) == 5
    # The same images, once with two candidates and once with a candidate and a reference.
    assert len(server.post("/score", group(ONE, SECOND)).json["results"]) == 2


def test_references_are_limited(judge: ReadyJudge) -> None:
    four, large = [b64(picture(number)) for number in range(4)], [b64(bytes(3000))]
    lost = {"items": [edit(references=[{"ref": "no"}])]}
    with Running(judge, Limits(image_bytes=2000)) as running:
        for path, body, status, field in (
            ("/score", edit(references=four), 422, "references"),
            ("/score", edit(references=large), 413, "references[0]"),
            ("/batch_score", lost, 422, "items[0].references[0]"),
            ("/score", edit(references="x"), 422, "references"),
        ):
            reply = running.post(path, body)
            assert (reply.status, reply.json["fields"][0]["field"]) == (status, field)
    assert judge.asked == []


def test_a_full_batch_of_different_references_is_taken(judge: ReadyJudge) -> None:
    def item(first: int) -> dict[str, object]:
        names = [{"ref": f"i{number}"} for number in range(first, first + 5)]
        known = {"id": "x", "group": "g", "instruction": TEXT}
        return known | {"source": names[0], "edited": names[1], "references": names[2:]}

    with Running(judge, Limits(items=2, group=2)) as running:
        batch = [item(0), item(5)]
        images = {f"i{shade}": b64(picture(shade)) for shade in range(10)}
        reply = running.post("/batch_score", {"items": batch, "images": images})
    assert reply.status == 200 and reply.json["n_ok"] == 2
    assert len({image for sources in seen(judge) for image in sources}) == 8


def test_the_client_sends_references(server: Running, judge: ReadyJudge) -> None:
    with RewardClient(server.url) as client:
        asks = [Ask(TEXT, SOURCE, ONE), Ask(TEXT, SOURCE, TWO, references=[SECOND, THIRD])]
        [plain, several, many] = client.score([*asks, Ask(TEXT, SOURCE, ONE, references=[ONE] * 4)])
        assert (plain.reward, several.reward) == (reward_of(ONE), reward_of(TWO))
        assert many.reward is None and many.reason == "input: There are 4 reference images."
        assert seen(judge) == {(SOURCE,), (SOURCE, SECOND, THIRD)}
        judge.asked.clear()
        client.rank(TEXT, SOURCE, [ONE, TWO], references=[THIRD])
        assert client.compare(TEXT, SOURCE, ONE, TWO, references=[THIRD]).preference in ("A", "B")
    assert seen(judge) == {(SOURCE, THIRD)}


COLUMNS = {
    "references": {"source": [SOURCE] * 2, "references": [[SECOND, THIRD], []]},
    "none": {"source": [SOURCE] * 2, "references": [[SECOND, THIRD], None]},
    "source lists": {"source": [[SOURCE, SECOND, THIRD], [SOURCE]]},
    "images": {"images": [[SOURCE, SECOND, THIRD], [SOURCE]]},
}


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=list(COLUMNS))
def test_trl_takes_references_as_a_column_or_as_further_images(server: Running, judge: ReadyJudge, columns) -> None:
    given = {**columns, "instruction": [TEXT] * 2, "edited": [ONE, TWO]}
    expected = [reward_of(ONE), reward_of(TWO)]
    served, local = EditReward(server.url), EditReward(judge=judge, library=EMPTY)
    awaited = AsyncEditReward(judge=judge, library=EMPTY)
    for ask in (served, local, lambda *words, **row: asyncio.run(awaited(*words, **row))):
        judge.asked.clear()
        assert ask(["p"] * 2, ["c"] * 2, **given) == expected
        assert seen(judge) == {(SOURCE, SECOND, THIRD), (SOURCE,)}
    served.close()


def test_trl_reads_a_column_of_another_name(judge: ReadyJudge) -> None:
    reward = EditReward(judge=judge, library=EMPTY, references="further")
    given = {"source": [SOURCE], "instruction": [TEXT], "edited": [ONE]}
    reward(["p"], ["c"], further=[[SECOND]], **given)
    assert seen(judge) == {(SOURCE, SECOND)}
    with pytest.raises(Exception, match="The dataset has no column 'further'"):
        reward(["p"], ["c"], **given)


def test_verl_takes_references(server: Running, judge: ReadyJudge) -> None:
    info = {"source": SOURCE, "edited": ONE, "instruction": TEXT, "references": [SECOND, THIRD]}
    assert verl.compute_score("d", "s", None, info, url=server.url)["score"] == reward_of(ONE)
    found = asyncio.run(verl.compute_edit_score("d", ONE, TEXT, info, url=server.url))
    assert found["score"] == reward_of(ONE) and seen(judge) == {(SOURCE, SECOND, THIRD)}


def test_flow_grpo_and_edit_r1_take_lists_of_sources(server: Running, judge: ReadyJudge) -> None:
    sources, prompts = [[SOURCE, SECOND], SOURCE], [TEXT, TEXT]
    expected = [reward_of(ONE), reward_of(TWO)]
    assert edit_reward(server.url)([ONE, TWO], prompts, None, ref_images=sources)[0] == expected
    assert edit_reward(server.url)([ONE, TWO], prompts, [{"source": each} for each in sources])[0] == expected
    assert edit_r1_reward(server.url)(sources, [ONE, TWO], prompts)[0] == expected
    assert seen(judge) == {(SOURCE, SECOND), (SOURCE,)}
    with pytest.raises(Exception, match="An edit has no source image"):
        edit_reward(server.url)([ONE, TWO], prompts, None, ref_images=[[], SOURCE])


def test_the_dialects_take_references(server: Running, judge: ReadyJudge) -> None:
    history = [{"text": TEXT, "image_b64": b64(SOURCE)}, {"text": TEXT, "image_b64": b64(ONE)}]
    request = {"history": history, "required_rewards": ["rewardharness"], "metadata": {"references": [b64(SECOND)]}}
    reply = server.post("/unirl/score", {"requests": [request]})
    assert reply.json["results"][0]["rewardharness"]["reward"] == reward_of(ONE)
    body = {"image": [b64(TWO)], "condition_images": [[b64(SOURCE), b64(SECOND)]], "prompt": [TEXT]}
    assert server.post("/flow_factory/compute", body).json == {"rewards": [reward_of(TWO)]}
    assert seen(judge) == {(SOURCE, SECOND)}
