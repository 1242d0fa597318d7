"""A tiny diffusers editor: flow matching of the change of a picture, given source and instruction."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from diffusers import UNet2DModel
from torch import Tensor, nn
from world import SIDE, Case, Picture

STEPS, NOISY = 8, 3
"""Steps of the sampler, and those that add noise under GRPO; the other ones are deterministic, so that results are
clean."""
SHIFT = 8.0
"""What an edit becomes is decided while there is much noise, so most times are close to 1 (arXiv:2403.03206)."""
_WORDS, _WIDTH, _BLOCK = 12, 64, 4
_AREAS = 16, SIDE
"""Sides of areas whose mean noise the network sees, scaled to a deviation of 1: what is decided early is large."""
T = TypeVar("T", float, Tensor)


@dataclass(frozen=True)
class Batch:
    """Sources in [-1, 1] and the words of their instructions."""

    sources: Tensor
    words: Tensor

    def repeat(self, times: int) -> "Batch":
        """Return every request several times in a row."""
        return Batch(self.sources.repeat_interleave(times, 0), self.words.repeat_interleave(times, 0))

    def __getitem__(self, rows: Tensor) -> "Batch":
        return Batch(self.sources[rows], self.words[rows])


class Editor(nn.Module):
    """Edits pictures: a UNet of 1.4 million weights on blocks of 4 by 4 pixels, with a table of words."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.vocabulary = {word: number for number, word in enumerate(vocabulary, 1)}
        self.words = nn.Sequential(
            nn.EmbeddingBag(len(vocabulary) + 1, 64, mode="sum", padding_idx=0),
            nn.Linear(64, 4 * _WIDTH),
            nn.SiLU(),
            nn.Linear(4 * _WIDTH, 4 * _WIDTH),
        )
        self.body = UNet2DModel(
            sample_size=SIDE // _BLOCK,
            in_channels=6 * _BLOCK**2 + 8,
            out_channels=3 * _BLOCK**2,
            down_block_types=("DownBlock2D",) * 2,
            up_block_types=("UpBlock2D",) * 2,
            block_out_channels=(_WIDTH, _WIDTH),
            layers_per_block=1,
            norm_num_groups=8,
            attention_head_dim=16,
            class_embed_type="identity",
            resnet_time_scale_shift="scale_shift",
        )
        nn.init.zeros_(self.body.conv_out.weight)  # it begins as an editor that changes nothing
        axis = torch.linspace(-1, 1, SIDE // _BLOCK)
        self.register_buffer("places", torch.stack(torch.meshgrid(axis, axis, indexing="ij")), persistent=False)

    def batch(self, cases: Sequence[Case]) -> Batch:
        """Return the requests of cases."""
        rows = [[self.vocabulary.get(word, 0) for word in words_of(case.instruction)][:_WORDS] for case in cases]
        words = torch.tensor([row + [0] * (_WORDS - len(row)) for row in rows])
        return Batch(tensor([case.source for case in cases]), words)

    def forward(self, noisy: Tensor, batch: Batch, time: Tensor) -> Tensor:
        """Return the change without noise (x-prediction); `time` is 1 for pure noise and 0 for none."""
        blocks = nn.functional.pixel_unshuffle(torch.cat([noisy, batch.sources], 1), _BLOCK)
        means = [nn.functional.avg_pool2d(noisy, side) * side for side in _AREAS]
        means = [nn.functional.interpolate(mean, SIDE // _BLOCK) for mean in means]
        seen = torch.cat([blocks, *means, self.places.expand(len(noisy), -1, -1, -1)], 1)
        return nn.functional.pixel_shuffle(self.body(seen, time * 1000, self.words(batch.words)).sample, _BLOCK)

    def velocity(self, noisy: Tensor, batch: Batch, time: float) -> Tensor:
        """Return the direction of the flow from data to noise."""
        return (noisy - self(noisy, batch, torch.full((len(noisy),), time))) / time

    @torch.no_grad()
    def sample(self, batch: Batch, noise_level: float = 0.0, generator: torch.Generator | None = None) -> list[Tensor]:
        """Return the noise, every state of the sampler, and the change; with a noise level, the flow of flow_grpo."""
        states = [torch.randn(batch.sources.shape, generator=generator)]
        for number in range(STEPS):
            mean, deviation = self.step(states[-1], batch, number, noise_level)
            noise = torch.randn(mean.shape, generator=generator) if deviation else 0.0
            states.append(mean + deviation * noise)
        return states

    def step(self, noisy: Tensor, batch: Batch, number: int, noise_level: float) -> tuple[Tensor, float]:
        """Return mean and deviation of the next state: the SDE of flow_grpo (arXiv:2505.05470) in the first steps."""
        time, after = (shifted(1 - each / STEPS) for each in (number, number + 1))
        flow, dt = self.velocity(noisy, batch, time), after - time
        if not noise_level or number >= NOISY:
            return noisy + flow * dt, 0.0
        spread = noise_level * (time / (1 - min(time, shifted(1 - 1 / STEPS)))) ** 0.5
        mean = noisy * (1 + spread**2 / (2 * time) * dt) + flow * (1 + spread**2 * (1 - time) / (2 * time)) * dt
        return mean, spread * (-dt) ** 0.5

    def flow_loss(self, change: Tensor, batch: Batch) -> Tensor:
        """Return the loss of flow matching per request; a small object counts as much as the whole picture."""
        time = shifted(torch.rand(len(change)))
        shape, noise = time[:, None, None, None], torch.randn_like(change)
        error = self((1 - shape) * change + shape * noise, batch, time) - change
        return error.pow(2).mean((1, 2, 3)) / (change.pow(2).mean((1, 2, 3)) + 0.01)


def shifted(time: T) -> T:
    """Return a time moved towards 1."""
    return SHIFT * time / (1 + (SHIFT - 1) * time)


def words_of(instruction: str) -> list[str]:
    """Return the words of an instruction."""
    return re.findall("[a-z]+", instruction.lower())


def tensor(pictures: Sequence[Picture]) -> Tensor:
    """Return pictures as numbers in [-1, 1], channels first."""
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1


def pictures(sources: Tensor, changes: Tensor) -> list[Picture]:
    """Return the edited pictures."""
    edited = ((sources + changes).clamp(-1, 1) + 1) * 127.5
    return list(edited.round().byte().permute(0, 2, 3, 1).numpy())
