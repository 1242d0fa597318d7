"""What refining gains: how often the chosen edit is right, by the truth of generated edits and not by the reward.

An editor makes a known fault in a share of its edits of generated requests that nothing was fitted on. Success is that
the edit was made as asked. The first attempt that was judged and the chosen one are compared on the same requests
(McNemar); a request is left out if the judge can grade none of its attempts, and the coverage says so. A judge that did
not choose, the similarity to the source (SSIM), tells how much of the gain of the reward it sees.

    python benchmarks/refine_gain.py [--requests 40] [--faulty 0.5] [--rounds 2] [--n 4] [--seed 4711]
"""

import argparse
import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from rewardharness import open_judge, open_library, refine
from rewardharness.demo.dataset import draw_candidate, known_edits, ways
from rewardharness.demo.edits import KnownEdit, pick
from rewardharness.editors.editor import FunctionEditor
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.judging.report import mcnemar, wilson
from rewardharness.measure.images import encode_png
from rewardharness.settings import Settings


def main() -> None:
    """Refine edits and print success rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("requests", 40), ("rounds", 2), ("n", 4), ("seed", 4711)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--faulty", type=float, default=0.5)
    given = parser.parse_args()
    cases = known_edits(given.requests, seed=given.seed)
    with tempfile.TemporaryDirectory() as home:
        settings = replace(Settings.from_env(), home=Path(home))
        found = [outcome for case in cases if (outcome := one(case, given, settings)) is not None]
    first, chosen = ([outcome[name] for outcome in found] for name in ("first", "chosen"))
    better = sum(now and not before for before, now in zip(first, chosen, strict=True))
    worse = sum(before and not now for before, now in zip(first, chosen, strict=True))
    result = {
        "requests": len(cases),
        "n": len(found),
        "success_first": rate(first),
        "success_chosen": rate(chosen),
        "chosen_faults": Counter(outcome["fault"] for outcome in found if outcome["fault"] != "right"),
        "improved": better,
        "worsened": worse,
        "p": mcnemar(better, worse),
        "gain_by_judge": fmean(outcome["gain"] for outcome in found),
        "gain_by_second": fmean(outcome["second"] for outcome in found if outcome["second"] is not None),
        "n_second": sum(outcome["second"] is not None for outcome in found),
    }
    print(json.dumps(result, indent=2))


def rate(successes: list[bool]) -> tuple[float, float, float]:
    """Return the share with its 95% interval."""
    interval = wilson(sum(successes), len(successes))
    assert interval is not None
    return fmean(successes), interval.low, interval.high


def one(case: KnownEdit, given: argparse.Namespace, settings: Settings) -> dict[str, float | bool | str | None] | None:
    """Refine one request; None if no attempt was judged."""
    roles: dict[int, str] = {}

    def edit(image: object, instruction: str, seed: int) -> np.ndarray:
        rng = np.random.default_rng([seed, given.seed, int(content_id([case.key, case.instruction])[:8], 16)])
        roles[seed] = pick(ways(case), rng) if rng.random() < given.faulty else "right"
        picture, _ = draw_candidate(case, roles[seed], case.source(), case.right(), rng)
        return picture

    judge, library = open_judge("measured", settings), open_library("builtin")
    editor = FunctionEditor(edit, f"{case.key} {case.instruction}")
    second = open_judge("ssim", settings)
    options = {"rounds": given.rounds, "n": given.n, "settings": settings, "second": second}
    try:
        found = refine(encode_png(case.source()), case.instruction, editor, judge, library=library, **options)
    except InputError:
        return None
    judged = [each for each in found.attempts if each.image is not None and not each.failure]
    return {
        "first": roles[judged[0].seed] == "right",
        "chosen": roles[found.attempts[found.best].seed] == "right",
        "fault": roles[found.attempts[found.best].seed],
        "gain": found.gain,
        "second": None if found.second is None else found.second.gain,
    }


if __name__ == "__main__":
    main()
