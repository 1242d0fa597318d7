"""A small Library on disk, for tests that break it."""

import json
from pathlib import Path

SKILL = """---
schema_version: 2
name: text-edits
kind: skill
description: How to judge edits of text.
metadata:
  triggers: text, word
---

# Text

Look at each letter. Use this together with the tool `letter-reader`.
"""
RUBRIC = """criteria:
  - id: spelling
    text: Every letter is right.
    weight: 2
    scale: [1, 4]
    measure: text_match
  - id: placement
    text: The text stands where it was asked for.
    applies: [text, add]
"""
TOOL = """---
schema_version: 2
name: letter-reader
kind: tool
description: Reads the letters in an image.
system_prompt: 'Read all text. Reply with one JSON object: {"text": "what you read"}.'
output_schema:
  text: str
---

Call it when text is small.
"""
MEASURED = """---
name: sharpness-meter
kind: tool
description: Tells how sharp a candidate is.
measure: sharpness
---

A low reading means blur.
"""
LINEAGE = '{"parent": "abc", "operator": "add"}\n'
FILES = {
    "skills/text-edits/SKILL.md": SKILL,
    "skills/text-edits/rubric.yaml": RUBRIC,
    "tools/letter-reader/SKILL.md": TOOL,
    "tools/sharpness-meter/SKILL.md": MEASURED,
    "lineage.jsonl": LINEAGE,
}


def registry(version: int = 2) -> str:
    """The index of the sample, in either schema, written as upstream writes it and not as this project does."""
    rows = {
        "text-edits": ("skill", "How to judge edits of text."),
        "letter-reader": ("tool", "Reads the letters in an image."),
        "sharpness-meter": ("tool", "Tells how sharp a candidate is."),
    }
    kind_key = "kind" if version == 2 else "type"
    entries = {
        name: {"description": description, "path": f"{kind}s/{name}/SKILL.md", kind_key: kind}
        for name, (kind, description) in rows.items()
    }
    if version == 1:
        return json.dumps(entries)
    return json.dumps({"schema_version": 2, "library": {"id": "sample", "owner": "me"}, "x": 1, "entries": entries})


def write_sample(folder: Path, version: int = 2) -> Path:
    """Write the sample and return its folder."""
    for name, text in {**FILES, "registry.json": registry(version)}.items():
        put(folder, name, text)
    return folder


def put(folder: Path, name: str, text: str | bytes) -> None:
    """Write one file exactly."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())


def snapshot(folder: Path) -> dict[str, bytes]:
    """All files of a folder with their bytes."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
