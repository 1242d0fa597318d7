"""Editors: what makes an edited image from an image and an instruction.

openai:NAME@URL    an OpenAI-compatible images API (`/images/edits`), as vLLM-Omni and others serve it
openai:NAME        the same at OpenAI, with `OPENAI_API_KEY`
hf:NAME[:PROVIDER] Hugging Face Inference Providers
diffusers:ORG/NAME@COMMIT, diffusers:DIR   a pipeline on this computer; see `local`
comfyui:WORKFLOW@URL   a workflow of ComfyUI in its API format; see `comfyui`
folder:DIR         edits that exist: `DIR/ID.png`, `.jpg` or `.webp` for each example id
painter:SHARE      a test editor of the demo data that makes a fault in this share of its edits
"""

import asyncio
import base64
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rewardharness.codec import finite
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.measure.encoded import encode_for_model
from rewardharness.measure.images import encode_png, load_picture, read_bytes
from rewardharness.models.base import ModelError
from rewardharness.models.open import SERVICES, service_key
from rewardharness.models.post import call, post, source_code
from rewardharness.models.transport import HttpClient, ServerAddress
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

SPELLINGS = (
    "Write openai:NAME@URL, hf:NAME, diffusers:ORG/NAME@COMMIT, comfyui:WORKFLOW@URL, folder:DIR or painter:0.2."
)
MAX_REPLY = 60_000_000
"""Maximum size of an answer of an images API, in bytes."""
SECONDS = 600.0
"""Timeout of one edit."""


@dataclass(frozen=True)
class EditTask:
    """One image to edit."""

    id: str
    """Id of the example."""
    image: ImageInput
    instruction: str
    seed: int = 0
    """Editors that take a seed make the same edit for the same one."""
    category: str = ""
    """Kind of edit as the data name it; no editor is told."""
    example: Example | None = None
    """Example of a benchmark, whose notes and reference images judge profiles see and editors do not."""


class EditorProtocol(Protocol):
    """Makes edits."""

    @property
    def name(self) -> str:
        """Name in reports; unique in an arena."""

    @property
    def identity(self) -> str:
        """What distinguishes its edits from those of others, without addresses and keys."""

    async def edit(self, task: EditTask) -> bytes:
        """Return the encoded edited image.

        Raises:
            HarnessError: If there is none.
        """

    async def close(self) -> None:
        """Close its connections."""


@dataclass(frozen=True)
class FunctionEditor:
    """A Python function as an editor.

    Args:
        function: `f(image, instruction, seed)` gets a `PIL.Image` and returns whatever `ImageInput.of` accepts. It may
            be `async`; otherwise it runs in a thread. An exception is the failure of its edit.
        name: Its name.
    """

    function: Callable[..., Any]
    name: str

    @property
    def identity(self) -> str:
        """Its name and source code, as far as it is known."""
        return content_id(["function", self.name, source_code(self.function, "")])

    async def edit(self, task: EditTask) -> bytes:
        """Call the function."""
        from PIL import Image

        picture = await asyncio.to_thread(lambda: Image.fromarray(load_picture(task.image).pixels))
        made = await call(self.function, self.name, picture, task.instruction, task.seed)
        return read_bytes(ImageInput.of(made, f"edit of {self.name}"))

    async def close(self) -> None:
        """Do nothing."""


def make_form(fields: Mapping[str, str], image: bytes, mime: str, filename: str = "image.png") -> tuple[bytes, str]:
    """Return a form of `multipart/form-data` with an image, and its media type."""
    border = uuid.uuid4().hex
    lines = [
        f'--{border}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode()
        for name, text in fields.items()
    ]
    head = f'--{border}\r\nContent-Disposition: form-data; name="image"; filename="{filename}"\r\n'
    lines += [f"{head}Content-Type: {mime}\r\n\r\n".encode(), image, f"\r\n--{border}--\r\n".encode()]
    return b"".join(lines), f"multipart/form-data; boundary={border}"


@dataclass(frozen=True)
class ImagesApi:
    """An OpenAI-compatible images API.

    Format: `multipart/form-data` with `model`, `prompt`, `n`, `seed` and `image`; the answer has `data[0].b64_json`
    (https://platform.openai.com/docs/api-reference/images/createEdit). OpenAI itself knows no seed and gets none.
    """

    model: str
    url: str
    key: str = field(default="", repr=False)
    http: HttpClient = field(default_factory=lambda: HttpClient(MAX_REPLY), compare=False, repr=False)

    @property
    def name(self) -> str:
        """The model."""
        return self.model

    @property
    def identity(self) -> str:
        """The model."""
        return content_id(["images", self.model])

    async def edit(self, task: EditTask) -> bytes:
        """Ask for one edit."""
        image = await asyncio.to_thread(encode_for_model, task.image)
        fields = {"model": self.model, "prompt": task.instruction, "n": "1"}
        if self.url != SERVICES["openai"]:
            fields |= {"seed": str(task.seed), "response_format": "b64_json"}
        body, kind = make_form(fields, image.data, image.mime)
        url = f"{self.url.rstrip('/')}/images/edits"
        reply: Any = await post(self.http, self.name, url, body, kind=kind, key=self.key, seconds=SECONDS)
        try:
            return base64.b64decode(reply["data"][0]["b64_json"], validate=True)
        except (KeyError, IndexError, TypeError, ValueError):
            raise ModelError("bad_response", f"{self.name} answered without an image.", next_step="") from None

    async def close(self) -> None:
        """Close the connections."""
        await self.http.close()


