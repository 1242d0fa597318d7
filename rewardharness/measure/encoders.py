"""Learned encoders of images and texts: ONNX models that the user names, on the CPU. Nothing is used by default.

A setting names an encoder: `ORG/NAME@COMMIT`, a repository on the Hub at a complete commit, with `:VARIANT` for another
precision (`:quantized` reads `onnx/vision_model_quantized.onnx`), a folder with the same files, or `default`, see
`DEFAULTS`. The first use downloads it, and `rh doctor --download` does so ahead. Only ONNX graphs, a tokenizer and two
JSON files are read; no code of a repository is executed.
"""

import importlib.util
import json
import logging
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.errors import InputError, MissingPackageError, SettingsError
from rewardharness.files import content_id, read_text, sha256
from rewardharness.hub.errors import HubError
from rewardharness.hub.repository import Access, Repo, is_commit, is_repo
from rewardharness.measure.planes import Pixels
from rewardharness.settings import Settings

log = logging.getLogger(__name__)

Role = Literal["text", "image"]
Vector = npt.NDArray[np.float32]
"""An embedding of length 1."""

VARIABLES: Mapping[Role, str] = {"text": "RH_LEARNED_TEXT", "image": "RH_LEARNED_IMAGE"}
"""Environment variables that name the encoder of images and texts, and that of images alone."""
DEFAULT = "default"
DEFAULTS: Mapping[Role, tuple[str, str]] = {
    "text": (
        "Xenova/clip-vit-base-patch32@d15189d7028b43f1d3e65039190477f6af591c2a:quantized",
        "156 MB, weights of OpenAI CLIP under the MIT license",
    )
}
"""The encoder that `default` names, by role, with its size and license. There is none of images alone."""
PACKAGES = ("onnxruntime", "tokenizers", "huggingface_hub")
EXTRA = "learned"

_GRAPHS: Mapping[Role, tuple[str, ...]] = {"text": ("vision_model", "text_model"), "image": ("model",)}
_PREPARATION, _TOKENIZER, _TOKENIZER_CONFIG = "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"
_VARIANT = re.compile(r"[a-z0-9_]{1,20}")
_LONGEST = 64
"""Tokens of a text if the tokenizer states no length: that of SigLIP and SigLIP 2."""
_REMEMBERED = 256
"""Embeddings of images and of texts that are kept in memory."""
_STEP = "Write {}=ORG/NAME@COMMIT with a commit of 40 hexadecimal digits, optionally with :VARIANT, or name a folder."


@dataclass(frozen=True)
class EncoderFiles:
    """Where the files of an encoder are: a commit of a repository, or a folder."""

    role: Role
    repo: str
    commit: str
    variant: str
    folder: Path | None

    @property
    def graphs(self) -> tuple[str, ...]:
        """Paths of the ONNX graphs, that of images first."""
        return tuple(f"onnx/{name}{'_' * bool(self.variant)}{self.variant}.onnx" for name in _GRAPHS[self.role])

    @property
    def required(self) -> tuple[str, ...]:
        """Paths of the files that must be there."""
        return (*self.graphs, _PREPARATION, *((_TOKENIZER,) if self.role == "text" else ()))

    @property
    def wanted(self) -> tuple[str, ...]:
        """Paths of the required files, and of those that are read if they are there."""
        optional = (_TOKENIZER_CONFIG,) if self.role == "text" else ()
        return (*self.required, *(f"{graph}_data" for graph in self.graphs), *optional)

    @property
    def identity(self) -> str:
        """What distinguishes the embeddings from those of other encoders; it names no folder."""
        if self.folder is None:
            return f"{self.repo}@{self.commit}:{self.variant}"
        paths = (self.folder / name for name in self.wanted)
        return content_id(
            [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in paths if file.is_file()]
        )

    def local(self) -> dict[str, Path] | None:
        """Return the local files by path, without a request; None if a required file is not there."""
        if self.folder is None:
            paths = self._repo().local(self.commit, self.wanted)
        else:
            paths = {name: self.folder / name for name in self.wanted if (self.folder / name).is_file()}
        return paths if all(name in paths for name in self.required) else None

    def fetch(self) -> dict[str, Path]:
        """Return the files by path, verified, and download what is missing.

        Raises:
            SettingsError: If a required file does not exist.
            HubError: If the Hub refuses, or cannot be reached.
        """
        if self.folder is not None:
            files = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*")}
            self._check(files, str(self.folder))
            return files
        repo = self._repo()
        tree = repo.tree(self.commit)
        self._check(tree, f"{self.repo} at {self.commit[:12]}")
        names = [name for name in self.wanted if name in tree]
        size = sum(tree[name].size for name in names) / 1e6
        log.warning("Downloading the encoder %s (%.0f MB); its license is on %s.", self.repo, size, repo.page)
        return repo.fetch(self.commit, names, tree)

    def _repo(self) -> Repo:
        settings = Settings.from_env()
        return Repo(self.repo, Access(endpoint=settings.hub_endpoint, cache=settings.hub_cache))

    def _check(self, files: Container[str], where: str) -> None:
        if missing := [name for name in self.required if name not in files]:
            step = f"Name another model or variant in {VARIABLES[self.role]}; docs/measured_judge.md lists the files."
            raise SettingsError(f"The encoder {where} has no {missing[0]}.", next_step=step)


