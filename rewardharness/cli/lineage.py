"""`rh lineage`: keep records of what was planned and observed, compare them, draw where everything came from."""

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from rewardharness.cli import lineage_views, output
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.runs.forms import Body, Release, Reward, Subject
    from rewardharness.runs.lineage import Items, Lineage
    from rewardharness.runs.reports import Found

_ID = re.compile(r"[0-9a-f]{64}")
ACTIVITIES = ("training", "filtering", "best-of-n", "other")
STATUSES = ("succeeded", "failed", "stopped")
STAGES = ("preflight", "data", "reward", "training", "saving", "evaluation", "unknown")

METRIC_HELP = (
    "NAME,higher or NAME,lower, then with commas what is known: value=, n= (asked), judged= (answered), low= and "
    "high= (interval at 95%%), or correct= with judged= for a share; at=PLACE takes all from --report; with --items "
    "the mean of the items is the value"
)


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        "lineage",
        help="from preferences to trained models: records",
        description="Keep records of what was planned and observed, compare them, draw where everything came from.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_manifest(parts)
    _add_result(parts)
    _add_eval(parts)
    lineage_views.register_parts(parts)


def _add_manifest(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    one = parts.add_parser("record-manifest", help="keep what is planned", description=record_manifest.__doc__)
    one.add_argument("name", help="name of the manifest, such as flux-grpo-1")
    one.add_argument("--activity", choices=ACTIVITIES, default="training", help="what is going to be done")
    one.add_argument("--base-model", required=True, metavar="NAME", help="the model that it starts from")
    one.add_argument("--base-revision", default="", metavar="REV", help="its commit or version")
    reward = one.add_mutually_exclusive_group()
    reward.add_argument("--release", type=Path, metavar="FILE", help="the reward release that gives rewards")
    reward.add_argument("--library", metavar="LIBRARY", help="the Library that gives rewards, or its id")
    one.add_argument("--data", metavar="NAME", help="the dataset")
    one.add_argument("--data-revision", default="", metavar="REV", help="its commit, version or digest")
    one.add_argument("--trainer", metavar="NAME", help="who does the work, such as verl-omni")
    one.add_argument("--trainer-version", default="", metavar="VERSION", help="its version or commit")
    one.add_argument(
        "--config", type=Path, metavar="FILE", help="what it is told: one JSON object; secrets are refused"
    )
    one.add_argument("--seed", type=int, action="append", default=[], metavar="N", help="a seed; may be repeated")
    one.add_argument(
        "--expect", action="append", default=[], metavar="METRIC", help="as in accuracy,higher,target=0.8; repeatable"
    )
    one.add_argument("--parent", action="append", default=[], metavar="RECORD", help="a record that this builds on")
    _add_common(one, record_manifest)


def _add_result(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    one = parts.add_parser("record-result", help="keep what came of a manifest", description=record_result.__doc__)
    one.add_argument("manifest", help="name or id of the manifest")
    one.add_argument("--status", choices=STATUSES, required=True, help="how it ended")
    one.add_argument("--stage", choices=STAGES, help="where it failed")
    one.add_argument("--message", metavar="TEXT", help="why it failed")
    one.add_argument(
        "--artifact",
        action="append",
        default=[],
        metavar="NAME=PLACE",
        help="something it left: a file or folder, which is hashed, or an address, then #sha256:HASH; repeatable",
    )
    one.add_argument("--steps", type=int, metavar="N", help="steps that were done")
    one.add_argument("--curve", type=Path, metavar="FILE", help="the reward curve: JSON lines, or trainer_state.json")
    one.add_argument("--curve-key", default="reward", metavar="KEY", help="key of the reward in it (default: reward)")
    one.add_argument("--wall-seconds", type=float, metavar="S", help="how long it took")
    _add_common(one, record_result)


def _add_eval(parts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    one = parts.add_parser("record-eval", help="keep what something is worth", description=record_eval.__doc__)
    one.add_argument("name", help="name of the eval")
    subject = one.add_mutually_exclusive_group()
    subject.add_argument(
        "--artifact", metavar="RESULT/NAME", help="an artifact of a result; /NAME where it has several"
    )
    subject.add_argument("--release", type=Path, metavar="FILE", help="a reward release")
    subject.add_argument("--library", metavar="LIBRARY", help="a Library, or its id")
    subject.add_argument("--model", metavar="NAME[@REV]", help="a model that no record speaks of, such as a base model")
    one.add_argument("--benchmark", metavar="NAME", help="what was measured on")
    one.add_argument("--task", default="", metavar="NAME", help="which part of it")
    one.add_argument("--revision", default="", metavar="REV", help="version or digest of its data")
    one.add_argument("--metric", action="append", default=[], metavar="METRIC", help=METRIC_HELP)
    one.add_argument(
        "--report", type=Path, metavar="FILE", help="report.json of rh evolve or rh benchmark, which say all this"
    )
    one.add_argument(
        "--row", default="judge", metavar="ROW", help="row of a benchmark: judge (the default), empty, or a key"
    )
    one.add_argument(
        "--items", type=Path, metavar="FILE", help="values example by example: JSON lines with id and the metrics"
    )
    one.add_argument("--protocol", metavar="TEXT", help="how it was measured; evals compare when they agree in it")
    one.add_argument("--measured-by", metavar="TEXT", help="the judge that measured, with revision")
    _add_common(one, record_eval)


def _add_common(parser: argparse.ArgumentParser, function: object) -> None:
    parser.add_argument("--notes", default="", metavar="TEXT", help="what else should be known")
    parser.add_argument("--dry-run", action="store_true", help="check it, say what would be kept, keep nothing")
    lineage_views.add_place(parser)
    parser.set_defaults(run=function)


def record_manifest(arguments: argparse.Namespace, settings: Settings) -> int:
    """Keep what a training, a filtering or a best-of-N is going to do, before it is done."""
    from rewardharness.cli.lineage_inputs import expected, read_config
    from rewardharness.runs.forms import Data, Manifest, Model, Trainer

    kept = lineage_views.open_lineage(arguments, settings)
    if arguments.trainer is None and (arguments.config or arguments.trainer_version):
        raise InputError("A configuration belongs to a trainer.", next_step="Name it with --trainer.")
    if arguments.data is None and arguments.data_revision:
        raise InputError("A revision belongs to a dataset.", next_step="Name it with --data.")
    config = read_config(arguments.config) if arguments.config else {}
    known = kept.read_all()
    body = Manifest(
        activity=arguments.activity,
        base_model=Model(arguments.base_model, arguments.base_revision),
        reward=_reward(arguments),
        data=Data(arguments.data, arguments.data_revision) if arguments.data else None,
        trainer=Trainer(arguments.trainer, arguments.trainer_version, config) if arguments.trainer else None,
        seeds=tuple(arguments.seed),
        expected=tuple(expected(spec) for spec in arguments.expect),
        parents=tuple(kept.find(which, known=known).id for which in arguments.parent),
        notes=arguments.notes,
    )
    return _keep(kept, arguments.name, body, arguments)


def record_result(arguments: argparse.Namespace, settings: Settings) -> int:
    """Keep what came of a manifest. There is one result of each; what is not known is left out, never made up."""
    from rewardharness.cli.lineage_inputs import artifact
    from rewardharness.runs.curves import read_curve
    from rewardharness.runs.forms import Failure, Result

    kept = lineage_views.open_lineage(arguments, settings)
    manifest = kept.find(arguments.manifest, "manifest")
    failure = None
    if arguments.status == "failed":
        if not arguments.stage or not arguments.message:
            raise InputError(
                "A failure is recorded with where and why it failed.",
                next_step=f"Add --message and --stage, one of {', '.join(STAGES)}.",
            )
        failure = Failure(arguments.stage, arguments.message)
    elif arguments.stage or arguments.message:
        raise InputError(f"What {arguments.status} has no --stage and no --message.", next_step="Use --notes.")
    body = Result(
        manifest=manifest.id,
        status=arguments.status,
        failure=failure,
        artifacts=tuple(artifact(spec) for spec in arguments.artifact),
        steps=arguments.steps,
        curve=read_curve(arguments.curve, arguments.curve_key) if arguments.curve else None,
        wall_seconds=arguments.wall_seconds,
        notes=arguments.notes,
    )
    return _keep(kept, manifest.name, body, arguments)


def record_eval(arguments: argparse.Namespace, settings: Settings) -> int:
    """Keep what an artifact, a release, a Library or a model is worth on a benchmark."""
    from rewardharness.cli.lineage_inputs import items, metric, open_report
    from rewardharness.runs.forms import Benchmark, Eval

    kept = lineage_views.open_lineage(arguments, settings)
    report = open_report(arguments.report, arguments.row) if arguments.report else None
    names = [spec.partition(",")[0].strip() for spec in arguments.metric]
    values: Items = items(arguments.items, names) if arguments.items else {}
    metrics = [metric(spec, report, values) for spec in arguments.metric]
    if report is not None and not metrics:
        metrics, values = list(report.metrics), report.items
    benchmark = report.benchmark if report is not None else None
    if arguments.benchmark:
        benchmark = Benchmark(arguments.benchmark, arguments.task, arguments.revision)
    if benchmark is None or not metrics:
        missing = "--benchmark" if benchmark is None else "--metric"
        step = f"Add {missing}, or --report with the report.json of rh evolve or rh benchmark, which says it."
        raise InputError(f"An eval needs {missing}.", next_step=step)
    body = Eval(
        subject=_subject(arguments, kept, report),
        benchmark=benchmark,
        metrics=tuple(metrics),
        protocol=_either(arguments.protocol, report.protocol if report else ""),
        judge=_either(arguments.measured_by, report.judge if report else ""),
        source=report.source if report else None,
        notes=arguments.notes,
    )
    return _keep(kept, arguments.name, body, arguments, values or None)


def _either(given: str | None, known: str) -> str:
    return known if given is None else given


def _keep(kept: "Lineage", name: str, body: "Body", arguments: argparse.Namespace, items: "Items | None" = None) -> int:
    record = kept.preview(name, body, items) if arguments.dry_run else kept.record(name, body, items)
    if arguments.json:
        output.emit({**record.to_json(), "folder": str(kept.folder), "kept": not arguments.dry_run})
        return 0
    what = f"{record.title}, {record.id}"
    output.say(f"Would keep {what}. Nothing was written." if arguments.dry_run else f"Kept {what}")
    return 0


def _reward(arguments: argparse.Namespace) -> "Reward | None":
    from rewardharness.runs.forms import Reward

    if arguments.release is not None:
        return Reward(release=_release(arguments.release))
    return Reward(library=_library_id(arguments.library)) if arguments.library else None


def _release(path: Path) -> "Release":
    """Read a release; one that this program made is checked against its own hashes."""
    from rewardharness.files import read_json
    from rewardharness.judging.release_file import load_release
    from rewardharness.runs.named_files import read_release

    found = read_release(path)
    if "format" in read_json(path):
        load_release(path)
    return found


def _library_id(spec: str) -> str:
    """The id of a Library that a user names, or the id itself, for one that is not at hand."""
    from rewardharness.library.opening import open_library

    return spec if _ID.fullmatch(spec) else open_library(spec).id


def _subject(arguments: argparse.Namespace, kept: "Lineage", report: "Found | None") -> "Subject":
    from rewardharness.runs.forms import Model, Subject

    if arguments.release is not None:
        return Subject(release=_release(arguments.release))
    if arguments.library is not None:
        return Subject(library=_library_id(arguments.library))
    if arguments.model is not None:
        name, _, revision = arguments.model.partition("@")
        return Subject(model=Model(name, revision))
    if arguments.artifact is not None:
        return _artifact(arguments.artifact, kept)
    if report is not None and report.library is not None:
        return Subject(library=report.library)
    raise InputError(
        "It is not said what the eval is about.", next_step="Add --artifact, --release, --library, --model."
    )


def _artifact(spec: str, kept: "Lineage") -> "Subject":
    from rewardharness.runs.forms import Result, Subject

    which, _, name = spec.partition("/")
    record = kept.find(which, "result")
    assert isinstance(record.body, Result)
    names = [each.name for each in record.body.artifacts]
    if not name and len(names) == 1:
        name = names[0]
    if name not in names:
        raise InputError(
            f"{record.title} left no artifact {name!r}."
            if name
            else f"It is not said which artifact of {record.title}.",
            next_step=f"Artifacts: {', '.join(names) or 'none'}. Write {which}/NAME.",
        )
    return Subject(result=record.id, artifact=name)
