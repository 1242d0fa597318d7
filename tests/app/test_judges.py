"""Models as judges behind the page, against a local server: who may use what, what it takes, how it ends."""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from app_parts import Pictures, make_services
from judging_model import judging
from model_server import Call, Fault, ModelServer, refused_url

from app.library.libraries import Choice
from app.score.comparisons import Comparison
from app.score.judges import (
    BY_MEASURING,
    ENDPOINT,
    ENVIRONMENT,
    GEMINI,
    HUGGING_FACE,
    PROFILE,
    RETRIES,
    JudgeChoice,
    Key,
    Used,
    judge_choice,
    judge_options,
    place_of,
)
from app.score.releases import RELEASE, Fixed, Places
from app.score.sharing import record
from app.services import AppServices
from rewardharness.errors import DataError, HarnessError, InputError
from rewardharness.judging.config import MEASURED, JudgeConfig
from rewardharness.judging.judge import Judge
from rewardharness.judging.release import make_release
from rewardharness.judging.release_file import save_release
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.opening import open_library
from rewardharness.models.base import ChatRequest, Message, ModelError
from rewardharness.models.probe import LocalServer
from rewardharness.settings import Settings

CANARY = "sk-canary-of-the-services"
SPACE = {"SYSTEM": "spaces", "OAUTH_CLIENT_ID": "app"}


def endpoint(url: str, key: str = "", **asked: object) -> JudgeChoice:
    given = {"protocol": "chain", "both_orders": True, "samples": 1, "max_pixels": None, **asked}
    kept = Key(place_of(ENDPOINT, url), key) if key else None
    return JudgeChoice(ENDPOINT, "vllm", url, "judge", kept, judge_options(**given))  # type: ignore[arg-type]


@pytest.fixture
def server(pictures: Pictures) -> Iterator[ModelServer]:
    with ModelServer(judging(pictures.good, tool="change-map")) as running:
        yield running


@pytest.mark.parametrize("fixed", [False, True])
def test_asking_again_after_a_refused_key_is_answered_at_once(tmp_path: Path, pictures: Pictures, fixed: bool) -> None:
    right, locked = judging(pictures.good), True
    save_release(make_release("vllm:judge", open_library("builtin")), tmp_path / "release.json")

    def answer(call: Call) -> object:
        return Fault("401") if locked else right(call)

    async def ask(agent: SubAgent, opened: Callable[[Used], Judge], judge: JudgeChoice) -> str:
        nonlocal locked
        request = ChatRequest((Message.of("user", "?"),))
        for _ in range(2):
            with pytest.raises(ModelError, match="401"):
                await agent.model.ask(request)
        locked = False
        assert opened(Used(judge, agent)).model is agent.model  # type: ignore[union-attr]
        said = (await agent.model.ask(request)).text
        await agent.model.close()
        return said

    with ModelServer(answer) as server:
        settings = Settings.from_env({"RH_HOME": str(tmp_path), "RH_RELEASE": str(tmp_path / "release.json")})
        release = Fixed(settings, Places(server.url), local=True)
        judge = JudgeChoice(RELEASE) if fixed else endpoint(server.url)
        opened = release.open if fixed else partial(make_services(tmp_path).judges.open, judge)
        agent = opened()
        assert isinstance(agent, SubAgent) and asyncio.run(ask(agent, opened, judge))


def compare(services: AppServices, pictures: Pictures, judge: JudgeChoice) -> Comparison:
    return services.compare(pictures.draft(), Choice(), judge)


def test_every_step_of_every_showing_is_told(tmp_path: Path, pictures: Pictures, server: ModelServer) -> None:
    done = compare(make_services(tmp_path), pictures, endpoint(server.url))
    assert done.judgment.preference == "B" and done.judgment.position_consistent
    assert done.judgment.judge == "vllm:judge" and done.model is not None
    assert [seen.showing.labels for seen in done.model.showings] == [("A", "B"), ("B", "A")]
    for seen in done.model.showings:
        assert [step.kind for step in seen.steps] == ["think", "think", "tool", "obs", "think", "answer"]
        assert seen.answered and seen.steps[3].picture is not None
    spent = done.model.spent
    for usage in (spent.usage, done.judgment.usage):
        assert (usage.calls, usage.input_tokens) == (4, 4000) and usage.output_tokens > 0
    assert spent.cost is None and spent.remembered == 0


