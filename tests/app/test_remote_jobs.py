"""Evolutions from the page as jobs on the local Hub, at this computer and for visitors of a Space."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from evolve_parts import make_timid, services_of
from hub_parts import Hub, running_hub

from app.library.libraries import ANONYMOUS, RightsError, Visitor
from app.run_panel.new_jobs import NewJob, expect_remote
from rewardharness.errors import HarnessError, InputError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.remote.config import RemoteConfig

WHERE = RemoteConfig(on="hf-jobs", timeout="2h", push_to="ann/evolved")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub(tmp_path, monkeypatch) as found:
        yield found


def test_a_visitor_pays_with_their_own_account_for_data_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    hub.server.store.create("ann/votes", kind="datasets")
    settings = replace(hub.settings("space"), feedback_repo="ann/votes", library=str(make_timid(tmp_path / "own")))
    settings = replace(settings, service_keys={"openai": "owner-key"}, gemini_key="owner-key")
    bob = Visitor("bob", hub.server.login("bob"))
    wish = EvolveConfig("feedback", library=settings.library, judge="vllm:some/Model-7B", corrections="/etc/passwd")
    where = replace(WHERE, push_to=None)
    job, preview = expect_remote(NewJob(wish, where=where), settings, bob, local=False)
    assert isinstance(job.config, EvolveConfig)
    assert (job.config.data, job.config.library, job.config.corrections) == ("hf:ann/votes", "builtin", None)
    assert job.environment["HF_TOKEN"] == bob.token and job.environment["GEMINI_API_KEY"] == ""
    assert preview["remote"]["writes"] == ["datasets/bob/rewardharness-runs"]
    assert preview["remote"]["flavor"] == "a10g-large" and bob.token not in str(preview)
    for config, error in (
        (replace(wish, data="/etc"), InputError),
        (replace(wish, judge="vllm:m@http://10.0.0.1:8000/v1"), InputError),
        (replace(wish, judge="gemini:pro"), InputError),
        (replace(wish, data="hf:ann/hidden"), HarnessError),
    ):
        with pytest.raises(error):
            expect_remote(NewJob(config, where=where), settings, bob, local=False)
    with pytest.raises(RightsError, match="not logged in"):
        expect_remote(NewJob(wish, where=where), settings, ANONYMOUS, local=False)


def test_jobs_need_the_login_of_this_computer(hub: Hub, tmp_path: Path) -> None:
    services = services_of(tmp_path / "home", tmp_path / "scratch", HF_ENDPOINT=hub.server.url)
    with pytest.raises(HarnessError, match="need a login"):
        services.expect(NewJob(EvolveConfig("demo"), where=WHERE))
