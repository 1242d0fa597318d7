"""Judges of numbers: Python functions, scorers over HTTP, and ensembles. A failure is never a number."""

import asyncio
import json
import math
import pickle
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
from judge_parts import edit

from rewardharness import open_judge
from rewardharness.errors import InputError
from rewardharness.judging.config import members_of
from rewardharness.judging.ensemble import EnsembleJudge
from rewardharness.judging.judge import Judge
from rewardharness.library.store import EMPTY
from rewardharness.schema import Judgment

PAIR = edit(110, 140)


def judged(judge: Judge) -> Judgment:
    return asyncio.run(judge.judge(PAIR, EMPTY))


def brightness(source, candidate, instruction):
    return float(np.asarray(candidate).mean()) / 255


async def later(source, a, b, instruction):
    return "B" if np.asarray(b).mean() > np.asarray(a).mean() else "A"


def broken(source, candidate, instruction):
    raise RuntimeError("no weights")


def outside(source, candidate, instruction):
    return 3.5


def silent(source, candidate, instruction):
    return None


def lead(source, a, b, instruction):
    return -0.5


def test_functions_of_one_and_of_two_candidates_judge() -> None:
    one, two, third = (judged(open_judge(each)) for each in (brightness, later, lead))
    assert (one.judge, one.preference) == ("python:brightness", "B")
    assert one.scores["B"].reward == pytest.approx(140 / 255)
    assert (two.preference, two.margin) == ("B", 1.0)
    assert (third.preference, third.margin) == ("B", 0.5)
    free = judged(open_judge(outside, span=None))
    assert free.preference == "tie" and free.scores["A"].reward == pytest.approx(1 / (1 + math.exp(-3.5)))


@pytest.mark.parametrize("function", [broken, outside, silent])
def test_a_function_without_a_number_is_a_failure(function) -> None:
    judgment = judged(open_judge(function))
    assert judgment.failure.code == "bad_response" and function.__name__ in judgment.failure.message
    assert judgment.preference is None and not judgment.scores


class Scorer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, asked))
        status, said = self.server.answers.pop(0)
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def scorer() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scorer)
    server.asked, server.answers = [], []
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def own(reward):
    return {"results": [{"ok": reward is not None, "reward": reward, "error": {"message": "not an image"}}]}


FORMS = [
    ("http:{}", lambda value: own(value), 0.25, 0.25, "/score"),
    ("http+flow-factory:{}", lambda value: {"rewards": [value]}, -2.0, 1 / (1 + math.exp(2)), "/compute"),
    ("http+flow-factory:{}#-3..2", lambda value: {"rewards": [value]}, -2.0, 0.2, "/compute"),
    ("http+unirl:edit@{}", lambda value: {"results": [{"edit": {"first": value, "x": 9.0}}]}, 0.0, 0.5, "/score"),
    ("http+unirl:edit.x@{}", lambda value: {"results": [{"edit": {"first": 9.0, "x": value}}]}, 0.0, 0.5, "/score"),
]


@pytest.mark.parametrize(("spec", "answer", "value", "reward", "route"), FORMS)
def test_scorers_are_asked_in_their_own_form(scorer, spec, answer, value, reward, route) -> None:
    scorer.answers = [(200, answer(value))] * 2
    judge = open_judge(spec.format(f"http://127.0.0.1:{scorer.server_port}"))
    judgment = judged(pickle.loads(pickle.dumps(judge)))
    assert judgment.scores["A"].reward == pytest.approx(reward) and judgment.preference == "tie"
    assert [path for path, _ in scorer.asked] == [route] * 2
    assert PAIR.instruction in json.dumps(scorer.asked[0][1])


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([(200, own(None))] * 2, "bad_response"),
        ([(200, own(1.5))] * 2, "bad_response"),
        ([(200, own(True))] * 2, "bad_response"),
        ([(200, {"results": []})] * 2, "bad_response"),
        ([(200, b"<html>")] * 2, "bad_response"),
        ([(400, b"")] * 2, "bad_request"),
        ([(404, b"")] * 2, "model_not_found"),
    ],
)
def test_what_a_scorer_cannot_score_is_a_failure(scorer, answers, code) -> None:
    scorer.answers = answers
    judgment = judged(open_judge(f"http:http://127.0.0.1:{scorer.server_port}"))
    assert judgment.failure.code == code and not judgment.scores


@pytest.mark.parametrize(
    "spec", ["http:", "http:here", "http+unirl:http://h", "http:http://h#1..0", "http:http://u:p@h"]
)
def test_a_wrong_address_names_the_spelling(spec: str) -> None:
    with pytest.raises(InputError) as error:
        open_judge(spec)
    assert "http+unirl:NAME@URL" in error.value.next_step and "u:p" not in error.value.message


def test_an_ensemble_averages_and_says_how_far_its_members_differ() -> None:
    ensemble = EnsembleJudge((open_judge(brightness), open_judge("closer")))
    judgment, apart = judged(ensemble), [judged(each) for each in ensemble.members]
    rewards = [each.scores["B"].reward for each in apart]
    assert judgment.scores["B"].reward == pytest.approx(sum(rewards) / 2)
    assert judgment.scores["B"].variance == pytest.approx((rewards[0] - rewards[1]) ** 2 / 2)
    assert [each.preference for each in apart] == ["B", "A"] and "judges" in judgment.notes[-1]
    assert ensemble.name == "mean(python:brightness, closer (baseline))"


def test_what_one_member_cannot_judge_the_ensemble_does_not_judge() -> None:
    judgment = judged(EnsembleJudge((open_judge(brightness), open_judge(broken))))
    assert judgment.failure.code == "bad_response" and judgment.failure.message.startswith("python:broken")
    assert judgment.preference is None and not judgment.scores


def test_standardized_members_have_equal_weight() -> None:
    def wide(source, candidate, instruction):
        return 1 - float(np.asarray(candidate).mean()) / 255

    def narrow(source, candidate, instruction):
        return 0.5 + float(np.asarray(candidate).mean()) / 25500

    plain = EnsembleJudge((open_judge(wide), open_judge(narrow)))
    several = [edit(level, level + 20) for level in (60, 100, 140)]
    data = [[asyncio.run(member.judge(each, EMPTY)) for each in several] for member in plain.members]
    assert judged(plain).preference == "A"
    fair = plain.standardized(data)
    assert abs(judged(fair).margin) < 1e-9 < judged(plain).margin and fair.revision != plain.revision
    with pytest.raises(InputError, match="too few"):
        plain.standardized([data[0], []])


def test_the_spelling_of_an_ensemble() -> None:
    two = "mean(vllm:a@http://h:1,http://h:2, mean(random, ssim))"
    assert members_of(two) == ["vllm:a@http://h:1,http://h:2", "mean(random, ssim)"]
    assert members_of("measured") is None
    assert judged(open_judge("mean(closer, mean(closer, farther))")).preference == "A"
    with pytest.raises(InputError, match="at least two"):
        open_judge("mean(random)")
