"""Strangers' endpoints lead to the public internet and nowhere else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.errors import InputError
from rewardharness.models.base import ChatRequest, Message, Model, ModelError
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.open import model_name, open_model
from rewardharness.models.openai_compatible import OpenAICompatibleModel
from rewardharness.models.transport import is_public

HELLO = ChatRequest((Message.of("user", "hello"),))
STRANGER = EndpointSettings(public_only=True, retries=2)


LOCAL = """127.0.0.1 127.8.8.8 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 192.0.2.1 224.0.0.1 255.255.255.255 :: ::1
fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 2001:db8::1 ::ffff:127.0.0.1 ::ffff:a9fe:a9fe ::127.0.0.1
64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 2002:7f00:1:: 2002:a9fe:a9fe::1 2001:0:7f00:1:: localhost
example.org""".split()
CARRIERS, CLOUDS = "100.64.0.1", "169.254.169.254"  # networks of carriers; what clouds tell their machines, as keys
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("address", [*LOCAL, CARRIERS, CLOUDS, "", *PUBLIC])
def test_what_is_public(address: str) -> None:
    assert is_public(address) == (address in PUBLIC)


@settings(max_examples=50)
@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_as_the_one_inside_it(address: object) -> None:
    inside = str(address)
    assert is_public(f"::ffff:{inside}") == is_public(f"64:ff9b::{inside}") == is_public(inside)


HERE = ["127.0.0.1:1", "localhost:1", "127.1:1", "2130706433:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "10.0.0.1"]


async def refused(model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.ask(HELLO)
    await model.close()
    return caught.value


@pytest.mark.parametrize("host", [*HERE, "169.254.169.254"])
async def test_a_stranger_gets_no_connection_to_this_network(host: str) -> None:
    error = await refused(open_model(f"vllm:m@https://{host}/v1", endpoint=STRANGER))
    assert error.code == "not_public" and "equests sent" not in str(error)


async def test_a_stranger_does_not_learn_which_names_exist_here() -> None:
    errors = {}
    for host in ("127.0.0.1:1", "localhost:1", "no-such-name.invalid:1", "printer.internal.invalid:443"):
        model = open_model(f"vllm:m@https://{host}/v1", endpoint=STRANGER)
        assert isinstance(model, OpenAICompatibleModel)
        [probe] = await model.probe()
        assert probe.error is not None
        both = (probe.error, await refused(model))
        errors[host] = tuple((error.code, error.message.replace(host, "-"), error.next_step) for error in both)
    assert len(set(errors.values())) == 1, errors


@pytest.mark.parametrize("spec", ["vllm:m@http://8.8.8.8/v1", "vllm:m@https://a.example/v1,http://127.0.0.1/v1"])
def test_a_stranger_has_to_use_https(spec: str) -> None:
    with pytest.raises(InputError, match="https"):
        open_model(spec, endpoint=STRANGER)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("vllm:Qwen/Qwen2.5-VL-7B@http://a:8000/v1,http://b/v1", "Qwen/Qwen2.5-VL-7B"),
        ("openai:org/model@rev:2@https://api.example.com/v1", "org/model@rev:2"),
        ("gemini:gemini-2.5-pro", "gemini-2.5-pro"),
        ("scripted:/some/where/replies.jsonl", "replies.jsonl"),
        ("vllm:nothing", ""),
    ],
)
def test_a_spelling_tells_the_name_without_addresses(spec: str, name: str) -> None:
    assert model_name(spec) == name
