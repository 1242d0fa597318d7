"""Tiny encoders with random weights, in the layout of ONNX exports on the Hub."""

import json
from pathlib import Path

import numpy as np

SIDE, WIDTH = 16, 8
WORDS = "a photo make the cat blue red add hat".split()
PREPARATION = {"size": {"height": SIDE, "width": SIDE}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}


def write_text_encoder(folder: Path, seed: int = 0) -> Path:
    """Write an encoder of images and texts whose embeddings are pooled outputs."""
    import onnx
    import tokenizers

    rng = np.random.default_rng(seed)
    make = onnx.helper.make_node
    nodes = [make("Flatten", ["pixel_values"], ["flat"]), make("MatMul", ["flat", "weights"], ["pooler_output"])]
    weights = rng.normal(size=(3 * SIDE * SIDE, WIDTH)).astype(np.float32)
    _save(folder / "onnx" / "vision_model.onnx", nodes, "pixel_values", "pooler_output", (None, WIDTH), weights)
    mean = make("ReduceMean", ["rows"], ["text_embeds"], axes=[1], keepdims=0)
    nodes = [make("Gather", ["weights", "input_ids"], ["rows"]), mean]
    weights = rng.normal(size=(len(WORDS) + 2, WIDTH)).astype(np.float32)
    _save(folder / "onnx" / "text_model.onnx", nodes, "input_ids", "text_embeds", (None, WIDTH), weights)
    vocabulary = {"<pad>": 0, "<unk>": 1, **{word: number for number, word in enumerate(WORDS, 2)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 12, "pad_token": "<pad>"}))
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPARATION))
    return folder


def write_image_encoder(folder: Path, seed: int = 0) -> Path:
    """Write an encoder of images whose embedding is that of the first token, with its weights in another file."""
    import onnx

    make = onnx.helper.make_node
    shape = onnx.helper.make_tensor("shape", onnx.TensorProto.INT64, [3], [-1, 2, WIDTH])
    nodes = [
        make("Flatten", ["pixel_values"], ["flat"]),
        make("MatMul", ["flat", "weights"], ["tokens"]),
        make("Constant", [], ["shape"], value=shape),
        make("Reshape", ["tokens", "shape"], ["last_hidden_state"]),
    ]
    weights = np.random.default_rng(seed).normal(size=(3 * SIDE * SIDE, 2 * WIDTH)).astype(np.float32)
    path = folder / "onnx" / "model.onnx"
    _save(path, nodes, "pixel_values", "last_hidden_state", (None, 2, WIDTH), weights, apart=True)
    crop = {"size": {"shortest_edge": SIDE + 2}, "crop_size": {"height": SIDE, "width": SIDE}}
    (folder / "preprocessor_config.json").write_text(json.dumps({**PREPARATION, **crop}))
    return folder


def _save(path, nodes, given, result, shape, weights, *, apart=False):  # type: ignore[no-untyped-def]  # onnx has no types
    import onnx

    kinds = onnx.TensorProto
    of_text = given == "input_ids"
    start = onnx.helper.make_tensor_value_info(
        given, kinds.INT64 if of_text else kinds.FLOAT, ("batch", "length") if of_text else ("batch", 3, SIDE, SIDE)
    )
    end = onnx.helper.make_tensor_value_info(result, kinds.FLOAT, shape)
    graph = onnx.helper.make_graph(nodes, "tiny", [start], [end], [onnx.numpy_helper.from_array(weights, "weights")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    how = {"save_as_external_data": True, "location": f"{path.name}_data", "size_threshold": 0} if apart else {}
    onnx.save_model(model, str(path), **how)
