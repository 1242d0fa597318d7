"""`rh lineage`: provenance records of trainings, evals and comparisons."""

import re
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from rewardharness.cli import lineage_show as inputs
from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.lineage_show import Common, check, compare, show
from rewardharness.codec import to_json
from rewardharness.errors import InputError
from rewardharness.files import read_json
from rewardharness.library.opening import open_library
from rewardharness.lineage import records
from rewardharness.lineage.records import BenchmarkRef, Items, NamedRevision
from rewardharness.lineage.reports import ReportFacts, read_report
from rewardharness.lineage.store import Lineage, read_curve, read_release

app = make_app("lineage", "Provenance records: what was planned, observed and compared.")
app.command(show)
app.command(compare)
app.command(check, name="check-regression")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RecordOptions(Common):
    """Options of the commands that record."""

    notes: str = ""
    """Free text."""
    dry_run: bool = False
    """Check everything, and write nothing."""

    def save(self, name: str, body: records.Body, items: Items | None = None) -> int:
        """Store a record and print it."""
        lineage = self.open()
        record = lineage.record(name, body, items, dry_run=self.dry_run)
        if self.json:
            output.emit({**to_json(record.stored), "folder": str(lineage.folder), "recorded": not self.dry_run})
        else:
            done = "Checked, not recorded:" if self.dry_run else "Recorded"
            output.say(f"{done} {record.title}, {record.id}")
        return 0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ManifestOptions(RecordOptions):
    """Options of `record-manifest`."""

    base_model: str
    """Name of the model that the work starts from."""
    base_revision: str = ""
    """Its commit or version."""
    activity: records.Activity = "training"
    """Kind of work."""
    release: Path | None = None
    """File of the release that gives rewards."""
    library: str | None = None
    """Library that gives rewards, or its id."""
    data: str | None = None
    """Name of the dataset."""
    data_revision: str = ""
    """Its commit, version or digest."""
    trainer: str | None = None
    """Training framework, such as trl."""
    trainer_version: str = ""
    """Its version or commit."""
    config: Path | None = None
    """JSON file with the trainer's configuration. Secrets are rejected."""
    seed: tuple[int, ...] = ()
    """Random seed; may be repeated."""
    expect: tuple[str, ...] = ()
    """Metric that will be evaluated, as in accuracy,higher,target=0.8; may be repeated."""
    parent: tuple[str, ...] = ()
    """Record that this one builds on; may be repeated."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ResultOptions(RecordOptions):
    """Options of `record-result`."""

    status: records.Status
    """Outcome."""
    stage: records.Stage | None = None
    """Stage that failed."""
    message: str | None = None
    """Cause of the failure."""
    artifact: tuple[str, ...] = ()
    """Output, as NAME=PATH (hashed) or NAME=URL#sha256:HASH; may be repeated."""
    steps: int | None = None
    """Number of training steps."""
    curve: Path | None = None
    """Reward curve: JSON lines, or trainer_state.json."""
    curve_key: str = "reward"
    """Key of the reward in the curve."""
    wall_seconds: float | None = None
    """Duration in seconds."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvalOptions(RecordOptions):
    """Options of `record-eval`."""

    report: Path | None = None
    """report.json of rh evolve or rh benchmark; it supplies all other options."""
    row: str = "judge"
    """Row of a benchmark report: judge, empty, or a key."""
    artifact: str | None = None
    """Artifact of a result, as RESULT/NAME; RESULT is enough if it has one."""
    release: Path | None = None
    """File of a release."""
    library: str | None = None
    """Library, or its id."""
    model: str | None = None
    """Model without a record, as NAME or NAME@REVISION."""
    benchmark: str | None = None
    """Name of the benchmark."""
    task: str = ""
    """Part of the benchmark."""
    revision: str = ""
    """Version or digest of its data."""
    metric: tuple[str, ...] = ()
    """As NAME,higher,value=0.8 or NAME,lower,value=0.8; see above. May be repeated."""
    items: Path | None = None
    """Values per example: JSON lines with id and the metrics."""
    protocol: str | None = None
    """Protocol of the measurement. Comparable evals have the same."""
    measured_by: str | None = None
    """Judge that measured, with its revision."""


EVAL = EvalOptions()


@app.command
def record_manifest(name: str, /, *, options: ManifestOptions) -> int:
    """Record planned work: a training run, a filtering job or a best-of-N selection.

    Example: rh lineage record-manifest grpo-1 --base-model org/base --release reward.release --trainer trl

    Args:
        name: Name of the manifest.
        options: Options.
    """
    _exclusive(release=options.release, library=options.library)
    if options.trainer is None and (options.config or options.trainer_version):
        raise InputError("--config and --trainer-version need a trainer.", next_step="Add --trainer.")
    if options.data is None and options.data_revision:
        raise InputError("--data-revision needs a dataset.", next_step="Add --data.")
    lineage = options.open()
    known = lineage.read_all()
    reward = records.RewardRef(release=read_release(options.release)) if options.release is not None else None
    if options.library is not None:
        reward = records.RewardRef(library=_library_id(options.library))
    config = read_json(options.config) if options.config else {}
    if not isinstance(config, dict):
        step = "Write the configuration as one JSON object."
        raise InputError(f"{options.config} is not a JSON object.", next_step=step)
    body = records.Manifest(
        activity=options.activity,
        base_model=NamedRevision(options.base_model, options.base_revision),
        reward=reward,
        data=NamedRevision(options.data, options.data_revision) if options.data else None,
        trainer=records.Trainer(options.trainer, options.trainer_version, config) if options.trainer else None,
        seeds=options.seed,
        expected=tuple(map(inputs.expected_metric, options.expect)),
        parents=tuple(lineage.find(which, known=known).id for which in options.parent),
        notes=options.notes,
    )
    return options.save(name, body)


@app.command
def record_result(manifest: str, /, *, options: ResultOptions) -> int:
    """Record the outcome of a manifest. A manifest has one result.

    Example: rh lineage record-result grpo-1 --status succeeded --artifact last=out/checkpoint --curve log.jsonl

    Args:
        manifest: Name or id of the manifest.
        options: Options.
    """
    record = options.open().find(manifest, "manifest")
    failed = options.status == "failed"
    if failed and not (options.stage and options.message):
        raise InputError("A failure needs its stage and cause.", next_step="Add --stage and --message.")
    if not failed and (options.stage or options.message):
        raise InputError("--stage and --message are for --status failed.", next_step="Use --notes.")
    body = records.RunOutcome(
        manifest=record.id,
        status=options.status,
        failure=records.RunFailure(options.stage, options.message) if options.stage and options.message else None,
        artifacts=tuple(map(inputs.artifact, options.artifact)),
        steps=options.steps,
        curve=read_curve(options.curve, options.curve_key) if options.curve else None,
        wall_seconds=options.wall_seconds,
        notes=options.notes,
    )
    return options.save(record.name, body)


@app.command
def record_eval(name: str, /, *, options: EvalOptions = EVAL) -> int:
    """Record metrics of an artifact, a release, a Library or a model on a benchmark.

    A metric is NAME,higher or NAME,lower (which values are better), followed by value=, n= (examples), judged=
    (answers), low= and high= (95% CI); or by correct= and judged=; or by at=PATH to read it from --report. With --items
    the value is their mean.

    Example: rh lineage record-eval after --report runs/evolve-1/report.json

    Args:
        name: Name of the eval.
        options: Options.
    """
    lineage = options.open()
    report = read_report(options.report, options.row) if options.report else None
    names = [spec.partition(",")[0].strip() for spec in options.metric]
    items: Items = inputs.read_items(options.items, names) if options.items else {}
    metrics = tuple(inputs.metric_value(spec, report, items) for spec in options.metric)
    if report is not None and not metrics:
        metrics, items = report.metrics, report.items
    benchmark = report.benchmark if report is not None else None
    if options.benchmark:
        benchmark = BenchmarkRef(options.benchmark, options.task, options.revision)
    if benchmark is None or not metrics:
        missing = "--benchmark" if benchmark is None else "--metric"
        step = f"Add {missing}, or --report with the report.json of rh evolve or rh benchmark."
        raise InputError(f"An eval needs {missing}.", next_step=step)
    protocol, judge = (report.protocol, report.judge) if report else ("", "")
    body = records.Evaluation(
        subject=_subject(options, lineage, report),
        benchmark=benchmark,
        metrics=metrics,
        protocol=protocol if options.protocol is None else options.protocol,
        judge=judge if options.measured_by is None else options.measured_by,
        source=report.source if report else None,
        notes=options.notes,
    )
    return options.save(name, body, items or None)


def _exclusive(**options: object) -> None:
    flags = [f"--{name}" for name, value in options.items() if value is not None]
    if len(flags) > 1:
        raise InputError(f"{' and '.join(flags)} exclude each other.", next_step="Give one of them.")


def _library_id(spec: str) -> str:
    """Return the id of a Library; an id is returned as it is, so that the Library need not be available."""
    return spec if re.fullmatch(r"[0-9a-f]{64}", spec) else open_library(spec).id


def _subject(options: EvalOptions, lineage: Lineage, report: ReportFacts | None) -> records.Subject:
    _exclusive(artifact=options.artifact, release=options.release, library=options.library, model=options.model)
    if options.release is not None:
        return records.Subject(release=read_release(options.release))
    if options.library is not None:
        return records.Subject(library=_library_id(options.library))
    if options.model is not None:
        name, _, revision = options.model.partition("@")
        return records.Subject(model=NamedRevision(name, revision))
    if options.artifact is not None:
        which, _, name = options.artifact.partition("/")
        record = lineage.find(which, "result")
        assert isinstance(record.body, records.RunOutcome)
        names = [artifact.name for artifact in record.body.artifacts]
        name = names[0] if not name and len(names) == 1 else name
        if name not in names:
            problem = f"has no artifact {name!r}" if name else "has several artifacts, or none"
            step = f"Artifacts: {', '.join(names) or 'none'}. Write {which}/NAME."
            raise InputError(f"{record.title} {problem}.", next_step=step)
        return records.Subject(result=record.id, artifact=name)
    if report is not None and report.library is not None:
        return records.Subject(library=report.library)
    raise InputError("The eval has no subject.", next_step="Add --artifact, --release, --library or --model.")
