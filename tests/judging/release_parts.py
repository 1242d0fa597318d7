"""A small Library and releases of it, for tests."""

from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.release import Release, make_release
from rewardharness.library.entry import parse_entry
from rewardharness.library.store import Library

SKILL = """---
schema_version: 2
name: seeing-red
kind: skill
description: How red things are. Ünïcode — “quoted”.
metadata:
  triggers: red, /make .* red/
---

# Red

Look whether it is red.
"""
RUBRIC = """criteria:
  - id: is-red
    text: It is red.
    weight: 2
    scale: [1, 4]
    dimension: instruction
    measure: color_target
  - id: is-sharp
    text: It is sharp.
    weight: 1
    scale: [1, 4]
    dimension: quality
    measure: sharpness
"""
TOOL = """---
schema_version: 2
name: sharpness-tool
kind: tool
description: Measures sharpness.
measure: sharpness
metadata:
  triggers: always
---

Call it.
"""


def small_library(body: str = "") -> Library:
    skill = parse_entry(SKILL + body, name="seeing-red", kind="skill", rubric_text=RUBRIC)
    return Library((skill, parse_entry(TOOL, name="sharpness-tool", kind="tool")))


def measured_release(body: str = "") -> Release:
    return make_release("measured", small_library(body))


def model_release(spec: str = "vllm:judge", **settings: object) -> Release:
    how = ModelJudgeConfig(**settings)
    return make_release(spec, small_library(), how)
