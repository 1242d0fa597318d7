"""Reading of instructions that describe the result instead of naming an edit, by rules of English grammar.

"A photo of a sitting dog", "Edit the image so that it shows: a goat jumping over a cat" and "Change 'a dog that stands'
to 'a dog that sits'" are captions. Where the caption of the source is stated as well, only what differs is requested.
"""

import re
from dataclasses import dataclass

_POLITE = re.compile(
    r"^\W*(?:(?:hi|hello|hey)\b[\s,!.]*)?(?:"
    r"(?:please|kindly|let's|let us|try to|(?:can|could|would|will) (?:you|we|i)|would it be possible to"
    r"|(?:i|we)(?: would|'d|’d)? (?:want|like|love|need|wish)(?: (?:you|for you))?(?: to(?: see| have)?)?"
    r"|(?:make sure|ensure)(?: that)?|what (?:if|(?:would|will) happen if|about)"
    r"|how about|how would it look (?:if|with)"
    r"|i was wondering (?:if|whether) you (?:can|could))\b[\s,:]*)*",
    re.I,
)
"""Opening of a request or question that says nothing about the edit."""

_THANKS = re.compile(
    r"(?<! says)(?<! say)(?<! saying)(?<! reads)(?<! reading)(?<! word)(?<! words)(?<! text)(?<!write)(?<!add)"
    r"[\s,;.!]{1,8}(?:please|many thanks|thanks(?: a lot)?|thank you(?: very much| so much)?)[\s.!?]{0,8}$",
    re.I,
)
"""End of a request that says nothing about the edit, unless it is the text to write."""

_WISH = re.compile(r"\b(?:want|like|love|need|wish|what about|how about)\b", re.I)
_SOME = re.compile(r"(?:an?|some|another|two|three|four|five|six|seven|eight|nine|ten|\d{1,2})\s", re.I)

_LEAD = re.compile(
    r"(?:^|.*?[\s,;.])(?:"
    r"(?:(?:so|such) that|until|to make) (?:it|they|the (?:image|picture|photo|result|output|scene))"
    r" (?:now |then |will |should |must )?(?:shows?|depicts?|displays?|portrays?)\s*:?"
    r"|(?:it|(?:the|this) (?:(?:edited|new|final|resulting) )?(?:image|picture|photo|photograph|result|output|scene))"
    r" (?:should|must|will|is to|needs to|ought to) (?:now )?(?:show|depict|display|portray|match)\s*:?"
    r"|(?:target|edited|new|output|after|result|desired)(?: (?:image|picture|photo))?"
    r"(?: (?:caption|prompt|description))?\s*:)\s+",
    re.I | re.S,
)
"""Words that introduce the caption of the result."""

_SOURCE = re.compile(
    r"(?:(?:source|original|input|before)(?: (?:image|picture|photo))?(?: (?:caption|prompt|description))?\s*:"
    r"|(?:the|this) (?:(?:source|original|input|current) )?(?:image|picture|photo|scene)"
    r" (?:currently |now )?(?:shows?|depicts?|displays?|portrays?|is of)\s*:?)\s+(?P<source>[^;.\n]+)",
    re.I,
)
"""A statement of what the source shows."""

_PAIR = re.compile(
    r"[\"“'‘](?P<source>[^\"“”‘’]{8,300}?)[\"”'’]\s*[,.]?\s*(?:and )?(?:to|into|with|becomes?|->|=>|→)\s*"
    r"[\"“'‘](?P<target>[^\"“”‘’]{8,300}?)[\"”'’]",
    re.I,
)
_TEXT = re.compile(
    r"\b(?:text|words?|wording|letters?|signs?|label|slogan|title|says?|saying|reads?|writ\w+|logo|font)\b", re.I
)

_PICTURE_OF = re.compile(
    r"^(?:(?:an?|the) (?:[\w-]+ ){0,3})?(?:photo|picture|photograph|image|portrait|close-?up|shot|view|scene)"
    r" (?:of|showing|with)\b",
    re.I,
)
_DETERMINER = re.compile(
    r"^(?:an?|the|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,2}|some|several|many)\s+[a-z]", re.I
)
_FINITE = re.compile(
    r"\b(?:should|shall|must|could|would|will|can|needs?|ought|be|been|is|are|was|were|becom\w+|turns?|turned|changes?"
    r"|changed|gets?|got|disappears?|vanish\w*|has|had|now|no longer|moves?|moved|increas\w+|decreas\w+|doubles?|fades?"
    r"|grows?|shrinks?)\b",
    re.I,
)
"""Verbs by which a sentence states a change, so that it is no caption."""

