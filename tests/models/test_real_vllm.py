"""The wire to a real vLLM. Its model is tiny and random: what it says means nothing, how it is asked is what counts.

`make test-vllm` runs these. RH_TEST_VLLM_URL names a server that runs already, as `tests/tiny_vlm/serve.sh` starts it
(http://127.0.0.1:PORT/v1, the model is called judge); RH_TEST_VLLM_PYTHON is the Python of an environment with vLLM,
and a server is started for the tests.
"""

import asyncio
import io
import json
import math
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from endpoint_parts import opened, outcome
from PIL import Image
from profile_parts import stand_in

from rewardharness import open_judge
from rewardharness.cli.main import main
from rewardharness.judging.context import Presented, answer_schema
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.model_config import PROTOCOLS, ModelJudgeConfig
from rewardharness.judging.profile import Profile
from rewardharness.judging.profile_opening import load_profile, shipped_profiles
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.models.base import ChatRequest, ImagePart, Message, ModelError, Reply
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.schema import Example, ImageInput

# Read here, at import: tests see an environment without the caller's settings.
URL = os.environ.get("RH_TEST_VLLM_URL", "")
PYTHON = os.environ.get("RH_TEST_VLLM_PYTHON", "")
SERVE = Path(__file__).parents[1] / "tiny_vlm" / "serve.sh"
LONGEST_START = 480.0
"""Seconds that the server may take to start; a cold and busy machine needs minutes."""

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if URL:
        yield URL.rstrip("/")
        return
    if not PYTHON:
        pytest.skip("no vLLM: run `make test-vllm`, or name a server in RH_TEST_VLLM_URL")
    folder = tmp_path_factory.mktemp("vllm")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "log").open("wb") as log:
        command = [str(SERVE), PYTHON, str(folder / "model"), str(port)]
        server = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + LONGEST_START
        while not answers(f"http://127.0.0.1:{port}/health"):
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail("vLLM did not start:\n" + (folder / "log").read_text("utf-8", "replace")[-3000:])
            time.sleep(0.5)  # a server of its own, not one of ours: there is nothing to wait on
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def metrics(url: str) -> dict[str, float]:
    """Sums of the server's counters, by name."""
    with urllib.request.urlopen(url.removesuffix("/v1") + "/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    found: dict[str, float] = defaultdict(float)
    for line in lines:
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name.partition("{")[0]] += float(value)
    return found


def picture(side: int = 224) -> ImagePart:
    """A picture that no server has ever seen."""
    coarse = np.frombuffer(os.urandom(192), np.uint8).reshape(8, 8, 3)
    buffer = io.BytesIO()
    Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(buffer, "PNG")
    return ImagePart(buffer.getvalue(), "image/png")


def look(*parts: str | ImagePart, **options: object) -> ChatRequest:
    return ChatRequest((Message.of("user", *parts),), **{"max_tokens": 1, **options})  # type: ignore[arg-type]


def ask(url: str, *requests: ChatRequest, name: str = "judge"):
    """Ask one thing after the other; an error is returned in its place."""

    async def run() -> list[Reply | ModelError]:
        async with opened(url, name=name) as model:
            return [await outcome(model.ask(request)) for request in requests]

    return asyncio.run(run())


def examples(number: int) -> list[Example]:
    def image(name: str) -> ImageInput:
        return ImageInput(name, data=picture().data)

    return [
        Example(f"e{each}", "make the box red", image("source"), (image("first"), image("second")))
        for each in range(number)
    ]


# ---- what is asked reaches the model


async def test_the_probe_finds_out_what_vllm_can_do(url: str) -> None:
    async with opened(url) as model:
        [found] = await model.probe()
    can = found.capabilities
    assert found.error is None and can is not None and can.proven
    assert (can.vision, can.schema, can.choice, can.logprobs, can.uuid, can.send_once) == (True,) * 6
    assert (can.models, can.max_model_len) == (("judge",), 16384) and can.fingerprint.startswith("vllm-")