def named_encoder(role: Role) -> EncoderFiles | None:
    """Return the encoder that the environment names; None without one.

    Raises:
        SettingsError: If the setting is not valid.
    """
    settings = Settings.from_env()
    text = settings.learned_text if role == "text" else settings.learned_image
    if text is None:
        return None
    text = DEFAULTS[role][0] if text == DEFAULT and role in DEFAULTS else text
    if text.startswith(("/", ".", "~")):
        return EncoderFiles(role, "", "", "", Path(text).expanduser().absolute())
    repo, _, rest = text.partition("@")
    commit, colon, variant = rest.partition(":")
    if not is_repo(repo) or not is_commit(commit) or (colon and not _VARIANT.fullmatch(variant)):
        name = VARIABLES[role]
        raise SettingsError(f"{name}={text[:100]!r} names no encoder at a commit.", next_step=_STEP.format(name))
    return EncoderFiles(role, repo, commit, variant, None)


def missing_package() -> str | None:
    """Return the first package of the extra that is not installed."""
    return next((name for name in PACKAGES if importlib.util.find_spec(name) is None), None)


def encoder(role: Role) -> "Encoder":
    """Open the encoder that the environment names, and download it on first use.

    Raises:
        SettingsError: If no encoder is named, or the setting is not valid.
        MissingPackageError: If a package is missing.
        HubError: If it cannot be downloaded.
        InputError: If its files cannot be used.
    """
    files = named_encoder(role)
    if files is None:
        name = VARIABLES[role]
        raise SettingsError(f"A learned measure needs an encoder, and {name} is not set.", next_step=_STEP.format(name))
    if package := missing_package():
        raise MissingPackageError(package, EXTRA, "learned measures")
    with _OPENING:
        since, failure = _failed.get(files, (-math.inf, None))
        if failure is not None and time.monotonic() - since < _RETRY_AFTER:
            raise failure
        try:
            return _open(files, files.identity)
        except HubError as error:
            _failed[files] = time.monotonic(), error
            raise


_OPENING = threading.Lock()
"""Makes threads wait for one download."""
_RETRY_AFTER = 60.0
"""Seconds during which an encoder that could not be downloaded is not tried again, so that a dataset fails soon."""
_failed: dict[EncoderFiles, tuple[float, HubError]] = {}


@lru_cache(maxsize=4)
def _open(files: EncoderFiles, identity: str) -> "Encoder":
    paths = files.local()
    if paths is not None and files.folder is None:
        with suppress(Exception):  # an interrupted download may lack a file of weights, which `fetch` completes
            return Encoder(files, paths)
    paths = files.fetch()
    try:
        return Encoder(files, paths)
    except Exception as error:  # onnxruntime and tokenizers raise classes of their own, without a common base
        raise _unusable(files, error) from None


def _unusable(files: EncoderFiles, error: Exception) -> InputError:
    where = files.repo or str(files.folder)
    message = f"The encoder {where} cannot be used: {type(error).__name__}: {str(error)[:200]}"
    return InputError(message, next_step=f"Name another model or variant in {VARIABLES[files.role]}.")


