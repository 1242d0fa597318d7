"""Sentences of an instruction that are addressed to the judge: they praise a candidate or tell how to score it.

Neither the Router nor the pixel-based judge reads them. A model gets the whole instruction, marked as data.
"""

import re

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|'[^']*'|「[^」]*」|《[^》]*》")
_SENTENCE = re.compile(r"[^.!?;。！？；\n]*[.!?;。！？；\n]+\s*|[^.!?;。！？；\n]+$")
_APPEAL = re.compile(
    r"\b(?:candidate|answer|option|response|choice|output|edit|image|picture|choose|pick|select|prefer)s?:?\s+[A-D]\b"
    r"|\b[A-D]\s+(?:is|wins|deserves|must|should)\b.*\b(?:best|better|win|score|prefer\w*|correct|perfect|superior)\b"
    r"|(?i:\b(?:ignore|disregard|forget)\b.*\b(?:instruction|criteri|rule|rubric|prompt|above|previous)\w*"
    r"|\b(?:highest|maximum|max|full|top|perfect|best)\s+(?:possible\s+)?(?:score|rating|reward|grade|mark)s?\b"
    r"|\b(?:score|rate|grade|reward|judge)\s+(?:it|this|that|candidate)\b"
    r"|\bthe best edit\b|\b(?:you are|as) (?:a|the) judge\b|\bdear (?:judge|evaluator|model)\b"
    r"|^\s*(?:system|assistant)\s*:)"
    r"|(?:候选|答案|选项|选择|选)\s*[A-D]|[A-D]\s*(?:是最好|最好|更好)|忽略.*(?:指令|标准|规则|要求)|最高分|满分"
)


def without_appeals(instruction: str) -> str:
    """Return an instruction without sentences that are addressed to the judge.

    Text in quotes is left alone, since it may be the text to be written. If nothing else is left, the instruction is
    returned as it is.
    """
    masked = _QUOTED.sub(lambda found: "_" * len(found.group()), instruction)
    if _APPEAL.search(masked) is None:
        return instruction
    spans = [found.span() for found in _SENTENCE.finditer(masked)]
    kept = "".join(instruction[low:high] for low, high in spans if _APPEAL.search(masked[low:high]) is None)
    return kept.strip() or instruction