def test_an_image_reaches_the_model_and_another_one_is_another_question(url: str) -> None:
    one, other = picture(), picture()
    asked = [look(image, "Which?", top_logprobs=5) for image in (one, one, other)]
    first, again, different = ask(url, *asked)
    text = ask(url, look("Which?", top_logprobs=5))[0]
    assert first.top_logprobs[0] == pytest.approx(again.top_logprobs[0], abs=1e-4)
    assert first.top_logprobs[0] != pytest.approx(different.top_logprobs[0], abs=1e-4)
    # 224 x 224 pixels are 16 x 16 patches of 14, of which 2 x 2 make a token.
    assert first.usage.input_tokens - text.usage.input_tokens == 64 + 2


def test_a_larger_image_takes_more_tokens_and_several_are_told_apart(url: str) -> None:
    small, large = picture(224), picture(448)
    alone, both, swapped = ask(
        url,
        look(large, "?", top_logprobs=5),
        look(small, large, "?", top_logprobs=5),
        look(large, small, "?", top_logprobs=5),
    )
    assert both.usage.input_tokens - alone.usage.input_tokens == 66
    assert both.usage.input_tokens == swapped.usage.input_tokens
    assert both.top_logprobs[0] != pytest.approx(swapped.top_logprobs[0], abs=1e-4)


def test_a_schema_is_enforced_and_nothing_else_would_write_it(url: str) -> None:
    schema = answer_schema(Presented((), ((), ()), ("A", "B")), ties=False)
    image = picture()
    free, forced = ask(url, look(image, "?", max_tokens=200), look(image, "?", max_tokens=200, schema=schema))
    with pytest.raises(ValueError, match=r"Expecting|Extra"):
        json.loads(free.text)
    said = json.loads(forced.text)
    assert forced.finish_reason == "stop" and said["preference"] in {"A", "B"} and set(said["scores"]) == {"A", "B"}
    assert all(each[key] in {1, 2, 3, 4} for each in said["scores"].values() for key in ("instruction", "quality"))


def test_a_choice_is_enforced_and_its_log_probabilities_are_relative_to_it(url: str) -> None:
    free, forced = ask(url, look("?", max_tokens=4), look("?", max_tokens=4, choices=("3", "4"), top_logprobs=5))
    assert free.text not in {"3", "4"} and forced.text in {"3", "4"}
    shares = {token: math.exp(value) for token, value in forced.top_logprobs[0].items()}
    assert shares["3"] + shares["4"] == pytest.approx(1.0, abs=1e-3)


def test_log_probabilities_of_the_first_token(url: str) -> None:
    (reply,) = ask(url, look(picture(), "?", max_tokens=2, top_logprobs=20))
    assert len(reply.top_logprobs) == 2
    first = list(reply.top_logprobs[0].values())
    assert 15 <= len(first) <= 21  # tokens that are parts of characters share a text
    assert first == sorted(first, reverse=True) and 0 < sum(map(math.exp, first)) <= 1.0001
    assert reply.text.startswith(max(reply.top_logprobs[0], key=lambda token: reply.top_logprobs[0][token]))


