"""The Python API on drawn data: score, Libraries, evolve, benchmark, and a reward function.

python examples/python_api.py              # everything but the Hub
python examples/python_api.py you/library  # also pushes the evolved Library to your repository
"""

import sys
import tempfile
from pathlib import Path

import rewardharness as rh
from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import make_demo


def main(folder: Path, repo: str = "", *, pairs: int = 24, side: int = 256, proposals: int = 4) -> dict[str, object]:
    """Run the snippets of the README one after the other; returns what they made."""
    make_demo(folder / "data", pairs=pairs, groups=0, side=side)
    example = read_folder(folder / "data").examples[0]
    source, (a, b) = example.source, example.candidates

    judge = rh.open_judge("measured")  # or "vllm:NAME@URL", "hf:NAME", "openrouter:NAME", "gemini:NAME"
    result = judge.score(source, [a, b], "make the chair red")  # path, bytes, Pillow image or array
    print(result.preference, result.margin, result.scores["A"].reward)

    lib = rh.Library.from_pretrained("builtin")  # or a folder, or ("org/name", revision="v0.3.0")
    results = judge.score_dataset(folder / "data", library=lib)  # or a datasets.Dataset, list of dicts, Hub id
    print(len(results), results.report.by_label_kind)

    run = rh.evolve(folder / "data", library=lib, judge=judge, orchestrator="builtin", proposals=proposals)
    run.library.save_pretrained(folder / "library")
    print(run.report.ending, run.folder)

    report = rh.benchmark(folder / "data", judge=judge, library=run.library)  # or "genai-bench", ...
    print(report)

    reward = rh.EditReward(judge=judge, library=run.library)  # in process; or EditReward(url=..., release=...)
    values = reward(["make the chair red"], ["the reply of a policy"], images=[[source]], edited=[a])
    print(values)

    made: dict[str, object] = {"result": result, "results": results, "run": run, "report": report, "values": values}
    if repo:
        made["pushed"] = lib.push_to_hub(repo, bump="minor")
        made["again"] = rh.Library.from_pretrained(repo)  # or revision="v0.1.0"
    return made


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch), *sys.argv[1:2])
