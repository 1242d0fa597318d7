"""Makes an InstructPix2Pix pipeline with tiny random weights, and edits with it twice: tiny_pipeline.py FOLDER."""

import asyncio
import json
import sys
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionInstructPix2PixPipeline, UNet2DConditionModel
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from rewardharness.editors.editor import EditTask, open_editor
from rewardharness.schema import ImageInput


def make(folder: Path) -> None:
    """Save a pipeline for 64 px pictures."""
    torch.manual_seed(0)
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=32)
    sizes = {"block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
    down, up = ("DownBlock2D", "CrossAttnDownBlock2D"), ("CrossAttnUpBlock2D", "UpBlock2D")
    unet = UNet2DConditionModel(
        sample_size=16, in_channels=8, out_channels=4, down_block_types=down, up_block_types=up,
        cross_attention_dim=16, attention_head_dim=4, **sizes,
    )  # fmt: skip
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    text = CLIPTextConfig(
        vocab_size=len(tokens), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=32, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    StableDiffusionInstructPix2PixPipeline(
        AutoencoderKL(latent_channels=4, **blocks, **sizes), CLIPTextModel(text), tokenizer, unet, DDIMScheduler(),
        None, None, None, requires_safety_checker=False,
    ).save_pretrained(folder / "pipeline")  # fmt: skip


if __name__ == "__main__":
    place = Path(sys.argv[1])
    make(place)
    editor = open_editor(f"diffusers:{place / 'pipeline'}")
    task = EditTask("a", ImageInput.of(np.full((64, 64, 3), 120, np.uint8)), "make it red", seed=3)
    edits = [asyncio.run(editor.edit(task)) for _ in range(2)]
    assert edits[0] == edits[1] and edits[0].startswith(b"\x89PNG")
    sys.stdout.write(f"{editor.name} made the same edit twice\n")