def test_cached_answers_and_known_models_cost_less(tmp_path: Path, pictures: Pictures, server: ModelServer) -> None:
    services = make_services(tmp_path, RH_PRICE_INPUT="2", RH_PRICE_OUTPUT="0")
    first = compare(services, pictures, endpoint(server.url))
    assert first.model is not None and first.model.spent.cost == pytest.approx(0.008)
    again = compare(services, pictures, endpoint(server.url))
    assert again.model is not None and again.judgment.preference == "B"
    assert (again.model.spent.remembered, again.model.spent.usage.calls, again.model.spent.cost) == (2, 0, 0.0)
    assert all(seen.answered for seen in again.model.showings)
    asked = server.requests
    running = services.start(pictures.draft(instruction="Make it darker."), Choice(), endpoint(server.url))
    list(running.follow())
    examined, used = server.requests - asked, running.used(endpoint(server.url))
    fresh = services.start(pictures.draft(), Choice(), endpoint(server.url, remember=False), used)
    list(fresh.follow())
    assert server.requests - asked - examined == 4 < examined
    assert used is not None and not used.fits(endpoint(server.url, "another key"))


def test_a_key_goes_where_it_was_typed(tmp_path: Path, pictures: Pictures, caplog: pytest.LogCaptureFixture) -> None:
    services = make_services(tmp_path)
    with ModelServer(judging(pictures.good), key=CANARY) as server:
        good = endpoint(server.url, CANARY)
        assert compare(services, pictures, good).judgment.preference == "B"
        elsewhere = dataclasses.replace(good, key=Key(place_of(ENDPOINT, "https://other.example/v1"), CANARY))
        failed = compare(services, pictures, dataclasses.replace(elsewhere, options=JudgeConfig(no_cache=True)))
        assert failed.judgment.failure is not None and failed.judgment.failure.code == "unauthorized"
        said = json.dumps(record(failed)) + repr(failed) + repr(good) + caplog.text
    assert CANARY not in said
    assert not any(CANARY.encode() in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_a_server_that_is_not_there_is_given_up_soon(tmp_path: Path, pictures: Pictures) -> None:
    judgment = compare(make_services(tmp_path), pictures, endpoint(refused_url())).judgment
    assert judgment.failure is not None and judgment.failure.code == "unreachable"
    assert f"Requests sent: {1 + RETRIES}" in judgment.failure.message


def test_stop_gives_up_what_hangs_and_what_is_forgotten_has_no_result(tmp_path: Path, pictures: Pictures) -> None:
    services = make_services(tmp_path)
    with ModelServer(lambda call: Fault("hang")) as server:
        running = services.start(pictures.draft(), Choice(), endpoint(server.url))
        assert server.wait_for(lambda: server.in_flight > 0)
        assert running.used(endpoint(server.url)) is None
        running.stop()
        list(running.follow())
        assert running.result() is None
        assert server.wait_for(lambda: server.open_connections == 0)
    running.stop()
    running = services.start(pictures.draft(), Choice())
    list(running.follow())
    assert running.result() is not None
    running.forget()
    assert running.result() is None


def test_a_stranger_reaches_no_own_server_and_gets_no_own_key(tmp_path: Path, pictures: Pictures) -> None:
    owner = {"RH_API_KEY": CANARY, "GEMINI_API_KEY": CANARY, "GOOGLE_CLOUD_PROJECT": "p", "HF_TOKEN": CANARY}
    services = make_services(tmp_path, local=False, **owner)
    with pytest.raises(InputError, match="https"):
        compare(services, pictures, endpoint("http://example.org/v1"))
    refused = compare(services, pictures, endpoint("https://127.0.0.1:9/v1")).judgment.failure
    assert refused is not None and refused.code == "not_public"
    for choice in (endpoint("https://example.org/v1"), JudgeChoice(GEMINI, name="m", key=Key("gemini", "mine"))):
        spec, settings = services.judges.spelled(choice)
        assert CANARY not in (spec, settings.api_key, settings.gemini_key) and settings.cloud_project is None
        assert not settings.service_keys and not settings.hf_login
    with pytest.raises(InputError, match="key for Gemini is missing"):
        services.judges.open(JudgeChoice(GEMINI, name="gemini-2.5-pro"))
    assert services.judges.asks_key(GEMINI) and not make_services(tmp_path, **owner).judges.asks_key(GEMINI)
    assert not services.judges.remembers(ENDPOINT) and make_services(tmp_path).judges.remembers(ENDPOINT)


def test_the_judge_of_the_settings_is_offered_first_without_its_address(tmp_path: Path, pictures: Pictures) -> None:
    url = refused_url()
    port = url.split(":")[2].removesuffix("/v1")
    environ = {"RH_JUDGE": f"vllm:org/judge@{url}", "RH_API_KEY": CANARY, "RH_PRICE_INPUT": "1", "RH_PRICE_OUTPUT": "2"}
    here, public = make_services(tmp_path, **environ), make_services(tmp_path, local=False, **environ)
    assert here.judges.choices()[0] == ("From RH_JUDGE: org/judge", ENVIRONMENT)
    assert here.judges.default == here.api_judge().kind == ENVIRONMENT
    assert public.api_judge() == BY_MEASURING, "strangers' programs never spend the owner's money"
    assert public.judges.price(ENVIRONMENT) == (1.0, 2.0) and public.judges.price(ENDPOINT) is None
    mine = JudgeChoice(ENVIRONMENT)
    shown, hidden = (compare(services, pictures, mine) for services in (here, public))
    assert shown.judgment.failure is not None and port in shown.judgment.failure.message and shown.own_judge
    assert hidden.judgment.failure is not None and not hidden.own_judge
    assert hidden.judgment.failure.code == "unreachable" and port not in repr(hidden)
    with pytest.raises(InputError, match="owner of the app"):
        public.judges.check(mine)
    with pytest.raises(InputError, match="Unknown judge"):
        make_services(tmp_path).judges.open(mine)


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (JudgeChoice(ENDPOINT, name="m"), "address of the endpoint is missing"),
        (JudgeChoice(ENDPOINT, url="localhost:8000", name="m"), "must start with http"),
        (JudgeChoice(ENDPOINT, url="http://a/v1,http://b/v1", name="m"), "must start with http"),
        (JudgeChoice(ENDPOINT, url="http://a/v1"), "name of the model is missing"),
        (JudgeChoice(ENDPOINT, url="http://a/v1", name="m@http://b/v1"), "Invalid model name"),
        (JudgeChoice(ENDPOINT, "scripted", "http://a/v1", "m"), "Unknown judge"),
        (JudgeChoice("scripted", name="/etc/passwd"), "Unknown judge"),
        (JudgeChoice(GEMINI, name="m"), "key for Gemini is missing"),
        (JudgeChoice(PROFILE, url="http://a/v1", name="m", profile="none"), "no judge profile 'none'"),
        (JudgeChoice(PROFILE, url="http://a/v1", name="m", profile="/no/mine.yaml"), "cannot be read"),
        (JudgeChoice(PROFILE, url="http://a/v1", profile="editscore"), "name of the model is missing"),
        (JudgeChoice(MEASURED, principles=("The box is red.",)), "Unknown judge"),
    ],
)
def test_an_incomplete_judge_is_named(tmp_path: Path, choice: JudgeChoice, said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        make_services(tmp_path).judges.open(choice)


def test_a_key_belongs_to_scheme_host_and_port_and_options_have_bounds() -> None:
    assert place_of(ENDPOINT, " HTTPS://Host.example:8443/v1 ") == "https://host.example:8443"
    assert place_of(ENDPOINT, "https://user:secret@host/v1") == "https://host"
    assert place_of(GEMINI, "https://host/v1") == GEMINI
    assert place_of(ENDPOINT, "http://[broken") == place_of(ENDPOINT, "") == place_of(MEASURED, "http://host") == ""
    for protocol, samples, pixels in (("magic", 1, None), ("chain", 0, None), ("chain", 99, None), ("chain", 1, 50)):
        with pytest.raises(InputError) as caught:
            judge_options(protocol, True, samples, pixels)
        assert caught.value.next_step


def test_a_protocol_without_ties_is_asked_without_them(tmp_path: Path) -> None:
    judges = make_services(tmp_path).judges
    for protocol, ties in (("chain", True), ("logprob", False)):
        judge = judges.open(endpoint("http://a/v1", protocol=protocol, max_pixels=1000, evidence=True))
        assert isinstance(judge, SubAgent) and judge.settings.ties == ties and judge.settings.max_pixels == 1000
        assert judge.settings.evidence


def test_the_check_tells_what_an_endpoint_can_do(tmp_path: Path) -> None:
    judges = make_services(tmp_path).judges
    with ModelServer(model="judge", key=CANARY) as server:
        [found] = judges.check(endpoint(server.url, CANARY))  # type: ignore[misc]
        assert found.capabilities is not None and found.capabilities.vision and found.capabilities.models == ("judge",)
        [refused] = judges.check(endpoint(server.url, "wrong"))  # type: ignore[misc]
        assert isinstance(refused.error, ModelError) and refused.error.code == "unauthorized"
    with pytest.raises(InputError, match="uses no endpoint"):
        judges.check(BY_MEASURING)


def test_a_missing_critique_hides_the_address_and_is_not_kept(tmp_path: Path, pictures: Pictures) -> None:
    reply = judging(pictures.good)

    def respond(call: Call) -> Any:
        return Fault("bad_request") if "What is wrong with" in call.text else reply(call)

    def judged(used: Used | None = None, **options: Any) -> tuple[Comparison, Used | None]:
        services, choice, judge = make_services(tmp_path, **options), Choice(), JudgeChoice(ENVIRONMENT)
        running = services.start(pictures.draft(), choice, judge, used, critique=used is None)
        list(running.follow())
        done = services.finish(running, choice, judge)
        assert done is not None
        return done, running.used(judge)

    with ModelServer(respond) as model:
        environ = {"RH_JUDGE": f"vllm:judge@{model.url}"}
        shown, used = judged(**environ)
        hidden, _ = judged(local=False, **environ)
        later, _ = judged(used, **environ)
    assert shown.judgment.preference == hidden.judgment.preference == "B"
    told = [[note for note in done.judgment.notes if "critique" in note] for done in (shown, hidden, later)]
    assert len(told[0]) == 2 and str(model.port) in told[0][0] and str(model.port) not in repr(hidden)
    assert told[1:] == [["No critique of A", "No critique of B"], []] and later.judgment.critiques == {}


def test_a_model_of_hugging_face_needs_this_computer_or_the_login_of_the_visitor(tmp_path: Path) -> None:
    here, public = make_services(tmp_path, HF_TOKEN=CANARY), make_services(tmp_path, local=False, HF_TOKEN=CANARY)
    choice = JudgeChoice(HUGGING_FACE, name="Qwen/Qwen2.5-VL-7B-Instruct:hyperbolic")
    assert here.judges.open(choice).name == "hf:Qwen/Qwen2.5-VL-7B-Instruct:hyperbolic"
    assert HUGGING_FACE in [kind for _, kind in here.judges.choices()] and not here.judges.asks_key(HUGGING_FACE)
    assert HUGGING_FACE not in [kind for _, kind in public.judges.choices()]
    with pytest.raises(InputError, match="Unknown judge"):
        public.judges.open(choice)
    with pytest.raises(InputError, match="name of the model is missing"):
        here.judges.open(JudgeChoice(HUGGING_FACE))
    space = make_services(tmp_path, local=False, HF_TOKEN=CANARY, **SPACE).judges
    assert HUGGING_FACE in [kind for _, kind in space.choices()] and not space.remembers(HUGGING_FACE)
    for key in (None, Key(GEMINI, "hf_visitor"), Key("https://router.huggingface.co", "hf_visitor")):
        with pytest.raises(InputError, match="You are not logged in"):
            space.open(dataclasses.replace(choice, key=key))
    spec, settings = space.spelled(dataclasses.replace(choice, key=Key(HUGGING_FACE, "hf_visitor")))
    assert spec == here.judges.open(choice).name and settings.service_keys == {"hf": "hf_visitor"}
    assert CANARY not in repr(vars(settings)) and not settings.hf_login


def test_a_public_app_looks_for_no_servers_of_this_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [LocalServer("vLLM", "http://127.0.0.1:8000/v1", ())]
    monkeypatch.setattr("app.score.judges.find_local_servers", lambda: found)
    apps = (make_services(tmp_path, local=local, **env) for local, env in ((True, {}), (False, {}), (True, SPACE)))
    assert [app.judges.near() for app in apps] == [found, [], []]


def test_strangers_have_shipped_profiles_alone(
    tmp_path: Path, pictures: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps = (make_services(tmp_path / str(here), local=here, RH_API_KEY="mine") for here in (True, False))
    local, public = (app.judges for app in apps)
    own = tmp_path / "mine.yaml"
    own.write_text("profile: 1", encoding="utf-8")
    choice = JudgeChoice(PROFILE, "openai", "http://127.0.0.1:1/v1", "m", profile="editscore")
    assert local.spelled(choice)[0] == "editscore:openai:m@http://127.0.0.1:1/v1"
    assert local.spelled(dataclasses.replace(choice, server="vllm"))[0] == "editscore:m@http://127.0.0.1:1/v1"
    assert judge_choice("editscore:m@http://127.0.0.1:1/v1") == dataclasses.replace(choice, server="vllm")
    for ask in (public.spelled, lambda choice: public.profile(choice.profile)):
        with pytest.raises(InputError, match="no judge profile") as error:
            ask(dataclasses.replace(choice, profile=str(own)))
        assert "path" not in error.value.next_step
    assert public.spelled(choice)[1].api_key is None and not public.remembers(PROFILE) and public.asks_key(PROFILE)

    def refuse(*_: object) -> bytes:
        raise DataError("pypi.org cannot be reached.")

    monkeypatch.setattr("rewardharness.judging.profile_opening._read", refuse)
    with pytest.raises(InputError, match="HTTPS"):  # before anything is fetched
        public.open(choice)
    choice = dataclasses.replace(choice, url="https://127.0.0.1:1/v1")
    with pytest.raises(InputError, match=r"pypi\.org cannot be reached") as error:
        public.open(choice)
    assert "check the network" in error.value.next_step
    monkeypatch.setattr(
        "rewardharness.judging.profile_opening.load_texts", lambda profile, *_: dict.fromkeys(profile.texts, "")
    )
    services = make_services(tmp_path / "False", local=False)
    judgment = compare(services, pictures, choice).judgment
    assert judgment.failure is not None and judgment.failure.code == "not_public"
    assert judgment.protocol.startswith("profile:editscore@")
