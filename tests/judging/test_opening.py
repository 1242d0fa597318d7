"""A judge is opened by its spelling, and that of a release scores as it did before."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from judge_parts import PREFERS_A, edit, judge_one, redder
from model_server import Call, ModelServer
from release_parts import measured_release, model_release, small_library

from rewardharness.errors import HarnessError, InputError, ReleaseError
from rewardharness.judging.config import JudgeConfig
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge, open_release
from rewardharness.judging.release import MAY_MATTER, PACKAGE, Release, check_installed, make_release, remarks
from rewardharness.judging.release_file import load_release, save_release
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.schema import Usage
from rewardharness.settings import Settings

URL = "http://127.0.0.1:9/v1"


def settings(judge: str = "measured") -> Settings:
    return replace(Settings.from_env(), judge=judge)


def saved(release: Release, folder: Path) -> Release:
    save_release(release, folder / "release.json")
    return load_release(folder / "release.json", id=release.id)


def bodies(server: ModelServer) -> list[dict[str, object]]:
    """What was asked about images, the connection aside."""
    return sorted((call.json for call in server.calls if len(call.images) > 1), key=json.dumps)


@pytest.mark.parametrize(
    "how",
    [
        ModelJudgeConfig("chain", samples=2, tool_calls=2),
        ModelJudgeConfig("direct", one_order=True, temperature=0.3, max_tokens=77, max_pixels=2500, ties=True),
        ModelJudgeConfig("rubric"),
    ],
)
def test_a_model_is_asked_the_very_same_over_http(how: ModelJudgeConfig, tmp_path: Path) -> None:
    scores = {"instruction": 3, "quality": 2}
    said = {"preference": "A", "scores": {"A": scores, "B": {"instruction": 1, "quality": 4}}, **scores}

    def respond(call: Call) -> str | None:
        if len(call.images) < 2:
            return None
        keys = call.json.get("response_format", {}).get("json_schema", {}).get("schema", {}).get("properties", {})
        answer = json.dumps({key: 3 for key in keys} if how.protocol == "rubric" else said)
        return f"<answer>{answer}</answer>" if how.protocol == "chain" else answer

    found = []
    for released in (False, True):
        with ModelServer(respond, uuid_cache=False) as server:
            library = small_library()
            judge = open_judge(f"vllm:judge@{server.url}", settings(), model=how, no_cache=True)
            if released:
                release = saved(make_release("vllm:judge@http://elsewhere/v1", library, how), tmp_path)
                judge = open_release(release, settings(), JudgeConfig(judge=server.url, no_cache=True))
            judgment = judge_one(judge, redder(90, 10), library)
            found.append((replace(judgment, usage=Usage()), bodies(server)))
            assert judgment.judged, judgment.failure
    assert found[0] == found[1]
    assert found[0][1], "the model was asked"


def test_the_endpoint_comes_from_the_caller_or_the_environment() -> None:
    release = model_release("openai:judge")
    for judge, endpoint in (
        ("measured", URL),
        ("measured", f"{URL},http://127.0.0.1:8/v1"),
        ("measured", f"openai:judge@{URL}"),
        (f"openai:judge@{URL}", None),
        (f"vllm:other@{URL}", URL),
    ):
        opened = open_release(release, settings(judge), JudgeConfig(judge=endpoint, no_cache=True))
        assert (opened.name, opened.revision, opened.protocol) == ("openai:judge", release.revision, release.protocol)
    with pytest.raises(InputError, match="nothing says where it is served"):
        open_release(release, settings())
    with pytest.raises(HarnessError, match="OPENAI_API_KEY is not set"):
        open_release(release, settings(), JudgeConfig(judge="openai:judge"))


@pytest.mark.parametrize(
    ("release", "judge", "endpoint", "says"),
    [
        (model_release("vllm:judge"), "measured", f"vllm:other@{URL}", "vllm:other"),
        (model_release("vllm:judge"), "measured", f"openai:judge@{URL}", "openai:judge"),
        (model_release("vllm:judge"), "measured", "measured", "measured"),
        (model_release("vllm:judge"), "measured", "random", "random"),
        (model_release("vllm:judge"), f"vllm:other@{URL}", None, "RH_JUDGE is vllm:other"),
        (model_release("gemini:g"), "measured", "gemini:h", "gemini:h"),
        (model_release("gemini:g"), "measured", URL, "gemini:g"),
        (measured_release(), "measured", f"vllm:judge@{URL}", "vllm:judge"),
        (measured_release(), "measured", URL, "asks no endpoint"),
    ],
)
def test_another_judge_is_refused_by_name(release: Release, judge: str, endpoint: str | None, says: str) -> None:
    with pytest.raises(ReleaseError, match=says) as caught:
        open_release(release, settings(judge), JudgeConfig(judge=endpoint))
    assert caught.value.next_step
    assert "127.0.0.1" not in caught.value.message


def test_the_measured_judge_does_not_mind_what_the_environment_asks() -> None:
    assert isinstance(open_release(measured_release(), settings(f"vllm:judge@{URL}")), MeasuredJudge)


def test_gemini_is_where_it_always_is() -> None:
    pytest.importorskip("google.genai")
    judge = open_release(model_release("gemini:g"), replace(settings(), gemini_key="x"), JudgeConfig(no_cache=True))
    assert judge.name == "gemini:g"


def test_the_router_is_pinned_too() -> None:
    release = make_release("vllm:judge", EMPTY, router=f"vllm:router@{URL}")
    assert "prompt route" in release.code
    for router, says in ((None, "vllm:router, and nothing says"), (f"vllm:another@{URL}", "vllm:another")):
        with pytest.raises(HarnessError, match=says):
            open_release(release, settings(), JudgeConfig(judge=URL, router=router, no_cache=True))
    config = JudgeConfig(judge=URL, router=f"vllm:router@{URL}", no_cache=True)
    assert open_release(release, settings(), config).router.model.id == "vllm:router"
    assert open_release(model_release("vllm:judge"), settings(), config).router is None


@pytest.mark.parametrize("name", ["judging", "measures", "prompt judge", "entries", "images", "models"])
def test_other_code_is_refused_by_name(name: str, tmp_path: Path) -> None:
    release = model_release()
    card = {"made_with": {**release.card["made_with"], PACKAGE: "9.8.7"}, "evaluation": []}
    other = saved(replace(release, code={**release.code, name: "0" * 64}, card=card), tmp_path)
    with pytest.raises(ReleaseError, match=rf"version 9\.8\.7.*: {name} differ") as caught:
        open_release(other, settings(), JudgeConfig(judge=URL))
    assert f"{PACKAGE}==9.8.7" in caught.value.next_step


def test_prompts_that_came_or_went_are_named() -> None:
    release = model_release()
    fewer = {name: each for name, each in release.code.items() if name != "prompt digit"}
    with pytest.raises(ReleaseError, match="prompt digit, prompt gone differ"):
        check_installed(replace(release, code={**fewer, "prompt gone": "0" * 64}))


def test_a_release_with_chinese_prompts_pins_their_wording() -> None:
    release = model_release(prompt_language="zh")
    check_installed(release)
    assert release.model.prompt_language == "zh"
    assert release.code["prompt judge"] != model_release().code["prompt judge"]
    assert open_release(release, settings(), JudgeConfig(judge=URL)).protocol == "chain, both orders, zh prompts"


def test_another_revision_of_the_settings_is_refused() -> None:
    for change in ({"revision": "0" * 64}, {"protocol": "direct, one order"}):
        with pytest.raises(ReleaseError, match="another revision"):
            open_release(replace(model_release(), **change), settings(), JudgeConfig(judge=URL))


def test_ocr_counts_where_text_is_read() -> None:
    library = open_library("builtin")
    release = make_release("measured", library)
    with_ocr = release.settings["ocr"]
    assert isinstance(with_ocr, bool)
    check_installed(release)
    other = replace(release, settings={**release.settings, "ocr": not with_ocr})
    with pytest.raises(ReleaseError, match="OCR") as caught:
        open_release(other, settings())
    assert "[ocr]" in caught.value.next_step
    assert measured_release().settings["ocr"] is None


def test_other_packages_are_a_remark() -> None:
    release = measured_release()
    assert remarks(release) == []
    older = replace(release, card={"made_with": {**release.card["made_with"], "numpy": "1.0"}, "evaluation": []})
    [remark] = remarks(older)
    assert "numpy 1.0" in remark and "numpy" in MAY_MATTER
    open_release(older, settings())


def test_the_caller_may_choose_what_changes_no_score(tmp_path: Path) -> None:
    config = JudgeConfig(judge=URL, protocol="direct", samples=9, no_cache=True)
    judge = open_release(model_release(), settings(), config, pictures=True, deadline=3.0)
    assert judge.settings == replace(ModelJudgeConfig(), deadline=3.0)
    assert judge.pictures and judge.cache is None


EXAMPLE = edit(2, 3)


def image_parts(call: Call) -> list[dict[str, object]]:
    content = [part for message in call.json["messages"] for part in message["content"] if isinstance(part, dict)]
    return [part for part in content if part.get("type") == "image_url"]


@pytest.mark.parametrize("remembers", [True, False])
def test_the_bytes_of_an_image_are_sent_once_where_the_server_remembers_them(remembers: bool) -> None:
    def respond(call: Call) -> str | None:
        """Answer a comparison; what is asked to find out about the server gets a healthy server's answer."""
        return f"<think>x</think><answer>{PREFERS_A}</answer>" if len(image_parts(call)) == 3 else None

    with ModelServer(respond, uuid_cache=remembers) as server:
        judge = open_judge(f"vllm:judge@{server.url}", Settings.from_env(), no_cache=True)
        judgment = judge_one(judge, EXAMPLE)
    assert judgment.judged, judgment.failure
    asked = [call for call in server.calls if len(image_parts(call)) == 3 and not call.is_probe]
    assert len(asked) == 2, "both orders"
    sent = [sum(part["image_url"] is not None for part in image_parts(call)) for call in asked]
    assert sent == ([3, 0] if remembers else [3, 3])
