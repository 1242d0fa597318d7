import pytest

from rewardharness.errors import SettingsError
from rewardharness.settings import Settings


def test_an_empty_environment_needs_nothing() -> None:
    settings = Settings.from_env({})
    assert (settings.library, settings.judge, settings.release) == ("builtin", "measured", None)
    assert Settings.from_env({"RH_RELEASE": "deployed:prod"}).release == "deployed:prod"
    assert settings.price_input is settings.price_output is settings.api_key is None


def test_prices_are_numbers_and_free_is_not_unknown() -> None:
    settings = Settings.from_env({"RH_PRICE_INPUT": "0.15", "RH_PRICE_OUTPUT": "0"})
    assert (settings.price_input, settings.price_output) == (0.15, 0.0)


WRONG = {"RH_PRICE_OUTPUT": ("cheap", "-1", "inf", "nan", "1,5"), "RH_WORKERS": ("0", "many", "-3", "99999")}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_is_no_price_or_no_number_of_workers_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        Settings.from_env({name: value})
    assert caught.value.next_step


def test_nothing_secret_is_in_its_representation() -> None:
    settings = Settings.from_env(
        {"RH_API_KEY": "sk-canary", "GEMINI_API_KEY": "g-canary", "RH_JUDGE": "vllm:m@http://u:canary@h/v1"}
    )
    assert settings.judge.startswith("vllm:m") and "canary" not in repr(settings)


def test_the_orchestrator_has_the_key_of_the_judge_unless_it_has_its_own() -> None:
    assert Settings.from_env({"RH_API_KEY": "one"}).orchestrator_key == "one"
    assert Settings.from_env({"RH_API_KEY": "one", "RH_ORCHESTRATOR_API_KEY": "two"}).orchestrator_key == "two"
    assert Settings.from_env({"RH_API_KEY": "one", "RH_ORCHESTRATOR_API_KEY": ""}).orchestrator_key is None
    assert "canary" not in repr(Settings.from_env({"RH_ORCHESTRATOR_API_KEY": "canary"}))
