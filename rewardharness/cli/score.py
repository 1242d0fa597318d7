"""`rh score` and `rh score-folder`."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.bulk.config import ScoreConfig
from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.examples import open_examples
from rewardharness.cli.options import NO_OPTIONS, RunOptions, record_arguments
from rewardharness.data.config import DataConfig
from rewardharness.judging.config import DEFAULT_JUDGE, JudgeConfig, RewardConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.data.source import Dataset
    from rewardharness.judging.identity import JudgeIdentity
    from rewardharness.judging.judge import Judge
    from rewardharness.judging.release import Release
    from rewardharness.library.store import Library
    from rewardharness.schema import Example, Judgment

NOT_JUDGED = 3
"""Exit status when the work was done but something could not be judged."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """One edit, and what is printed about it."""

    source: Path
    """Source image."""
    candidate: tuple[Path, ...]
    """Edited image; up to four, named A, B, C, D. A single one is scored alone. May be repeated."""
    instruction: str
    """Edit instruction."""
    json: bool = False
    """Print one JSON object."""
    show_chain: bool = False
    """Print the reasoning chain."""
    save_overlays: Path | None = None
    """Folder in which overlay images of the observations are saved as PNG."""


score_app = make_app("score", "Judge the candidates of one edit.", {"Judge": JudgeConfig})
folder_app = make_app(
    "score-folder",
    "Judge a dataset.",
    {"Judge": JudgeConfig, "Data": DataConfig, "Run": RunOptions},
    job=True,
)
apps = {"score": score_app, "score-folder": folder_app}


@folder_app.default
def score_folder(config: Annotated[ScoreConfig, Parameter(name="*")], *, options: RunOptions = NO_OPTIONS) -> int:
    """Judge each example of a dataset; with labels, report agreement per kind of label.

    The same command resumes an interrupted run.

    Example: `rh score-folder demo --limit 20`
    """
    return run_folder(config, options, Settings.from_env())


@score_app.default
def score(options: ScoreOptions, *, judge: Annotated[RewardConfig, Parameter(name="*")] = DEFAULT_JUDGE) -> int:
    """Predict which of 2 to 4 candidates people prefer, or score a single one. The default judge needs no model.

    Example: `rh score --source in.png --candidate a.png --candidate b.png --instruction "make the car red"`
    """
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judgments import judgment_json
    from rewardharness.schema import Example, ImageInput

    example = Example(
        id=options.source.stem,
        instruction=options.instruction,
        source=ImageInput(f"source {options.source}", options.source),
        candidates=tuple(ImageInput(f"candidate {path}", path) for path in options.candidate),
    )
    opened = judge.open(Settings.from_env(), pictures=options.save_overlays is not None)
    release = opened.release
    [(_, judgment)] = evaluate(opened.judge, opened.library, [example])
    if options.save_overlays is not None:
        _save_overlays(judgment, options.save_overlays)
    if options.json:
        output.emit(judgment_json(judgment) | ({"release": release.id} if release else {}))
    else:
        _print_judgment(judgment, options.show_chain)
        if release is not None:
            output.say(f"Release {release.id[:12]}")
    return 0 if judgment.judged else NOT_JUDGED


@dataclass(frozen=True)
class _Work:
    """Everything that a run over a set of examples is about."""

    dataset: "Dataset"
    judge: "Judge"
    library: "Library"
    release: "Release | None"
    identity: "JudgeIdentity"
    manifest: dict[str, Any]
    """What must not change while the run goes on."""

    @property
    def caution(self) -> str:
        """Says so where the judge reads a Library that was evolved on these very data; empty otherwise."""
        from rewardharness.library.evolved import caution, data_digests

        digests = data_digests(self.library.lineage) | (self.release.evolved_on if self.release else frozenset())
        if self.dataset.digest not in digests or not self.judge.uses_library:
            return ""
        of_release = f"of release {self.release.id[:12]}" if self.release else self.library.id[:12]
        return caution(f"The Library {of_release}")


def _open_work(config: ScoreConfig, options: RunOptions, settings: Settings) -> _Work:
    dataset = open_examples(config.data, config, settings, quiet=options.quiet)
    from rewardharness.judging.identity import JudgeIdentity

    judge, library, release = config.open(settings)
    identity = JudgeIdentity.of(judge, library, release.id if release else None)
    manifest = {
        "command": "score-folder",
        "data": dataset.digest,
        **identity.to_json(),
        "ties": release.settings["ties"] if release else config.ties,
        **({"allow_ungradable": True} if config.allow_ungradable else {}),
        **({"skipped_rows": len(dataset.skipped)} if dataset.skipped else {}),
    }
    return _Work(dataset, judge, library, release, identity, manifest)


def manifest_of(config: ScoreConfig, options: RunOptions, settings: Settings) -> dict[str, Any]:
    """Return the manifest that a run would have, without judging anything."""
    return _open_work(config, options, settings).manifest


def run_folder(config: ScoreConfig, options: RunOptions, settings: Settings) -> int:
    """Judge a dataset and print the report. Returns the exit status."""
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judging.report import make_report, report_json
    from rewardharness.judgments import judgment_from_json, result_line
    from rewardharness.runs.records import record_run
    from rewardharness.runs.store import RunFolder

    config = config.with_defaults(settings)
    work = _open_work(config, options, settings)
    dataset, judge, library, manifest = work.dataset.first(config.limit), work.judge, work.library, work.manifest
    examples = dataset.examples
    concurrency = config.concurrency or judge.concurrency
    folder = options.run_folder or _default_run(settings, manifest)
    if options.dry_run:
        output.say(f"{len(examples)} examples of {dataset.name}, judge {judge.name}, Library {library.id[:12]}.")
        output.say(f"Results would go to {folder}. Nothing was judged.")
        return 0
    how = asdict(judge.settings) if judge.settings else None
    record = record_run(
        record_arguments(config, options), settings, config=config, how=how, skipped_rows=dataset.skipped_json()
    )
    with RunFolder(folder, manifest, restart=options.restart, record=record) as run:
        known = run.results()
        left = [example for example in examples if example.id not in known]
        if len(left) < len(examples) and not options.quiet:
            output.note(f"{len(examples) - len(left)} of {len(examples)} are judged already in {folder}.")
        with output.Progress(len(examples), "judging", done=len(examples) - len(left), quiet=options.quiet) as bar:

            def keep(example: "Example", judgment: "Judgment") -> None:
                run.append(result_line(judgment))
                bar.step()

            evaluate(judge, library, left, concurrency=concurrency, on_judgment=keep)
        results = run.results()
    judged = [(example, judgment_from_json(results[example.id])) for example in examples]
    report = make_report(judged, skipped=len(dataset.skipped))
    if options.json:
        told = {"skipped_rows": dataset.skipped_json(), "results": str(folder / "results.jsonl")}
        evolved_on = {"evolved_on": True} if work.caution else {}
        output.emit({**report_json(report), **told, **work.identity.to_json(), **evolved_on})
    else:
        _print_report(report_json(report))
        if work.caution:
            output.say(work.caution)
        failed = next((judgment for _, judgment in judged if judgment.failure), None)
        if failed is not None and failed.failure is not None:
            output.say(f"Such as {failed.example_id}: {failed.failure.code}: {failed.failure.message}")
        output.say(str(work.identity))
        output.say(f"One line per example: {folder / 'results.jsonl'}")
    return 0 if report.judged == report.n else NOT_JUDGED


def _default_run(settings: Settings, manifest: dict[str, Any]) -> Path:
    from rewardharness.files import content_id

    return settings.home / "runs" / f"score-{content_id(manifest)[:12]}"


def _save_overlays(judgment: "Judgment", folder: Path) -> None:
    import json

    from rewardharness.files import write_bytes

    name = "observation"
    for step in judgment.steps:
        if step.kind == "tool":
            name = str(json.loads(step.text)["name"])
        if step.picture is not None:
            write_bytes(folder / f"{step.subject}-{name}.png", step.picture)
    output.note(f"Overlays saved in {folder}.")


def _print_judgment(judgment: "Judgment", show_chain: bool) -> None:
    from rewardharness.judging.identity import JudgeIdentity

    if show_chain:
        for step in judgment.steps:
            output.say(f"<{step.kind}>{step.text}</{step.kind}>")
        output.say()
    if judgment.failure is not None:
        output.say(f"Not judged: {judgment.failure.message}")
        return
    if judgment.preference is not None:
        order = " > ".join(" = ".join(level) for level in judgment.ranking)
        tie = "No preference" if judgment.undecided else "A tie"
        verdict = tie if judgment.preference == "tie" else f"{judgment.preference} is preferred"
        margin = "" if judgment.margin is None else f", margin {judgment.margin:.3f}"
        confidence = "" if judgment.confidence is None else f", confidence {judgment.confidence:.2f} of 1"
        if judgment.inconsistent:
            output.say(
                "The judge was inconsistent: its answers in different orders contradict each other. It is no tie."
            )
        else:
            output.say(f"{verdict} ({order}){margin}{confidence}")
            if judgment.position_consistent is False:
                output.say("The answer changed with the order of the candidates, so trust it little.")
    rows = [
        (label, _score(each.instruction), _score(each.quality), _score(each.reward, digits=3))
        for label, each in judgment.scores.items()
    ]
    if rows:
        output.table(("candidate", "instruction 1-4", "quality 1-4", "reward 0-1"), rows)
    for line in (*judgment.reasons, *judgment.notes):
        output.say(f"- {line}")
    who = JudgeIdentity(judgment.judge, "", judgment.protocol, judgment.library_id)
    output.say(f"{who}; {judgment.usage.seconds:.2f} s")


def _score(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print_report(report: dict[str, Any]) -> None:
    rows = [
        (kind, str(each["n"]), str(each["judged"]), output.share(each["accuracy"], each["interval"]))
        for kind, each in report["by_label_kind"].items()
    ]
    groups = report["groups"]
    if groups["n"]:
        best = output.share(groups["best_accuracy"], groups["interval"])
        rows.append(("groups of 3 and 4: best found", str(groups["n"]), str(groups["judged"]), best))
    if rows:
        output.table(("label kind", "n", "judged", "accuracy [95 % interval]"), rows)
    output.say(
        f"{report['judged']} of {report['n']} judged (coverage {output.share(report['coverage'])}); "
        f"same answer in both orders: {output.share(report['position_consistency'])}"
    )
    if report["ties_left_out"]:
        count = report["ties_left_out"]
        examples = "1 example labelled tie is" if count == 1 else f"{count} examples labelled tie are"
        output.say(f"{examples} left out of accuracy: ties were not offered to the judge. Give --ties to offer them.")
    if report["failures"]:
        output.say("Not judged: " + ", ".join(f"{code} {count}" for code, count in report["failures"].items()))
