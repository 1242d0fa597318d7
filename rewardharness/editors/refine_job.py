"""The job of `rh refine`: one edit, improved in a run folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from rewardharness.codec import to_json
from rewardharness.data.tables import original_bytes
from rewardharness.editors.config import RefineConfig
from rewardharness.editors.editor import EditorProtocol, open_editor
from rewardharness.editors.refine import Refined, ask_judge, refine
from rewardharness.errors import InputError
from rewardharness.files import content_id, sha256, write_bytes, write_json
from rewardharness.judging.batches import Batch, JudgeBatches, JudgingJob, expected_cost
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import OpenedJudge, open_reward
from rewardharness.judgments import judgment_from_json, result_line
from rewardharness.measure.images import read_bytes
from rewardharness.runs.job import Progress, Session, Stopped
from rewardharness.runs.results import Results, is_due
from rewardharness.runs.spending import Cost
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import LABELS, Example, ImageInput, Json, Judgment
from rewardharness.settings import Settings

RECORD, BEST = "refined.json", "best.png"


@dataclass(frozen=True)
class RefineJob(JudgingJob[Refined]):
    """Improves one edit in a run folder; see `RefineConfig`. Judgments are kept there by what they are about."""

    name: ClassVar[str] = "refine"

    config: Any
    settings: Settings
    opened: OpenedJudge
    editor: EditorProtocol
    chosen_folder: Path | None = None
    second: OpenedJudge | None = None
    found: list[Refined] = field(default_factory=list, compare=False)

    @classmethod
    def open(
        cls, config: RefineConfig, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
    ) -> Self:
        """See `Job.open`.

        Raises:
            InputError: If the instruction is empty.
            ImageError: If an image cannot be read.
        """
        if not config.instruction.strip():
            raise InputError("The instruction is empty.", next_step="Write it, such as: make the chair red")
        for path in filter(None, (config.image, config.candidate)):
            read_bytes(ImageInput(str(path), path))
        config = config.with_defaults(settings)
        opened, editor = open_reward(config, settings), open_editor(config.editor, settings)
        other = replace(config, judge=config.second_judge, release=None, calibration=None)
        second = open_reward(other, settings) if config.second_judge else None
        return cls(config, settings, opened, editor, folder, second)

    @cached_property
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed; more rounds continue it."""
        files = [path and sha256(path.read_bytes()) for path in (self.config.image, self.config.candidate)]
        return {
            "command": self.name,
            "data": content_id([*files, self.config.instruction]),
            **self.opened.identity.to_json(),
            "editor": self.editor.identity,
            **{name: getattr(self.config, name) for name in ("n", "margin", "seed")},
        }

    @property
    def batches(self) -> list[Batch]:
        """None: what is judged follows from earlier judgments."""
        return []

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the cost of all rounds; what the editor costs is not known."""
        known = 0 if restart else len(results_of(self.folder))
        if not restart and (self.folder / RECORD).is_file():
            return Cost(known, known)
        image, most = ImageInput.of(self.config.image, "source"), len(LABELS)
        counts = [1, min(self.config.n + 1, most), 2] * self.config.rounds  # critique, attempts, lead
        counts = counts if self.config.candidate else [min(self.config.n, most), *counts[3:]]
        stand_ins = [Example("refine", self.config.instruction, image, (image,) * count) for count in counts[known:]]
        return Cost(max(len(counts), known), known) + expected_cost(self.opened.judge, stand_ins, self.opened.library)

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """See `Job.preview`."""
        cost = self.cost(restart=restart, retry_failed=retry_failed)
        return {"folder": str(self.folder), "edits": self.config.rounds * self.config.n, **cost.priced(self.limits)}

    def judge_in(self, run: RunFolder, session: Session, judge: JudgeBatches) -> Results:
        """Refine with the judgments of earlier sessions."""
        results = run.results()

        def ask(by: Judge, images: tuple[ImageInput, ...], critique: bool) -> Judgment:
            about = [original_bytes(image) for image in images]
            own = JudgeIdentity.of(by, self.opened.library).to_json()
            name = content_id([own, self.manifest["data"], critique, *map(sha256, about)])[:24]
            if name not in results or is_due(results.failure(name), session.retry_failed):
                judgment = ask_judge(source, self.config.instruction, self.opened.library, by, images, critique)
                run.append({**result_line(judgment), "id": name})
                return judgment
            return judgment_from_json(results[name])

        source, config = ImageInput.of(self.config.image, "source"), self.config
        refined = refine(
            source,
            config.instruction,
            self.editor,
            self.opened.judge,
            candidate=config.candidate,
            library=self.opened.library,
            rounds=config.rounds,
            n=config.n,
            margin=config.margin,
            second=None if self.second is None else self.second.judge,
            seed=config.seed,
            settings=self.settings,
            progress=session.progress,
            stop=session.stop,
            limits=self.limits,
            ask=ask,
        )
        if session.stop():
            raise Stopped("")
        self.found.append(refined)
        return run.results()

    def conclude(self, results: Results) -> Refined:
        """Write the attempts, the chosen edit and their record."""
        refined = self.found[-1]
        for number, attempt in enumerate(refined.attempts, 1):
            if attempt.image is not None:
                write_bytes(self.folder / f"{number:03d}.png", original_bytes(attempt.image))
        write_bytes(self.folder / BEST, original_bytes(refined.image))
        write_json(self.folder / RECORD, record(refined))
        return refined

    def numbers(self, result: Refined) -> Mapping[str, float]:
        """Return the gain."""
        return {"gain": result.gain}


def record(refined: Refined) -> dict[str, Any]:
    """Return the JSON form without images and times; attempts are numbered from 1."""
    attempts = [
        {"number": number, **{name: value for name, value in vars(attempt).items() if name != "image"}}
        for number, attempt in enumerate(refined.attempts, 1)
    ]
    second = None if refined.second is None else to_json(refined.second)
    own = {name: getattr(refined, name) for name in ("gain", "ended", "judge")}
    return {"best": refined.best + 1, **own, "second": second, "attempts": attempts}