class Encoder:
    """An encoder of images, or of images and texts."""

    def __init__(self, files: EncoderFiles, paths: Mapping[str, Path]) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # judges measure in several threads, and sums keep their order
        self._sessions = [
            onnxruntime.InferenceSession(str(paths[graph]), options, providers=["CPUExecutionProvider"])
            for graph in files.graphs
        ]
        self._files = files
        self._preparation = _Preparation.read(json.loads(read_text(paths[_PREPARATION])))
        self._tokenizer = _tokenizer(paths) if files.role == "text" else None
        self._known: OrderedDict[str, Vector] = OrderedDict()
        self._lock = threading.Lock()

    def images(self, pictures: Sequence[Pixels]) -> list[Vector]:
        """Return the embeddings of images; those that are not known are computed in one batch."""
        keys = [sha256(picture.tobytes()) + str(picture.shape) for picture in pictures]

        def compute(due: Sequence[int]) -> Vector:
            batch = np.stack([self._preparation.apply(pictures[place]) for place in due])
            return self._run(0, {"pixel_values": batch}, "image_embeds")

        return self._remembered(keys, compute)

    def texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return the embeddings of texts; those that are not known are computed in one batch."""

        def compute(due: Sequence[int]) -> Vector:
            assert self._tokenizer is not None
            encoded = self._tokenizer.encode_batch([texts[place] for place in due])
            ids = np.array([encoding.ids for encoding in encoded], np.int64)
            mask = np.array([encoding.attention_mask for encoding in encoded], np.int64)
            return self._run(1, {"input_ids": ids, "attention_mask": mask}, "text_embeds")

        return self._remembered([f"text {text}" for text in texts], compute)

    def _remembered(self, keys: Sequence[str], compute: Callable[[Sequence[int]], Vector]) -> list[Vector]:
        with self._lock:
            known = {key: self._known[key] for key in keys if key in self._known}
        due = [place for place, key in enumerate(keys) if key not in known and key not in keys[:place]]
        if due:
            known |= zip([keys[place] for place in due], compute(due), strict=True)
        with self._lock:
            for key in keys:
                self._known[key] = known[key]
                self._known.move_to_end(key)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return [known[key] for key in keys]

    def _run(self, graph: int, inputs: Mapping[str, npt.NDArray[Any]], embedding: str) -> Vector:
        """Run a graph; return the projected embedding, else the pooled output, else that of the first token."""
        session = self._sessions[graph]
        names = [output.name for output in session.get_outputs()]
        name = next((option for option in (embedding, "pooler_output") if option in names), names[0])
        try:
            fed = {node.name: inputs[node.name] for node in session.get_inputs()}
            (raw,) = session.run([name], fed)
        except KeyError as error:
            raise _unusable(self._files, ValueError(f"its graph needs the input {error}")) from None
        except Exception as error:  # onnxruntime raises classes of its own, without a common base
            raise _unusable(self._files, error) from None
        values = np.asarray(raw, np.float32)
        values = values[:, 0] if values.ndim == 3 else values
        if values.ndim != 2 or not np.isfinite(values).all():
            raise _unusable(self._files, ValueError(f"its output {name} is no finite embedding"))
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        return np.asarray(values / np.maximum(lengths, 1e-12), np.float32)


def _tokenizer(paths: Mapping[str, Path]) -> Any:
    """Open the tokenizer, which pads and truncates every text to one length, as the models were trained."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(paths[_TOKENIZER]))
    config = json.loads(read_text(paths[_TOKENIZER_CONFIG])) if _TOKENIZER_CONFIG in paths else {}
    length = config.get("model_max_length")
    length = int(length) if isinstance(length, int | float) and 1 <= length <= 512 else _LONGEST
    pad = config.get("pad_token", "<pad>")
    pad = pad["content"] if isinstance(pad, dict) else str(pad)
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding(length=length, pad_id=tokenizer.token_to_id(pad) or 0, pad_token=pad)
    return tokenizer


@dataclass(frozen=True)
class _Preparation:
    """How an image becomes the input of a graph."""

    width: int
    height: int
    edge: int | None
    """Length to which the short edge is resized before the center is cut out; None: the image is resized as a whole."""
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> "_Preparation":
        size = config["size"]
        size = {"height": size, "width": size} if isinstance(size, int) else size
        edge = size.get("shortest_edge")
        cut = (config.get("crop_size") or {"height": edge, "width": edge}) if edge is not None else size
        cut = {"height": cut, "width": cut} if isinstance(cut, int) else cut
        mean, deviation = (tuple(map(float, config[name])) for name in ("image_mean", "image_std"))
        sides = [int(cut["width"]), int(cut["height"]), *([] if edge is None else [int(edge)])]
        sound = len(mean) == len(deviation) == 3 and all(map(math.isfinite, mean)) and min(deviation) > 0
        if not sound or not all(8 <= side <= 1024 for side in sides) or (edge and edge < max(sides)):
            raise ValueError(f"{_PREPARATION} has an unknown form")
        return cls(sides[0], sides[1], None if edge is None else int(edge), mean, deviation)

    def apply(self, picture: Pixels) -> Vector:
        height, width = picture.shape[:2]
        if self.edge is None:
            size = self.width, self.height
        else:
            scale = self.edge / min(height, width)
            size = max(self.width, round(width * scale)), max(self.height, round(height * scale))
        interpolation = cv2.INTER_AREA if size[0] * size[1] < width * height else cv2.INTER_CUBIC
        resized = cv2.resize(picture, size, interpolation=interpolation)
        left, top = (size[0] - self.width) // 2, (size[1] - self.height) // 2
        cut = resized[top : top + self.height, left : left + self.width].astype(np.float32) / 255.0
        scaled = (cut - np.array(self.mean, np.float32)) / np.array(self.deviation, np.float32)
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), np.float32)
