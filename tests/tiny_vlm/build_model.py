"""Builds a tiny Qwen2.5-VL with random weights and a tokenizer of its own: build_model.py FOLDER.

Some 450,000 parameters, less than 1 MB, no download. What it says means nothing; everything around it is real. Run it
with the Python of the environment that serves it: it needs torch, transformers and tokenizers.
"""

import json
import pydoc_data.topics
import sys
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

VOCABULARY = 1024
LONGEST = 32768
"""Tokens that positions are made for."""
SPREAD = 0.15
"""Standard deviation of the weights. With the usual 0.02 every answer is a row of line breaks, whatever is shown."""
SPECIAL = (
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>"
).split()
ADDED = ("<tool_call>", "</tool_call>")
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How Qwen's tokenizer splits text before it merges; each digit is a token."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Train a byte-level tokenizer on text that comes with Python."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL) - len(ADDED),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([str(text) for text in pydoc_data.topics.topics.values()], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=SPECIAL,
        model_max_length=LONGEST,
        clean_up_tokenization_spaces=False,
    )
    fast.add_tokens(list(ADDED))
    fast.chat_template = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")
    return fast


def make_model(tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLForConditionalGeneration:
    """Make a model with random weights, the same ones each time."""
    token = tokenizer.convert_tokens_to_ids
    rope = {"rope_type": "default", "type": "default", "mrope_section": [4, 6, 6], "rope_theta": 1000000.0}
    text = {
        "vocab_size": (len(tokenizer) + 63) // 64 * 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": LONGEST,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": False,
        "initializer_range": SPREAD,
        "rope_parameters": rope,
        "bos_token_id": token("<|endoftext|>"),
        "eos_token_id": token("<|im_end|>"),
        "pad_token_id": token("<|endoftext|>"),
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "in_channels": 3,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "out_hidden_size": 64,
        "fullatt_block_indexes": [1],
        "tokens_per_second": 2,
        "initializer_range": SPREAD,
    }
    torch.manual_seed(0)
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=False,
        initializer_range=SPREAD,
    )
    model = Qwen2_5_VLForConditionalGeneration(config).eval().to(torch.bfloat16)
    ends = [token("<|im_end|>"), token("<|endoftext|>")]
    model.generation_config.update(bos_token_id=ends[1], pad_token_id=ends[1], eos_token_id=ends, do_sample=False)
    return model


def main(folder: Path) -> None:
    """Write everything that a server needs."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(tokenizer.chat_template, encoding="utf-8")
    written = folder / "tokenizer_config.json"
    settings = json.loads(written.read_text(encoding="utf-8"))
    settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    written.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    processor = {
        "min_pixels": 3136,
        "max_pixels": 1003520,
        "patch_size": 14,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor, indent=1), encoding="utf-8")
    make_model(tokenizer).save_pretrained(folder)  # config.json comes with it: what is last says that all is there


if __name__ == "__main__":
    main(Path(sys.argv[1]))
