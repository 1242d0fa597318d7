"""Improving an edit, without a browser: who may, how it stops, and what visitors are not told."""

import threading
from pathlib import Path

import pytest
from app_parts import Pictures, make_services

from app.library.libraries import Choice
from app.score.comparisons import ComparisonQueue
from app.score.improving import IMPROVE, Improving, result
from rewardharness.editors.refine import Attempt, Refined
from rewardharness.errors import InputError
from rewardharness.schema import ImageInput


def test_an_editor_is_named_by_the_owner_and_visitors_have_so_many_edits(tmp_path: Path, pictures: Pictures) -> None:
    assert not make_services(tmp_path).improves
    with pytest.raises(InputError, match="no editor"):
        make_services(tmp_path, RH_EDITOR="nonsense")
    assert make_services(tmp_path, RH_EDITOR="painter:0.2", RH_EDITS="0").improves
    assert not make_services(tmp_path, local=False, RH_EDITOR="painter:0.2", RH_EDITS="7").improves
    space = make_services(tmp_path, local=False, RH_EDITOR="painter:0.2", RH_EDITS="16")
    (tmp_path / "scratch").mkdir(exist_ok=True)
    found = space.compare(pictures.draft(), Choice())

    def improve(owner: str) -> Refined:
        return space.improve(found, "A", owner, lambda *_: None, lambda: True)

    assert improve("one").ended == "Stopped."
    with pytest.raises(InputError, match="today"):
        improve("one")
    assert improve("two").best == 0
    with pytest.raises(InputError, match="today"):
        improve("three")
    assert not (tmp_path / "home" / "cache" / "edits").exists(), "images of visitors are not kept"


def test_start_over_and_stop_reach_it() -> None:
    queue, stopped, seen = ComparisonQueue(), threading.Event(), threading.Event()

    def work(tell: object, stop: object) -> Refined:
        seen.set()
        while not stop():  # type: ignore[operator]
            stopped.wait(0.01)
        stopped.set()
        raise InputError("It was stopped.", next_step="")

    queue.ask(IMPROVE)
    turn = queue.take(IMPROVE)
    assert turn is not None
    running = turn.begin(Improving(work))
    assert seen.wait(10)
    queue.ask("another")
    assert queue.take("another") is None, "the visitor has one at a time"
    queue.forget()
    assert list(running.follow())[-1:] in ([], ["Stopping after the judgment in progress"]) and stopped.is_set()
    with pytest.raises(InputError, match="stopped"):
        running.result()


@pytest.mark.parametrize("local", [True, False])
def test_what_an_editor_says_is_shown_to_its_owner_alone(tmp_path: Path, local: bool) -> None:
    attempts = (
        Attempt(0, 0, "<b>Do</b> it.", 0.25, problems=("<i>Dark</i>.",)),
        Attempt(1, 1, "<b>Do</b> it better.", None, failure="http://10.0.0.1 failed"),
    )
    shown = result(Refined(attempts, 0, 0.0, "Ended.", "judge"), "A", ImageInput("", tmp_path / "x"), local=local)
    assert "No attempt was better than candidate A" in shown and "Download" not in shown
    assert "0.250" in shown and "<b>Do" not in shown and "<i>" not in shown
    assert ("10&#46;0" in shown) is local
