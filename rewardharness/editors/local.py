"""Editors on this computer: pipelines of `diffusers`, such as Qwen-Image-Edit, FLUX Kontext and InstructPix2Pix.

A pipeline is named with a complete commit, or is a folder. Only weights in safetensors are read, and no code of a
repository is executed. Pipelines keep their own defaults of steps and guidance.
"""

import asyncio
import inspect
import threading
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rewardharness.editors.editor import EditTask
from rewardharness.errors import DataError, InputError, MissingPackageError
from rewardharness.files import content_id
from rewardharness.hub.repository import is_commit, is_repo
from rewardharness.measure.images import load_picture, read_bytes
from rewardharness.schema import ImageInput

INDEX = "model_index.json"
"""File that every pipeline has."""


@dataclass(frozen=True)
class PipelineEditor:
    """A pipeline that edits one image by an instruction. Edits are made one at a time.

    Args:
        place: Repository on the Hub, or an absolute folder.
        commit: Commit of the repository; empty for a folder.
    """

    place: str
    commit: str = ""
    _turn: threading.Lock = field(default_factory=threading.Lock, compare=False, repr=False)

    @classmethod
    def of(cls, spec: str) -> "PipelineEditor":
        """Read `ORG/NAME@COMMIT` or a folder. Nothing is loaded.

        Raises:
            InputError: If it is neither.
        """
        folder = Path(spec).expanduser()
        if (folder / INDEX).is_file():
            return cls(str(folder.absolute()))
        repo, _, commit = spec.partition("@")
        if is_repo(repo) and is_commit(commit):
            return cls(repo, commit)
        message = f"diffusers:{spec[:200]!r} names no pipeline at a commit, and no folder with {INDEX}."
        raise InputError(message, next_step="Write diffusers:ORG/NAME@COMMIT with 40 hexadecimal digits, or a folder.")

    @property
    def name(self) -> str:
        """Last part of the name."""
        return Path(self.place).name

    @property
    def identity(self) -> str:
        """Repository and commit, or the files of the folder by name, size and time."""
        if self.commit:
            return content_id(["diffusers", self.place, self.commit])
        files = sorted((path.relative_to(self.place).as_posix(), path.stat()) for path in Path(self.place).rglob("*"))
        return content_id(["diffusers", [(name, about.st_size, about.st_mtime_ns) for name, about in files]])

    async def edit(self, task: EditTask) -> bytes:
        """Run the pipeline with the seed of the task."""
        return await asyncio.to_thread(self._edit, task)

    async def close(self) -> None:
        """Give the memory of the pipeline back."""
        self.__dict__.pop("_pipeline", None)

    def _edit(self, task: EditTask) -> bytes:
        from PIL import Image

        source = Image.fromarray(load_picture(task.image).pixels)
        with self._turn:
            pipeline = self._pipeline
            import torch

            seed = torch.Generator("cpu").manual_seed(task.seed)
            try:
                made = pipeline(image=source, prompt=task.instruction, generator=seed).images[0]
            except (RuntimeError, ValueError, TypeError) as error:  # such as too little memory
                reason = " ".join(str(error).split())[:200]
                raise DataError(f"{self.name} gave no edit ({reason}).", next_step="Use a smaller image.") from None
        return read_bytes(ImageInput.of(made, f"edit of {self.name}"))

    @cached_property
    def _pipeline(self) -> Any:
        """The loaded pipeline, on the GPU if there is one.

        Raises:
            MissingPackageError: If a package is missing.
            DataError: If it cannot be loaded, or edits no images.
        """
        try:
            import torch
            from diffusers import DiffusionPipeline
        except ImportError as error:
            raise MissingPackageError(error.name or "diffusers", "editors", "editors on this computer") from None
        options: dict[str, Any] = {"revision": self.commit} if self.commit else {"local_files_only": True}
        try:
            pipeline = DiffusionPipeline.from_pretrained(self.place, use_safetensors=True, **options)
        except Exception as error:  # of the Hub, of files, of a class that this version does not have
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            step = "Check name and commit, the access to the Hub, and the version of diffusers."
            raise DataError(f"{self.place} cannot be loaded ({reason}).", next_step=step) from None
        if not {"image", "prompt"} <= set(inspect.signature(pipeline.__call__).parameters):
            message = f"{self.place} is a {type(pipeline).__name__}, which edits no images."
            raise DataError(message, next_step="Choose an editing pipeline.")
        pipeline.set_progress_bar_config(disable=True)
        return pipeline.to("cuda", torch.bfloat16) if torch.cuda.is_available() else pipeline.to("cpu", torch.float32)
