"""`rh doctor --judge`: what an endpoint can do, and what to do about what it cannot."""

import json

import pytest
from model_server import Fault, ModelServer, refused_url

from rewardharness.cli.main import main
from rewardharness.models.local import find_local_servers as find

KEY = "sk-" + "never-shown"


def doctor(capsys: pytest.CaptureFixture[str], judge: str) -> tuple[int, dict[str, dict[str, str]], str]:
    status = main(["doctor", "--judge", judge, "--json"])
    shown = capsys.readouterr()
    checks = json.loads(shown.out)["checks"]
    return status, {check["name"]: check for check in checks}, shown.out + shown.err


def test_a_server_that_can_do_everything(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer() as server:
        status, checks, _ = doctor(capsys, f"vllm:judge@{server.url}")
    at = f"127.0.0.1:{server.port}"
    assert status == 0
    assert checks["judge"]["detail"] == "vllm:judge"
    assert "not set" in checks["key"]["detail"]
    assert "serves judge" in checks[at]["detail"]
    assert "local-1" in checks[at]["detail"]
    for what in ("vision", "requests", "structured output", "logprobs", "image cache"):
        assert checks[f"{at} {what}"]["status"] == "ok"
        assert checks[f"{at} {what}"]["next_step"] == ""
    assert "8192" in checks[f"{at} length"]["detail"]
    assert "--max-model-len" in checks[f"{at} length"]["next_step"]


@pytest.mark.parametrize(
    ("options", "what", "status", "step"),
    [
        ({"drops": ("response_format",)}, "structured output", 0, "--structured-outputs-config"),
        ({"rejects": ("response_format",)}, "structured output", 0, "--structured-outputs-config"),
        ({"drops": ("logprobs",)}, "logprobs", 0, "another protocol"),
        ({"rejects": ("uuid",)}, "image cache", 0, "vLLM"),
    ],
)
def test_what_a_server_lacks_has_a_next_step(
    capsys: pytest.CaptureFixture[str], options: dict[str, tuple[str, ...]], what: str, status: int, step: str
) -> None:
    with ModelServer(**options) as server:
        found, checks, _ = doctor(capsys, f"vllm:judge@{server.url}")
    assert found == status
    lacking = checks[f"127.0.0.1:{server.port} {what}"]
    assert lacking["status"] == "missing"
    assert step in lacking["next_step"]


def test_refused_fields_and_refused_requests(capsys: pytest.CaptureFixture[str]) -> None:
    with ModelServer(rejects=("seed", "stop")) as server:
        status, checks, _ = doctor(capsys, f"openai:judge@{server.url}")
    assert status == 0 and "without seed, stop" in checks[f"127.0.0.1:{server.port} requests"]["detail"]
    with ModelServer(lambda call: Fault("too_many_images") if len(call.images) > 2 else None) as server:
        status, checks, _ = doctor(capsys, f"openai:judge@{server.url}")
    assert status == 1 and "more images" in checks[f"127.0.0.1:{server.port} requests"]["detail"]


def test_a_server_that_drops_images_cannot_judge(capsys: pytest.CaptureFixture[str]) -> None:
    def blind(call):
        return Fault("bad_image") if call.images else None

    with ModelServer(blind) as server:
        status, checks, _ = doctor(capsys, f"vllm:judge@{server.url}")
    assert status == 1
    vision = checks[f"127.0.0.1:{server.port} vision"]
    assert vision["status"] == "problem"
    assert "vision-language model" in vision["next_step"]


def test_a_wrong_key_and_a_wrong_name_and_nobody_there(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RH_API_KEY", KEY)
    with ModelServer(key="another") as server:
        status, checks, shown = doctor(capsys, f"vllm:judge@{server.url}")
        at = f"127.0.0.1:{server.port}"
        assert (status, checks[at]["status"]) == (1, "problem")
        assert "RH_API_KEY" in checks[at]["next_step"]
        assert KEY not in shown
        assert "is set" in checks["key"]["detail"]
    with ModelServer(key=KEY) as server:
        status, checks, shown = doctor(capsys, f"vllm:juge@{server.url}")
        at = f"127.0.0.1:{server.port}"
        assert status == 1
        assert "'judge'" in checks[at]["detail"]
        assert "a name that it serves" in checks[at]["next_step"]
        status, checks, shown = doctor(capsys, f"vllm:judge@{server.url},{refused_url()}")
        assert status == 1
        assert checks[f"127.0.0.1:{server.port}"]["status"] == "ok"
        (gone,) = [check for check in checks.values() if "cannot be reached" in check["detail"]]
        assert "Check the address" in gone["next_step"]
        assert KEY not in shown


def test_judges_of_other_kinds(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    status, checks, _ = doctor(capsys, "measured")
    assert (status, checks["judge"]["status"]) == (0, "ok")
    assert "no server" in checks["judge"]["detail"]
    script = tmp_path / "replies.jsonl"
    script.write_text('{"text": "yes"}\n', encoding="utf-8")
    status, checks, _ = doctor(capsys, f"scripted:{script}")
    assert (status, checks["judge"]["status"]) == (0, "ok")
    script.write_text('{"error": "unauthorized"}\n', encoding="utf-8")
    status, checks, _ = doctor(capsys, f"scripted:{script}")
    assert (status, checks["judge"]["status"]) == (1, "problem")
    status, checks, _ = doctor(capsys, "vlm:judge")
    assert status == 1
    assert "vllm:NAME@URL" in checks["judge"]["next_step"]


def test_for_people_the_next_steps_follow_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--judge", f"vllm:judge@{refused_url()}"]) == 1
    shown = capsys.readouterr().out
    assert "PROBLEM" in shown
    assert "Check the address and that the server is running." in shown
    assert shown.rstrip().endswith("There are problems; see above.")


def test_local_servers_are_listed_with_the_judge_to_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer() as server:
        monkeypatch.setattr("rewardharness.models.local.find_local_servers", lambda: find({"vLLM": server.port}))
        _, checks, _ = doctor(capsys, "measured")
        line = checks[f"local server at {server.url}"]
        assert line["status"] == "ok" and "judge (does not say if it accepts images)" in line["detail"]
        assert line["next_step"] == f"Judge with it: --judge vllm:judge@{server.url}"
        monkeypatch.setenv("SYSTEM", "spaces")
        _, checks, _ = doctor(capsys, "measured")
        assert not any(name.startswith("local") for name in checks), "a Space looks at no ports"
