"""The profile `editscore` and the package `editscore` 0.2, whose parsers need neither torch nor a model."""

import json
import random
from importlib.resources import files as resources
from types import SimpleNamespace
from typing import Any

import pytest

from rewardharness.files import sha256
from rewardharness.judging.answers import ReplyProblem
from rewardharness.judging.profile_opening import _compose, load_profile
from rewardharness.judging.profile_replies import read_values
from rewardharness.models.base import Reply

editscore: Any = pytest.importorskip("editscore", exc_type=ImportError)
PROFILE = load_profile("editscore")[0]
KINDS = ("usual", "fenced", "after", "quotes", "range", "cut")
UNREAD = ("range", "cut")
"""Replies that the profile refuses. The package repairs or guesses them."""
REASONS = ("The hat is green.", 'The sign says "TEA", as asked.', "A seam\nat the rim, {here}.", "Über 10 % heller.")


def made_replies() -> list[tuple[str, Reply]]:
    """Make 50 replies, of each kind in turn."""
    made = random.Random(7)
    replies = []
    for kind in (KINDS * 9)[:50]:
        scores = [made.choice([made.randint(0, 25), made.randint(0, 50) / 2]) for _ in range(2)]
        if kind == "range":
            scores[made.randint(0, 1)] = made.choice([-3, 26, 100])
        said = json.dumps({"reasoning": made.choice(REASONS), "score": scores}, indent=made.choice([None, 2]))
        if kind == "fenced":
            said = f"```json\n{said}\n```"
        elif kind == "after":
            said = f"My rating:\n{said}\nI hope that this helps."
        elif kind == "quotes":
            said = said.replace('\\"', '"').replace("The hat", 'The "hat"')
        elif kind == "cut":
            said = said[: made.randint(10, len(said) - 2)]
        replies.append((kind, Reply(said, finish_reason="length" if kind == "cut" else "stop")))
    return replies


def package_scores(text: str) -> list[list[float] | None]:
    """Return what both parsers of the package read; None for nothing."""
    from editscore.json_parser import parse_vlm_output_to_dict
    from editscore.utils import mllm_output_to_dict

    found = []
    for parse in (lambda said: mllm_output_to_dict(said, score_range=25), parse_vlm_output_to_dict):
        try:
            scores = [float(each) for each in parse(text)["score"]]
        except (KeyError, TypeError, ValueError, IndexError):
            scores = []
        found.append(scores or None)
    return found


def test_both_read_the_same_scores_and_only_the_package_invents_some() -> None:
    replies = made_replies()
    invented = 0
    for kind, reply in replies:
        values, theirs = read_values(PROFILE, "semantic", reply), package_scores(reply.text)
        if isinstance(values, ReplyProblem):
            assert kind in UNREAD
            invented += any(theirs)
        else:
            ours = [*values.values()]
            assert kind not in UNREAD and theirs == [ours, ours]
    assert len(replies) == 50 and invented >= 10


def test_the_score_is_that_of_the_package() -> None:
    readable = [each for kind, each in made_replies() if kind not in UNREAD]
    scorer = editscore.EditScore(backbone="none", score_range=25)
    for semantic, perceptual in zip(readable, reversed(readable), strict=True):
        answers = {"source": semantic.text, "edit": perceptual.text}
        scorer.model = SimpleNamespace(
            prepare_input=lambda images, text: images,
            inference=lambda images, seed, said=answers: said["source" if images[0] == "source" else "edit"],
        )
        theirs = scorer.evaluate(["source", "edit"], "Make the hat green.")
        values = {**read_values(PROFILE, "semantic", semantic), **read_values(PROFILE, "perceptual", perceptual)}
        nodes = (PROFILE.score, PROFILE.instruction, PROFILE.quality)
        assert [PROFILE.evaluate(node, values) for node in nodes] == pytest.approx(
            [theirs[name] for name in ("overall", "prompt_following", "perceptual_quality")]
        )


def test_the_texts_are_those_of_the_package() -> None:
    scorer = editscore.EditScore(backbone="none", score_range=25)
    for name, theirs in {"semantic": scorer.SC_prompt, "perceptual": scorer.PQ_prompt}.items():
        source = PROFILE.texts[name]
        code = resources("editscore").joinpath("vie_prompts.py").read_bytes()
        assert sha256(code) == source.file_sha256
        assert _compose(source, code.decode()) == theirs and sha256(theirs.encode()) == source.sha256
