import threading
from copy import deepcopy
from pathlib import Path

from app_parts import Pictures

from app.libraries import Choice
from app.running import Running
from app.services import AppServices
from app.turns import Turn, Turns
from rewardharness.settings import Settings


def begin(tmp_path: Path, pictures: Pictures) -> Running:
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home"), "RH_WORKERS": "1"})
    services = AppServices(settings, tmp_path / "scratch", local=True)
    return services.start(str(pictures.source), (str(pictures.bad), str(pictures.good)), pictures.instruction, Choice())


def taken(turns: Turns, who: str) -> Turn:
    turn = turns.take(who)
    assert turn is not None
    return turn


def test_what_was_asked_for_once_is_taken_up_once() -> None:
    turns = Turns()
    assert turns.take("") is None
    turns.ask("")
    turns.ask("")
    taken(turns, "").end()
    assert turns.take("") is None
    turns.ask("")
    assert taken(turns, "").forgotten is False


def test_a_comparison_that_waits_to_begin_can_be_made_void() -> None:
    turns = Turns()
    turns.ask("")
    turns.forget()
    assert turns.take("") is None
    turns.replace("one sample")
    turns.replace("another")
    assert turns.take("one sample") is None and turns.take("another") is not None


def test_a_key_too_many_neither_disturbs_what_is_under_way_nor_begins_another() -> None:
    turns = Turns()
    turns.replace("sample")
    turn = taken(turns, "sample")
    turns.ask("")
    assert turns.take("") is None and not turn.forgotten and not turn.replaced


def test_who_has_read_the_last_word_may_ask_at_once_and_waits_for_its_end() -> None:
    turns = Turns()
    turns.ask("")
    turn = taken(turns, "")
    turn.conclude()
    turns.ask("")
    found: list[Turn | None] = []
    waiting = threading.Thread(target=lambda: found.append(turns.take("")))
    waiting.start()
    while not turn.replaced:
        assert waiting.is_alive()
    assert found == []
    turn.end()
    waiting.join()
    assert found[0] is not None


def test_the_next_one_begins_when_the_one_before_has_fallen_silent(tmp_path: Path, pictures: Pictures) -> None:
    turns = Turns()
    turns.replace("one sample")
    before = taken(turns, "one sample")
    running = before.begin(begin(tmp_path, pictures))
    turns.replace("another")
    assert running.forgotten
    found: list[Turn | None] = []
    waiting = threading.Thread(target=lambda: found.append(turns.take("another")))
    waiting.start()
    while not before.replaced:
        assert waiting.is_alive()
    assert found == []  # it waits for this:
    before.end()
    waiting.join()
    assert found[0] is not None and not found[0].forgotten


def test_what_is_forgotten_before_its_judge_is_open_comes_to_nothing(tmp_path: Path, pictures: Pictures) -> None:
    turns = Turns()
    turns.ask("")
    turn = taken(turns, "")
    turns.forget()
    running = turn.begin(begin(tmp_path, pictures))
    list(running.follow())
    assert running.result() is None and not turn.replaced


def test_each_visitor_has_turns_of_their_own() -> None:
    turns = Turns()
    turns.ask("")
    assert deepcopy(turns).take("") is None and turns.take("") is not None
