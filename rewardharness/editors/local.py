"""Editors on this computer: pipelines of `diffusers`, and ComfyUI by its HTTP API.

A pipeline, such as Qwen-Image-Edit, FLUX Kontext or InstructPix2Pix, is named with a complete commit, or is a folder.
Only weights in safetensors are read, and no code of a repository is executed. Pipelines keep their own defaults of
steps and guidance.

Of ComfyUI, /upload/image, /prompt, /history/ID and /view are called. A workflow is a file in the API format (Workflow,
Export (API)). In its inputs, `{image}` stands for the uploaded source, `{instruction}` for the edit, and `{seed}` for
the seed; the last two are optional. The first image of an output is the edit.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from rewardharness.codec import decode
from rewardharness.editors.editor import MAX_REPLY, SECONDS, EditTask, make_form
from rewardharness.errors import DataError, InputError, MissingPackageError
from rewardharness.files import content_id, read_text, sha256
from rewardharness.hub.repository import is_commit, is_repo
from rewardharness.measure.encoded import encode_for_model
from rewardharness.measure.images import load_picture, read_bytes
from rewardharness.models.base import ModelError
from rewardharness.models.post import post
from rewardharness.models.transport import HttpClient
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


IMAGE, INSTRUCTION, SEED = "{image}", "{instruction}", "{seed}"
POLL_SECONDS = 0.5
"""Seconds between two looks whether an edit is done."""


@dataclass(frozen=True)
class ComfyUI:
    """A workflow on a server of ComfyUI."""

    name: str
    workflow: str
    """JSON of the workflow."""
    url: str
    key: str = field(default="", repr=False)
    http: HttpClient = field(default_factory=lambda: HttpClient(MAX_REPLY), compare=False, repr=False)

    @classmethod
    def of(cls, file: str, url: str, key: str) -> Self:
        """Read a workflow. Nothing is sent.

        Raises:
            InputError: If it cannot be read, or has no place for the image.
        """
        step = f"Export it in the API format, and write {IMAGE} where the image is loaded."
        try:
            workflow = read_text(Path(file).expanduser())
            nodes = decode(workflow.encode())
        except (OSError, ValueError):
            raise InputError(f"{file} is no workflow of ComfyUI.", next_step=step) from None
        if not isinstance(nodes, dict) or "nodes" in nodes or IMAGE not in workflow:
            raise InputError(f"{file} is no workflow in the API format with {IMAGE}.", next_step=step)
        return cls(Path(file).stem, workflow, url.rstrip("/"), key)

    @property
    def identity(self) -> str:
        """The workflow."""
        return content_id(["comfyui", self.workflow])

    async def edit(self, task: EditTask) -> bytes:
        """Upload the image, queue the workflow, wait for it, and fetch its image."""
        image = await asyncio.to_thread(encode_for_model, task.image)
        name = f"{sha256(image.data)[:24]}.{image.mime.rpartition('/')[2]}"
        body, kind = make_form({"overwrite": "true"}, image.data, image.mime, name)
        there = await self._ask("/upload/image", body, kind)
        place = "/".join(filter(None, (there.get("subfolder", ""), there.get("name", name))))
        workflow = _filled(
            decode(self.workflow.encode()), {IMAGE: place, INSTRUCTION: task.instruction, SEED: task.seed}
        )
        queued = await self._ask("/prompt", json.dumps({"prompt": workflow}).encode(), "application/json")
        try:
            async with asyncio.timeout(SECONDS):
                made = await self._made(str(queued.get("prompt_id", "")))
        except TimeoutError:
            raise ModelError("timeout", f"{self.name} made no edit within {SECONDS:g} seconds.") from None
        where = {key: made.get(key, "") for key in ("filename", "subfolder", "type")}
        data = await post(self.http, self.name, f"{self.url}/view?{urlencode(where)}", None, key=self.key)
        if not isinstance(data, bytes):
            raise ModelError("bad_response", f"{self.name} answered without an image.", next_step="")
        return data

    async def close(self) -> None:
        """Close the connections."""
        await self.http.close()

    async def _made(self, job: str) -> Mapping[str, Any]:
        """Wait for a queued workflow, and return where its first image is."""
        while True:
            history = (await self._ask(f"/history/{job}")).get(job)
            status = history.get("status", {}) if isinstance(history, dict) else {}
            if status.get("status_str") == "error":
                raise ModelError("server_error", f"{self.name}: the workflow failed.", next_step="See ComfyUI's log.")
            outputs = history.get("outputs", {}).values() if isinstance(history, dict) else ()
            images = [image for output in outputs for image in output.get("images", ())]
            if images:
                return dict(next((image for image in images if image.get("type") == "output"), images[0]))
            if status.get("completed"):
                raise ModelError("bad_response", f"{self.name}: the workflow saved no image.", next_step="Add one.")
            await asyncio.sleep(POLL_SECONDS)

    async def _ask(self, path: str, body: bytes | None = None, kind: str = "") -> dict[str, Any]:
        reply = await post(self.http, self.name, self.url + path, body, kind=kind, key=self.key)
        if not isinstance(reply, dict):
            raise ModelError("bad_response", f"{self.name} is no server of ComfyUI.", next_step="Check the address.")
        return reply


def _filled(value: Any, places: Mapping[str, Any]) -> Any:
    """Return a workflow with its places filled, once: an instruction is never searched for places."""
    if isinstance(value, dict):
        return {key: _filled(child, places) for key, child in value.items()}
    if isinstance(value, list):
        return [_filled(child, places) for child in value]
    if not isinstance(value, str) or value in places:
        return places.get(value, value)
    return places[INSTRUCTION].join(value.split(INSTRUCTION))
