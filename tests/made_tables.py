"""Tables with the columns of known datasets, made by code: small pictures, every row another one."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from PIL import Image as Picture

DATA_100 = "AgPerry/EditReward-Data-100"
VOTES = ("leftvote", "rightvote", "tie")
CATEGORIES = ("color_alter", "subject-add", "style_change")


def picture(seed: int, kind: str = "PNG") -> bytes:
    """The bytes of a small picture; another one for each seed."""
    pixels = np.random.default_rng(seed).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Picture.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def data_100(count: int = 12) -> list[dict[str, Any]]:
    """Rows with the columns of EditReward-Data-100."""
    rows = []
    for number in range(count):
        vote = VOTES[number % 3]
        row: dict[str, Any] = {
            "dev_id": f"{number:03d}",
            "instruction": f"make the house number {number} red",
            "category": CATEGORIES[number % 3],
            "source_image": picture(1000 + number),
            "left_image": picture(2000 + number, "JPEG"),
            "right_image": picture(3000 + number, "WEBP"),
            "left_model": "one",
            "right_model": "other",
            "vote_type": vote,
        }
        for side, won in (("left", vote == "leftvote"), ("right", vote == "rightvote")):
            row |= {f"{side}_instruction_following_score": 4 if won else 2, f"{side}_quality_aesthetic_score": 3}
            row[f"{side}_overall_score"] = 7 if won else 5
        rows.append(row | {"reasoning_chain_A": "it is red"})
    return rows


def as_parquet(
    rows: Sequence[Mapping[str, Any]],
    *,
    images: Sequence[str] = ("source_image", "left_image", "right_image"),
    features: Mapping[str, Any] | None = None,
    group: int = 5,
) -> bytes:
    """Write rows as `datasets` does: images as bytes and a path, and the features in the header.

    Args:
        rows: The rows; images are bytes or None, or lists of them.
        images: The columns of images.
        features: Features of some columns; the others are found.
        group: Rows of a row group.
    """
    from datasets import Features, Image, List, Value

    found: dict[str, Any] = {}
    for name in rows[0]:
        if name in (features or {}):
            found[name] = (features or {})[name]
            continue
        example = next((row[name] for row in rows if row[name] is not None), None)
        if name in images:
            found[name] = List(Image()) if isinstance(example, list) else Image()
        else:
            found[name] = Value({str: "string", bool: "bool", int: "int64", float: "float64"}[type(example)])
    schema = Features(found).arrow_schema
    columns = {name: [_stored(row[name]) if name in images else row[name] for row in rows] for name in rows[0]}
    stream = io.BytesIO()
    parquet.write_table(pa.table(columns, schema=schema), stream, row_group_size=group)
    return stream.getvalue()


def _stored(value: Any) -> Any:
    if isinstance(value, list):
        return [_stored(each) for each in value]
    return None if value is None else {"bytes": value, "path": "upload.png"}