@dataclass(frozen=True)
class InferenceProvider:
    """A model that Hugging Face Inference Providers serve."""

    model: str
    provider: str
    token: str = field(repr=False)

    @property
    def name(self) -> str:
        """The model."""
        return self.model

    @property
    def identity(self) -> str:
        """Model and provider."""
        return content_id(["hf", self.model, self.provider])

    async def edit(self, task: EditTask) -> bytes:
        """Ask for one edit."""
        from rewardharness.hub.jobs import edit_image

        data = (await asyncio.to_thread(encode_for_model, task.image)).data
        return await asyncio.to_thread(
            edit_image, self.model, data, task.instruction, provider=self.provider, token=self.token, seconds=SECONDS
        )

    async def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class FolderEditor:
    """Edits that exist, as files with the ids of the examples."""

    folder: Path

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.folder.name

    @property
    def identity(self) -> str:
        """Names, sizes and times of the files."""
        files = sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in self.folder.iterdir())
        return content_id(["folder", files])

    async def edit(self, task: EditTask) -> bytes:
        """Read the file."""
        for ending in (".png", ".jpg", ".jpeg", ".webp"):
            path = self.folder / f"{task.id}{ending}"
            if path.parent == self.folder and path.is_file():
                return await asyncio.to_thread(read_bytes, ImageInput(path.name, path))
        raise ModelError("bad_response", f"{self.folder} has no file {task.id}.png, .jpg or .webp.", next_step="")

    async def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class DemoEditor:
    """The test editor of the demo data."""

    faulty: float

    @property
    def name(self) -> str:
        """Its name with the share of faulty edits."""
        return f"painter:{self.faulty:g}"

    @property
    def identity(self) -> str:
        """Its name."""
        return content_id(["painter", self.faulty])

    async def edit(self, task: EditTask) -> bytes:
        """Paint."""
        from rewardharness.demo.dataset import paint

        seed = int(content_id([self.name, task.seed])[:8], 16)
        pixels = await asyncio.to_thread(lambda: load_picture(task.image).pixels)
        picture, _ = await asyncio.to_thread(paint, pixels, task.instruction, self.faulty, seed)
        return encode_png(picture)

    async def close(self) -> None:
        """Do nothing."""


def open_editor(spec: str | Callable[..., Any], settings: Settings | None = None) -> EditorProtocol:
    """Open an editor. Nothing is sent.

    Args:
        spec: One of the spellings above, or a function, see `FunctionEditor`.
        settings: Keys; None for those of the environment.

    Raises:
        InputError: If the spelling is wrong, or a key or a folder is missing.
    """
    if callable(spec):
        return FunctionEditor(spec, getattr(spec, "__name__", "function"))
    settings = settings or Settings.from_env()
    kind, _, rest = spec.partition(":")
    if kind == "painter" and (share := finite(_float(rest))) is not None and 0 <= share <= 1:
        return DemoEditor(share)
    if kind == "folder" and rest:
        if not Path(rest).is_dir():
            raise InputError(f"{rest} is not a folder.", next_step="Name the folder with the edits.")
        return FolderEditor(Path(rest))
    if kind == "diffusers" and rest:
        from rewardharness.editors.local import PipelineEditor

        return PipelineEditor.of(rest)
    if kind == "hf" and rest:
        name, _, provider = rest.partition(":")
        return InferenceProvider(name, provider or "auto", service_key("hf", spec, settings))
    if kind in ("openai", "comfyui") and rest:
        name, at, url = rest.rpartition("@http")
        if at and name and _is_server(f"http{url}"):
            if kind == "openai":
                return ImagesApi(name, f"http{url}", settings.api_key or "")
            from rewardharness.editors.local import ComfyUI

            return ComfyUI.of(name, f"http{url}", settings.api_key or "")
    if kind == "openai" and rest:
        name, at, _ = rest.rpartition("@http")
        if not at and re.fullmatch(r"[^@\s]+", rest):
            return ImagesApi(rest, SERVICES["openai"], service_key("openai", spec, settings))
    shown = repr(re.split(r"@?https?://", spec)[0][:100])
    raise InputError(f"{shown} is no editor.", next_step=SPELLINGS)


def _is_server(url: str) -> bool:
    try:
        _, split = ServerAddress.of(url)
    except ValueError:
        return False
    return "@" not in split.netloc and not split.query


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
