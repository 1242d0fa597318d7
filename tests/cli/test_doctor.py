"""`rh doctor --judge`: what an endpoint can do, and what to do about what it cannot."""

from pathlib import Path
from typing import Any

import pytest
from commands import Rh
from model_server import Fault, ModelServer, refused_url

from rewardharness.models.probe import find_local_servers as find

KEY = "sk-" + "never-shown"


def doctor(rh: Rh, judge: str, status: int = 0) -> dict[str, dict[str, str]]:
    shown = rh("doctor", "--judge", judge, "--json", status=status)
    assert KEY not in shown.out + shown.err
    return {check["name"]: check for check in shown.json["checks"]}


def test_a_server_that_can_do_everything(rh: Rh) -> None:
    with ModelServer() as server:
        checks = doctor(rh, f"vllm:judge@{server.url}")
    at = f"127.0.0.1:{server.port}"
    assert {"python", "numpy", "state folder", "library"} <= checks.keys()
    assert checks["judge"]["detail"] == "vllm:judge" and "not set" in checks["key"]["detail"]
    assert "serves judge" in checks[at]["detail"] and "local-1" in checks[at]["detail"]
    for what in ("vision", "requests", "structured output", "logprobs", "image cache"):
        assert (checks[f"{at} {what}"]["status"], checks[f"{at} {what}"]["next_step"]) == ("ok", "")
    assert "8192" in checks[f"{at} length"]["detail"] and "--max-model-len" in checks[f"{at} length"]["next_step"]


def blind(call: Any) -> Any:
    return Fault("bad_image") if call.images else None


def crowded(call: Any) -> Any:
    return Fault("too_many_images") if len(call.images) > 2 else None


@pytest.mark.parametrize(
    ("options", "what", "status", "said"),
    [
        ({"drops": ("response_format",)}, "structured output", "missing", "--structured-outputs-config"),
        ({"rejects": ("response_format",)}, "structured output", "missing", "--structured-outputs-config"),
        ({"drops": ("logprobs",)}, "logprobs", "missing", "another protocol"),
        ({"rejects": ("uuid",)}, "image cache", "missing", "vLLM"),
        ({"rejects": ("seed", "stop")}, "requests", "ok", "without seed, stop"),
        ({"respond": crowded}, "requests", "problem", "more images"),
        ({"respond": blind}, "vision", "problem", "vision-language model"),
    ],
)
def test_what_is_lacking_has_a_next_step(rh: Rh, options: dict[str, Any], what: str, status: str, said: str) -> None:
    respond = options.pop("respond", None)
    with ModelServer(*filter(None, [respond]), **options) as server:
        found = doctor(rh, f"openai:judge@{server.url}", int(status == "problem"))[f"127.0.0.1:{server.port} {what}"]
    assert found["status"] == status and said in found["detail"] + found["next_step"]


def test_a_wrong_key_and_a_wrong_name_and_nobody_there(rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_API_KEY", KEY)
    with ModelServer(key="another") as server:
        checks = doctor(rh, f"vllm:judge@{server.url}", 1)
        at = f"127.0.0.1:{server.port}"
        assert checks[at]["status"] == "problem" and "RH_API_KEY" in checks[at]["next_step"]
        assert "is set" in checks["key"]["detail"]
    with ModelServer(key=KEY) as server:
        at = f"127.0.0.1:{server.port}"
        checks = doctor(rh, f"vllm:juge@{server.url}", 1)
        assert "'judge'" in checks[at]["detail"] and "a name that it serves" in checks[at]["next_step"]
        checks = doctor(rh, f"vllm:judge@{server.url},{refused_url()}", 1)
        assert checks[at]["status"] == "ok"
        (gone,) = [check for check in checks.values() if "cannot be reached" in check["detail"]]
        assert "Check the address" in gone["next_step"]


def test_judges_of_other_kinds(rh: Rh, tmp_path: Path) -> None:
    assert "no server" in doctor(rh, "measured")["judge"]["detail"]
    script = tmp_path / "replies.jsonl"
    for text, status in (('{"text": "yes"}', "ok"), ('{"error": "unauthorized"}', "problem")):
        script.write_text(f"{text}\n", encoding="utf-8")
        assert doctor(rh, f"scripted:{script}", int(status != "ok"))["judge"]["status"] == status
    assert "vllm:NAME@URL" in doctor(rh, "vlm:judge", 1)["judge"]["next_step"]


def test_for_people_the_next_steps_follow_the_table(rh: Rh) -> None:
    shown = rh("doctor", "--judge", f"vllm:judge@{refused_url()}", status=1).out
    assert "PROBLEM" in shown and "Check the address and that the server is running." in shown
    assert shown.rstrip().endswith("There are problems; see above.")


def test_local_servers_are_listed_with_the_judge_to_use(rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer() as server:
        monkeypatch.setattr("rewardharness.models.probe.find_local_servers", lambda: find({"vLLM": server.port}))
        line = doctor(rh, "measured")[f"local server at {server.url}"]
        assert line["status"] == "ok" and "judge (does not say if it accepts images)" in line["detail"]
        assert line["next_step"] == f"Judge with it: --judge vllm:judge@{server.url}"
        monkeypatch.setenv("SYSTEM", "spaces")
        assert not any(name.startswith("local") for name in doctor(rh, "measured")), "a Space looks at no ports"
