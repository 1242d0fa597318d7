import asyncio
from dataclasses import replace

import pytest

from rewardharness.errors import DataError, InputError
from rewardharness.models.base import ChatRequest, Message, ModelError
from rewardharness.models.faults import read_error
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.open import model_name, model_urls, open_model, read_script
from rewardharness.models.raw import RawReply
from rewardharness.settings import Settings


def keys(**given) -> Settings:
    return replace(Settings.from_env({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}), **given)


HELLO = ChatRequest((Message.of("user", "hello"),))


@pytest.mark.parametrize(
    ("spec", "id_", "endpoints"),
    [
        ("vllm:Qwen/Qwen2.5-VL-7B@http://a:8000/v1", "vllm:Qwen/Qwen2.5-VL-7B", ["a:8000"]),
        ("vllm:m@http://a:8000/v1,http://b:8000/v1", "vllm:m", ["a:8000", "b:8000"]),
        ("vllm:m@http://a:8000/v1, https://b/v1", "vllm:m", ["a:8000", "b"]),
        ("openai:org/model@rev:2@https://api.example.com/v1", "openai:org/model@rev:2", ["api.example.com"]),
    ],
)
def test_spellings(spec, id_, endpoints):
    model = open_model(spec)
    assert model.id == id_ and [endpoint.alias for endpoint in model.pool.endpoints] == endpoints


UNREADABLE = """vllm vllm: vllm:model vllm:@http://a/v1 vllm:model@ vllm:model@a:8000 vllm:model@http://a/v1, openai:gpt
magic:model@http://a/v1 Qwen/Qwen2.5-VL@http://user:sk-secret@a/v1 vllm:http://user:sk-secret@a/v1
vllm:model@http://user:sk-secret@a/v1""".split()


@pytest.mark.parametrize("spec", ["", *UNREADABLE])
def test_spellings_that_cannot_be_read(spec):
    with pytest.raises(InputError) as caught:
        open_model(spec)
    assert caught.value.next_step and "sk-secret" not in f"{caught.value} {caught.value.next_step}"


def test_limits_reach_the_pool():
    settings = EndpointSettings(api_key="sk-secret", most_in_flight=3)
    assert open_model("vllm:m@http://a/v1", endpoint=settings).pool.endpoints[0].limit.value == 3
    assert "sk-secret" not in repr(settings)


@pytest.mark.parametrize("limits", [{"most_in_flight": 0}, {"request_timeout": 0.0}])
def test_limits_that_allow_nothing(limits):
    with pytest.raises(InputError):
        open_model("vllm:m@http://a/v1", **limits)


def test_a_script_from_a_file(tmp_path):
    path = tmp_path / "replies.jsonl"
    path.write_text(
        '{"text": "A"}\n\n{"error": "timeout"}\n{"text": "B", "finish_reason": "length"}\n', encoding="utf-8"
    )
    model = open_model(f"scripted:{path}")
    assert model.id == "scripted:replies.jsonl" and asyncio.run(model.ask(HELLO)).text == "A"
    with pytest.raises(ModelError) as caught:
        asyncio.run(model.ask(HELLO))
    assert caught.value.code == "timeout" and asyncio.run(model.ask(HELLO)).finish_reason == "length"
    with pytest.raises(ModelError, match="has only 3 replies"):
        asyncio.run(model.ask(HELLO))
    assert model.requests == [HELLO] * 4


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"text": 4}', '{"error": "nonsense"}', '{"text": "A", "other": 1}', '{"error": ["x"]}', "{}"]
)
def test_lines_that_are_no_reply(tmp_path, line):
    path = tmp_path / "replies.jsonl"
    path.write_text(f'{{"text": "A"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_script(path)


def test_a_script_that_does_not_exist(tmp_path):
    with pytest.raises(DataError):
        open_model(f"scripted:{tmp_path}/none.jsonl")


def test_openai_has_an_address_and_a_key_of_its_own() -> None:
    with pytest.raises(InputError, match="OPENAI_API_KEY is not set"):
        open_model("openai:gpt-4o", keys(api_key="for-another-server"))
    own = {"openai": "sk-own", "hf": "hf_other"}
    model = open_model("openai:gpt-4o", keys(api_key="for-another-server", service_keys=own))
    assert model.id == "openai:gpt-4o" and [each.alias for each in model.pool.endpoints] == ["api.openai.com"]
    assert [server._key for server in model._servers.values()] == ["sk-own"]
    elsewhere = open_model("openai:gpt-4o@https://other.example/v1", keys(service_keys={"openai": "sk-own"}))
    assert [server._key for server in elsewhere._servers.values()] == [""]
    assert model_name("openai:gpt-4o") == "gpt-4o" and model_urls("openai:gpt-4o") == ["https://api.openai.com/v1"]


@pytest.mark.parametrize(
    ("spec", "host", "key"),
    [
        ("hf:Qwen/Qwen2.5-VL-7B-Instruct", "router.huggingface.co", "hf_own"),
        ("hf:Qwen/Qwen2.5-VL-7B-Instruct:hyperbolic", "router.huggingface.co", "hf_own"),
        ("openrouter:qwen/qwen2.5-vl-72b-instruct", "openrouter.ai", "sk-or"),
    ],
)
def test_each_hosted_service_gets_its_own_key_only(spec: str, host: str, key: str) -> None:
    own = {"openai": "sk-own", "openrouter": "sk-or", "hf": "hf_own"}
    model = open_model(spec, keys(api_key="for-another-server", service_keys=own))
    assert model.id == spec and model_name(spec) == spec.partition(":")[2]
    assert [each.alias for each in model.pool.endpoints] == [host] and model_urls(spec)[0].startswith(
        f"https://{host}/"
    )
    assert [server._key for server in model._servers.values()] == [key]
    others = keys(api_key="for-another-server", service_keys={"openai": "sk-own"})
    with pytest.raises(InputError, match="needs a key"):
        open_model(spec, others)
    with pytest.raises(InputError, match="cannot have an address"):
        open_model(f"{spec}@https://other.example/v1", keys(service_keys=own))


def test_the_login_of_this_computer_is_used_where_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewardharness.hub.repository.saved_token", lambda: "hf_login")
    model = open_model("hf:some/model", keys(hf_login=True))
    assert [server._key for server in model._servers.values()] == ["hf_login"]
    with pytest.raises(InputError, match="HF_TOKEN is not set"):
        open_model("hf:some/model", keys())
    assert Settings.from_env({}).hf_login and not Settings.from_env({"HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}).hf_login
    assert Settings.from_env({"HF_TOKEN": "hf_x", "OPENAI_API_KEY": ""}).service_keys == {"hf": "hf_x"}
    assert "hf_x" not in repr(Settings.from_env({"HF_TOKEN": "hf_x"}))


def test_used_up_credit_is_explained() -> None:
    error = read_error(RawReply("router.huggingface.co", 402, b"{}"))
    assert error.message == "router.huggingface.co answered 402: no credit is left."
    assert "billing" in error.next_step and not error.retryable