_NOT_ACTIONS = frozenset(
    "anything awning beginning bing bring building casing ceiling clearing clothing coating crossing cunning darling"
    " duckling dumpling during earring engraving evening everything exciting flooring frosting herring interesting king"
    " landing lighting lightning living lodging meaning missing morning nothing opening outing painting parking railing"
    " ring rigging sapling seating setting siding something spring sterling stocking string stuffing surrounding swing"
    " thing toppings topping training warning wedding wing writing amazing stunning charming matching existing"
    " according including containing featuring showing depicting wearing holding carrying using having being"
    " following remaining"
    " glowing shining drawing rendering dining".split()
)
"""Words in -ing that name things, qualities or possession rather than an action."""

_ACTION = re.compile(r"\b[a-z]{2,}ing\b")
_POSTURE = re.compile(
    r"\b(?:asleep|awake|seated|upright|crouched|curled up|raised|open|opened|closed|shut|folded|spread"
    r"|(?:that|which|who|and) (?:sits|stands|runs|jumps|walks|flies|lies|eats|drinks|sleeps|swims|looks|smiles"
    r"|laughs|cries"
    r"|rolls|leans|kneels|kicks|plays|climbs|begs|waves|points)"
    r"|(?:pulls|lets|goes|drops|takes|puts|picks|lifts|pours|holds|throws|catches|opens|closes|cuts|gives|falls)"
    r" (?:a|an|the|one|his|her|its|up|down|out|off|away|over|into|go))\b"
)


@dataclass(frozen=True)
class Caption:
    """A description of the result."""

    target: str
    """What the result is to show, as written."""
    source: str = ""
    """What the source shows, as written; empty if not stated."""

    @property
    def requested(self) -> str:
        """The words of the target, lowercase; with a caption of the source only those that it lacks, in order."""
        words = re.findall(r"[\w'’-]+|[,.;]", self.target.lower())
        known = set(re.findall(r"[\w'’-]+", self.source.lower()))
        return " ".join(word for word in words if word not in known)


def without_opening(text: str) -> str:
    """Return an instruction without a polite or questioning opening: "Can you make it red?" is "make it red".

    Thanks at its end are left out as well. A wish for something is a wish to add it: "I'd like a cat on the sofa" is
    "add a cat on the sofa".
    """
    text = _THANKS.sub("", text)
    opening = _POLITE.match(text)
    if not (opening and opening.end()):
        return text
    rest = text[opening.end() :].rstrip("? ")
    wished = _WISH.search(opening[0]) and _SOME.match(rest) and not _PICTURE_OF.match(rest)
    return f"add {rest}" if wished else rest


def read_caption(text: str) -> Caption | None:
    """Read an instruction as a description of the result.

    Args:
        text: The instruction, without a polite opening.

    Returns:
        The caption; None for an instruction that names an edit.
    """
    pair = _PAIR.search(text)
    if (
        pair
        and not _TEXT.search(text[: pair.start()])
        and min(len(pair[name].split()) for name in pair.groupdict()) > 2
    ):
        return Caption(pair["target"], pair["source"])
    stated = _SOURCE.search(text)
    source = stated["source"].strip(" \"'“”‘’") if stated else ""
    lead = _LEAD.match(text)
    target = text[lead.end() :] if lead else text
    target = target.strip().strip("\"'“”‘’").strip()
    if lead and target and (stated is None or stated.start() < lead.end()):
        return Caption(target, source)
    if _PICTURE_OF.match(target) or (_DETERMINER.match(target) and not _FINITE.search(target)):
        return Caption(target)
    return None


def names_action(text: str) -> bool:
    """Return whether a phrase of lowercase words names an action or a posture: "sitting", "asleep", "that runs"."""
    return bool(_POSTURE.search(text)) or any(word not in _NOT_ACTIONS for word in _ACTION.findall(text))
