import threading
from copy import deepcopy
from pathlib import Path

from app_parts import Pictures, make_services

from app.library.libraries import Choice
from app.score.comparisons import ComparisonQueue, ComparisonRequest, Running


def begin(tmp_path: Path, pictures: Pictures) -> Running:
    return make_services(tmp_path).start(pictures.draft(), Choice())


def taken(queue: ComparisonQueue, who: str) -> ComparisonRequest:
    request = queue.take(who)
    assert request is not None
    return request


def test_what_was_asked_for_once_is_taken_up_once() -> None:
    queue = ComparisonQueue()
    assert queue.take("") is None
    queue.ask("")
    queue.ask("")
    taken(queue, "").end()
    assert queue.take("") is None
    queue.ask("")
    assert taken(queue, "").forgotten is False


def test_a_comparison_that_waits_to_begin_can_be_made_void() -> None:
    queue = ComparisonQueue()
    queue.ask("")
    queue.forget()
    assert queue.take("") is None
    queue.replace("one sample")
    queue.replace("another")
    assert queue.take("one sample") is None and queue.take("another") is not None


def test_a_key_too_many_neither_disturbs_what_is_under_way_nor_begins_another() -> None:
    queue = ComparisonQueue()
    queue.replace("sample")
    request = taken(queue, "sample")
    queue.ask("")
    assert queue.take("") is None and not request.forgotten and not request.replaced


def test_who_has_read_the_last_word_may_ask_at_once_and_waits_for_its_end() -> None:
    queue = ComparisonQueue()
    queue.ask("")
    request = taken(queue, "")
    request.ending = True
    queue.ask("")
    found: list[ComparisonRequest | None] = []
    waiting = threading.Thread(target=lambda: found.append(queue.take("")))
    waiting.start()
    while not request.replaced:
        assert waiting.is_alive()
    assert found == []
    request.end()
    waiting.join()
    assert found[0] is not None


def test_the_next_one_begins_when_the_one_before_has_fallen_silent(tmp_path: Path, pictures: Pictures) -> None:
    queue = ComparisonQueue()
    queue.replace("one sample")
    before = taken(queue, "one sample")
    running = before.begin(begin(tmp_path, pictures))
    queue.replace("another")
    assert running.forgotten
    found: list[ComparisonRequest | None] = []
    waiting = threading.Thread(target=lambda: found.append(queue.take("another")))
    waiting.start()
    while not before.replaced:
        assert waiting.is_alive()
    assert found == []  # it waits for this:
    before.end()
    waiting.join()
    assert found[0] is not None and not found[0].forgotten


def test_what_is_forgotten_before_its_judge_is_open_comes_to_nothing(tmp_path: Path, pictures: Pictures) -> None:
    queue = ComparisonQueue()
    queue.ask("")
    request = taken(queue, "")
    queue.forget()
    running = request.begin(begin(tmp_path, pictures))
    list(running.follow())
    assert running.result() is None and not request.replaced


def test_stop_reaches_a_comparison_whose_judge_is_still_being_opened(tmp_path: Path, pictures: Pictures) -> None:
    queue = ComparisonQueue()
    queue.ask("")
    request = taken(queue, "")
    queue.stop()
    running = request.begin(begin(tmp_path, pictures))
    assert running._cancel.requested and not running.forgotten


def test_each_visitor_has_turns_of_their_own() -> None:
    queue = ComparisonQueue()
    queue.ask("")
    assert deepcopy(queue).take("") is None and queue.take("") is not None