def test_samples_with_a_seed_can_be_repeated_and_differ_between_seeds(url: str) -> None:
    image = picture()
    asked = [look(image, "?", max_tokens=24, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    one, again, other = ask(url, *asked)
    assert one.text == again.text != other.text


def test_a_stop_text_ends_the_reply(url: str) -> None:
    long = ask(url, look("Go on.", max_tokens=40))[0]
    end = long.text[len(long.text) // 2 :][:4]
    (short,) = ask(url, look("Go on.", max_tokens=40, stop=(end,)))
    assert short.finish_reason == "stop" and end not in short.text and long.text.startswith(short.text)


# ---- images that are sent once


def ask_counted(url: str, *requests: ChatRequest, claim: bool = False) -> tuple[list[Reply], list[int]]:
    """Ask with images sent once; also return how many bytes each body had. `claim`: believe all was sent before."""

    async def run() -> tuple[list[Reply], list[int]]:
        sizes: list[int] = []

        async def counted(size: int) -> None:
            sizes.append(size)
            await acquire(size)

        async with opened(url, settings=EndpointSettings(send_once=True)) as model:
            await model.probe()
            acquire, model._budget.acquire = model._budget.acquire, counted  # type: ignore[method-assign]
            if claim:
                for server in model._servers.values():
                    server.sent.update((image.sha256, None) for request in requests for image in request.images)
            return [await model.ask(request) for request in requests], sizes

    return asyncio.run(run())


def test_an_image_is_sent_once_and_named_afterwards(url: str) -> None:
    image = picture()
    request = look(image, "Which?", top_logprobs=5)
    (first, again), sizes = ask_counted(url, request, request)
    assert sizes[0] > 4 * len(image.data) / 3 and sizes[1] < 1000
    assert again.usage.input_tokens == first.usage.input_tokens
    assert again.top_logprobs[0] == pytest.approx(first.top_logprobs[0], abs=1e-4)


def test_an_image_that_the_server_lost_is_sent_again(url: str) -> None:
    image = picture()
    request = look(image, "Which?", top_logprobs=5)
    (named,), sizes = ask_counted(url, request, claim=True)
    assert sizes[0] < 1000 < 4 * len(image.data) / 3 < sizes[1] and len(sizes) == 2
    (sent,) = ask(url, request)
    assert named.top_logprobs[0] == pytest.approx(sent.top_logprobs[0], abs=1e-4)


# ---- what vLLM does not accept


@pytest.mark.parametrize(
    ("request_of", "code", "says"),
    [
        (lambda: look("long " * 20_000), "context_too_long", "context"),
        (lambda: look("short", max_tokens=20_000), "context_too_long", "context"),
        (lambda: look(*[picture(56) for _ in range(9)]), "bad_request", "more images"),
        (lambda: look(ImagePart(b"\x89PNG\r\n\x1a\nnot a picture", "image/png")), "bad_request", "image"),
        (lambda: look("?", top_logprobs=500), "bad_request", "log-probabilities"),
    ],
    ids=["long prompt", "long reply", "nine images", "no image", "logprobs"],
)
def test_what_vllm_refuses_is_named(url: str, request_of, code: str, says: str) -> None:
    (error,) = ask(url, request_of())
    assert isinstance(error, ModelError) and error.code == code and says in error.message
    assert error.status == 400 and not error.retryable
    (reply,) = ask(url, look("still there?"))
    assert isinstance(reply, Reply)


def test_a_schema_that_vllm_refuses_is_left_out(url: str) -> None:
    (reply,) = ask(url, look("?", schema={"type": "no such type"}))
    assert isinstance(reply, Reply)


def test_another_name_is_not_served(url: str) -> None:
    (error,) = ask(url, look("?"), name="somebody-else")
    assert isinstance(error, ModelError) and error.code == "model_not_found"


# ---- judging


class Opened:
    """A model whose first message in each conversation is given, and whose further ones are its own."""

    def __init__(self, model: OpenAICompatibleModel, opening: str) -> None:
        self.model, self.opening, self.replies = model, opening, []
        self.id = model.id

    async def ask(self, request: ChatRequest) -> Reply:
        reply = await self.model.ask(request)
        self.replies.append((request, reply))
        return Reply(self.opening) if len(request.messages) == 2 else reply

    async def close(self) -> None:
        await self.model.close()


def test_a_chain_of_tool_observation_and_forced_answer(url: str) -> None:
    call = '<think>Let me measure.</think><tool>{"name": "change-map", "images": ["source", "A", "B"]}'
    model = Opened(OpenAICompatibleModel("vllm", "judge", [url]), call)
    agent = SubAgent(model, ModelJudgeConfig(max_tokens=256, one_order=True))
    [(_, judgment)] = evaluate(agent, open_library("builtin"), examples(1))
    asked = [[message.role for message in request.messages] for request, _ in model.replies]
    turns = ["system", "user", "assistant", "user", "assistant", "user"]
    assert asked == [turns[:2], turns[:4], turns[:6]]
    observed = model.replies[1][0].messages[3].parts[0].text
    assert observed.startswith('<obs>{"A": {')
    # What a random model says by itself is no answer; the form is enforced when it is asked again.
    assert model.replies[1][0].schema is None and model.replies[2][0].schema is not None
    assert json.loads(model.replies[2][1].text)["preference"] == judgment.preference and judgment.judged
    assert [step.kind for step in judgment.steps if step.kind != "think"] == ["tool", "obs", "reply", "answer"]
    # Each turn finds nearly all of the turn before in the server's cache, images included.
    for (_, before), (_, after) in zip(model.replies[:-1], model.replies[1:], strict=True):
        assert after.usage.input_tokens - 256 > before.usage.input_tokens - 256 > 0
        assert after.usage.cached_tokens > before.usage.input_tokens - 256


def test_both_orders_share_their_beginning_in_the_cache(url: str) -> None:
    agent = SubAgent(OpenAICompatibleModel("vllm", "judge", [url]), ModelJudgeConfig(protocol="direct"))
    one_order = ModelJudgeConfig(protocol="direct", one_order=True)
    before = metrics(url)
    evaluate(SubAgent(agent.model, one_order), open_library("builtin"), examples(1))
    between = metrics(url)
    [(_, judgment)] = evaluate(agent, open_library("builtin"), examples(1))
    after = metrics(url)
    assert judgment.judged
    hits = "vllm:prefix_cache_hits_total"
    single, double = between[hits] - before[hits], after[hits] - between[hits]
    # The system text is there from the first judgment on; the second order finds it once more.
    assert double > single and after["vllm:mm_cache_hits_total"] - between["vllm:mm_cache_hits_total"] >= 3


def test_many_judgments_side_by_side(url: str) -> None:
    model = OpenAICompatibleModel("vllm", "judge", [url])
    judged = evaluate(SubAgent(model, ModelJudgeConfig(protocol="direct")), EMPTY, examples(24), concurrency=24)
    assert [example.id for example, _ in judged] == [f"e{number}" for number in range(24)]
    assert all(judgment.judged and judgment.usage.calls >= 2 for _, judgment in judged)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_rh_score_says_an_answer_of_the_model_or_why_there_is_none(
    url: str, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for name in ("source", "first", "second"):
        paths.append(tmp_path / f"{name}.png")
        paths[-1].write_bytes(picture().data)
    command = ["score", "--source", str(paths[0]), "--candidate", str(paths[1]), "--candidate", str(paths[2])]
    command += ["--instruction", "make the box red", "--judge", f"vllm:judge@{url}", "--protocol", protocol, "--json"]
    status = main(command)
    record = json.loads(capsys.readouterr().out)
    assert record["judge"] == "vllm:judge" and record["usage"]["calls"] >= 2
    assert record["usage"]["input_tokens"] > 500
    if status == 3:
        assert record["preference"] is None and record["scores"] == {}
        assert record["failure"]["code"] in {"no_answer", "truncated"} and record["failure"]["message"]
        return
    assert status == 0 and record["failure"] is None
    # Nothing is made up: each of the two showings has an answer of its own, and they alone make the preference.
    said = [json.loads(step["text"]) for step in record["steps"] if step["kind"] == "answer"]
    assert len(said) == 2
    if protocol in {"chain", "direct"}:
        votes = {said[0]["preference"], {"A": "B", "B": "A"}[said[1]["preference"]]}
        rewards = {label: each["reward"] for label, each in record["scores"].items()}
        if len(votes) == 1:
            assert record["preference"] == votes.pop()
        elif rewards["A"] == rewards["B"]:
            assert record["preference"] is None and record["inconsistent"]
        else:
            assert record["preference"] == max(rewards, key=lambda label: rewards[label])


def test_rh_score_folder_is_remembered(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ["id,instruction,source,candidate_a,candidate_b"]
    for number in range(3):
        names = [f"{name}{number}.png" for name in "sab"]
        for name in names:
            (tmp_path / name).write_bytes(picture().data)
        rows.append(",".join([f"e{number}", "make the box red", *names]))
    (tmp_path / "pairs.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    command = ["score", str(tmp_path), "--judge", f"vllm:judge@{url}", "--protocol", "direct", "--json"]
    before = metrics(url)["vllm:prompt_tokens_total"]
    assert main([*command, "--run", str(tmp_path / "one")]) == 0
    between = metrics(url)["vllm:prompt_tokens_total"]
    assert main([*command, "--run", str(tmp_path / "two")]) == 0
    assert metrics(url)["vllm:prompt_tokens_total"] == between > before
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{"))
    assert first["judged"] == second["judged"] == 3


# ---- what is said about serving


PARSE = """
import sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])
print(parsed.limit_mm_per_prompt, parsed.structured_outputs_config, parsed.tensor_parallel_size, sep="|")
"""


def test_vllm_understands_what_rh_serve_vllm_prints(capsys: pytest.CaptureFixture[str]) -> None:
    if not PYTHON:
        pytest.skip("RH_TEST_VLLM_PYTHON names no Python with vLLM")
    arguments = ["some/model-7B", "--gpus", "2", "--tensor-parallel", "2", "--json"]
    assert main(["serve", "judge", *arguments]) == 0
    command = json.loads(capsys.readouterr().out)["servers"][0]["command"]
    given = command[command.index("serve") + 2 :]
    environment = {**os.environ, "PYTHONPATH": str(SERVE.parent / "shim")}
    parsed = subprocess.run(
        [PYTHON, "-c", PARSE, *given], capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert parsed.returncode == 0, parsed.stderr[-2000:]
    images, structured, size = parsed.stdout.splitlines()[-1].split("|")
    assert "8" in images and "xgrammar" in structured and size == "2"


def test_rh_doctor_finds_nothing_lacking(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--judge", f"vllm:judge@{url}", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    host = url.removeprefix("http://").partition("/")[0]
    asked = [check for check in checks if check["name"].startswith(host)]
    assert len(asked) == 7 and all(check["status"] == "ok" for check in asked) and "vllm-" in asked[0]["detail"]


# ---- profiles of published reward models


def fitting(profile: Profile, example: Example) -> Example:
    """Give an example the category, notes and reference image that the first call of a profile is made for."""
    call = next(iter(profile.calls.values()))
    notes = {need: f"The {need}." for need in call.needs if need != "reference"}
    references = example.candidates[:1] if "reference" in call.needs else ()
    return replace(example, category=next(iter(call.only), ""), notes=notes, references=references)


@pytest.mark.parametrize("name", shipped_profiles())
def test_a_profile_is_answered_with_scores_or_a_typed_failure(url: str, tmp_path: Path, name: str) -> None:
    judge = open_judge(
        f"{stand_in(name, tmp_path, max_tokens=48)}:judge@{url}", no_cache=True, one_order=True, retries=0
    )
    given = [fitting(load_profile(name)[0], example) for example in examples(2)]
    judgments = [judgment for _, judgment in evaluate(judge, EMPTY, given)]
    assert len(judgments) == 2 and all(judgment.protocol.startswith(f"profile:{name}@") for judgment in judgments)
    for judgment in judgments:
        assert judgment.usage.calls and judgment.usage.input_tokens > 64, "the images arrived"
        if judgment.failure is None:
            assert judgment.preference in {"A", "B", "tie"}
            assert all(0 <= scores.reward <= 1 for scores in judgment.scores.values())
        else:
            reads_tokens = any(call.reply.tokens for call in load_profile(name)[0].calls.values())
            assert judgment.failure.code in {"no_answer"} | ({"truncated"} if not reads_tokens else set())
            assert judgment.preference is None and judgment.margin is None and not judgment.scores


def test_a_profile_that_counts_tokens_of_this_model_gets_scores_from_their_probabilities(
    url: str, tmp_path: Path
) -> None:
    profile = load_profile("edit-r1")[0]
    call = profile.calls["rate"]
    of = {chr(code): (code - 33) / 93 for code in range(33, 127)}
    tokens = replace(call.reply.tokens, of=of, least=1e-6)
    profile = replace(profile, calls={"rate": replace(call, reply=replace(call.reply, tokens=tokens))}, check=())
    judge = open_judge(f"{stand_in('edit-r1', tmp_path, profile=profile)}:judge@{url}", no_cache=True)
    judgments = [judgment for _, judgment in evaluate(judge, EMPTY, examples(2))]
    rewards = [scores.reward for judgment in judgments for scores in judgment.scores.values()]
    assert len(rewards) == 4 and all(0 <= reward <= 1 for reward in rewards)
    assert len(set(rewards)) > 1, "the images matter"
