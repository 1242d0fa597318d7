"""What the commands that judge many edits share: judge, Library, run folder, progress, cost first."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.cli.options import RunOptions, record_arguments
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.bulk.config import ScoreConfig
    from rewardharness.data.source import Dataset
    from rewardharness.judging.best_of import Method
    from rewardharness.judging.judge import Judge


OUTCOME = "outcome.json"
"""File of a run folder that says what was decided."""


class Work:
    """Many edits that are judged by one judge with one Library, into one run folder.

    Args:
        config: Judge, Library and data.
        options: Run folder and printing.
        settings: The settings.
        dataset: The edits; they may have any number of candidates.
        command: Name of the command.
        more: What else makes one run another.
        times: How often each is judged; a judge that cannot answer differently is asked once.
    """

    def __init__(
        self,
        config: "ScoreConfig",
        options: RunOptions,
        settings: Settings,
        dataset: "Dataset",
        command: str,
        more: Mapping[str, Any],
        times: int = 1,
    ) -> None:
        self.config = config.with_defaults(settings)
        self.options = options
        self.settings = settings
        self.dataset = dataset
        self.judge, self.library, self.release = self.config.open(settings)
        self.identity = JudgeIdentity.of(self.judge, self.library, self.release.id if self.release else None)
        self.draws = self._draws(times)
        self.manifest = {
            "command": command,
            "data": dataset.digest,
            **self.identity.to_json(),
            **({"allow_ungradable": True} if config.allow_ungradable else {}),
            **more,
        }

    @cached_property
    def folder(self) -> Path:
        """The run folder."""
        from rewardharness.files import content_id

        chosen: Path | None = self.options.run_folder
        name = f"{self.manifest['command']}-{content_id(self.manifest)[:12]}"
        return chosen or self.settings.home / "runs" / name

    def _draws(self, times: int) -> dict[str, "Judge"]:
        """The judge once for each time that it is asked, by what its judgments are marked with."""
        if times == 1 or self.judge.settings is None:
            return {"": self.judge}
        samples = self.judge.settings.samples
        return {f"@{number}": self.judge.with_samples(samples, number * samples) for number in range(times)}

    def cost(self, method: "Method | None") -> int:
        """How many judgments there are to make, remembered ones included."""
        from rewardharness.bulk.scoring import total_cost

        return len(self.draws) * (
            len(self.dataset.examples) if method is None else total_cost(self.dataset.examples, method)
        )

    def tell_cost(self, method: "Method | None") -> int:
        """Say what the work would take; nothing is judged."""
        output.say(
            f"{len(self.dataset.examples)} edits of {self.dataset.name}: {self.cost(method)} judgments by "
            f"{self.judge.name}, Library {self.library.id[:12]}."
        )
        output.say(f"Judgments would be kept in {self.folder}. Nothing was judged.")
        return 0

    def run(self, method: "Method | None") -> dict[str, dict[str, Any]]:
        """Judge what is not judged yet.

        Args:
            method: How candidates are held against each other; None to judge each example as it is.

        Returns:
            The results by id.
        """
        from rewardharness.bulk.scoring import judge_all, tagged
        from rewardharness.runs.records import record_run
        from rewardharness.runs.store import RunFolder

        concurrency = self.config.concurrency or self.judge.concurrency
        skipped = self.dataset.skipped_json()
        record = record_run(
            record_arguments(self.config, self.options), self.settings, config=self.config, skipped_rows=skipped
        )
        with RunFolder(self.folder, self.manifest, restart=self.options.restart, record=record) as run:
            known = run.results()
            wanted = {name for tag in self.draws for name in tagged(self.dataset.examples, method, tag)}
            before = len(wanted & known.keys())
            if before and not self.options.quiet:
                output.note(f"{before} of {len(wanted)} are judged already in {self.folder}.")
            with output.Progress(len(wanted), "judging", done=before, quiet=self.options.quiet) as bar:
                for tag, judge in self.draws.items():
                    judge_all(
                        self.dataset.examples,
                        judge,
                        self.library,
                        method,
                        run,
                        concurrency=concurrency,
                        tag=tag,
                        on_judgment=lambda judgment: bar.step(),
                    )
            return run.results()

    def keep_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Keep what was decided, without numbers of judgments, for a replay to compare."""
        from rewardharness.files import write_json

        write_json(self.folder / OUTCOME, outcome)

    def write(self, name: str, lines: Iterable[Mapping[str, Any]]) -> Path:
        """Write lines into the run folder, atomically; return the file."""
        import json

        from rewardharness import files

        path = self.folder / name
        files.write_text(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        return path
