"""Requests that the result be like the source: the same image, or an object of the same appearance.

Such a request names a likeness ("as similar as possible", "an exact copy", "unchanged", "match") and the source, and
no edit. It concerns the appearance if it names a surface, material, gloss or finish, and the whole image otherwise.
"""

import re
from typing import Literal

_IMAGE = r"(?:image|picture|photo(?:graph)?|scene|shot)"
_SOURCE = (
    rf"(?:(?:source|input|reference)(?: (?:{_IMAGE}|object|one))?|original(?: (?:{_IMAGE}|object|one)"
    rf"|(?= ?(?:[.,;:!?']|$"
    rf"|as|in|at|with|by|exactly|completely|entirely)))|(?:first|given|provided|attached|above) {_IMAGE}|what you see"
    rf"|(?:as|like|it was) before\b|as in (?:the|this|that|my|our) {_IMAGE})"
)
"""Words for the source; `original lamp` is a part of it."""
_THE_IMAGE = (
    rf"(?:(?:the|this|that|my|our) (?:(?:very|whole|entire|given|same|exact|source|original|input|reference) )*{_IMAGE}"
    rf"|(?:the )?{_SOURCE})"
)
_LIKE = (
    r"(?:identical\w*|indistinguishable|(?:exactly|just|the very|the) same|same|equal|(?:as )?(?:similar|close"
    r"|near)(?:ly)?"
    r"|true|faithful(?:ly)?|fidelity|accurate(?:ly)?|match\w*|resembl\w+|looks? (?:exactly |just )?like|differs?"
    r"|different|different(?:ly)?|deviat\w+|exactly like|perfect|exact)"
)
_KEPT = [
    # the image is what is reproduced, kept or left
    rf"\b(?:reproduc\w+|reconstruct\w*|re-?creat\w+|redraw\w*|cop(?:y|ying)|duplicat\w+|clon\w+|replicat\w+"
    rf"|keep(?:ing)?"
    rf"|preserv\w+|retain\w*|maintain\w*|return\w*|leav\w+|output|regenerat\w+|hand me|give me(?: back)?|show me"
    rf"|send back)(?: back)? (?:{_THE_IMAGE}|everything|(?:it|this)(?: all)?(?= ?(?:[.,;:!?]|$|alone|as|like|exactly"
    rf"|the|how|just|completely|entirely|un\w+))|all(?= ?(?:[.,;:!?]|$|as|un\w+)))",
    # a copy of it, or the same image
    rf"\b(?:(?:exact|identical|perfect|faithful|true|close|accurate|precise|1:1|pixel-perfect) (?:\w+ )?|an? )?(?:copy"
    rf"|replica|duplicate|clone|reproduction|twin) of (?:{_THE_IMAGE})",
    rf"\b(?:identical|exact same|very same|exactly the same|same exact|exact)(?: (?:version|rendition|copy)(?: of)?)?"
    rf" (?:the )?(?:{_IMAGE}|original|source|input)\b",
    # the result is like the source
    rf"\b{_LIKE}\b[^.;:]{{0,40}}?\b{_SOURCE}",
    rf"\b{_SOURCE}[^.;:]{{0,40}}\b{_LIKE}\b",
    rf"\b{_THE_IMAGE} [^.;:]{{0,30}}\b(?:un(?:changed|touched|altered|modified|edited)|as (?:it )?is|alone)\b",
    # nothing is changed
    r"\b(?:do not|don't|don’t|without|no|never) (?:\w+ing |any |make |making )*(?:chang\w*|edit\w*|modif\w*|alter\w*"
    r"|differen\w+|touch)(?: (?:anything|at all|a (?:single )?\w+|any (?:\w+ )?\w+))*\W*$",
    r"\bnothing (?:\w+ ){0,2}(?:be|is|gets?|has) (?:\w+ )?(?:different|changed|edited|altered|modified|touched)\b",
]
_SAME_IMAGE = [re.compile(pattern) for pattern in _KEPT]
_TO_SOURCE = re.compile(rf"\b{_SOURCE}")
_LIKENESS = re.compile(
    rf"\b(?:{_LIKE}|keep|preserve|match|retain|maintain|reproduce|render|copy|transfer|apply|use|give|take)\b"
)
_SURFACE = re.compile(
    r"\b(?:appearance|materials?|gloss\w*|finish|surface|sheen|shin(?:e|y|iness)|reflect(?:ance|ion|ivity|ive)"
    r"|rough(?:ness)?|stuff|(?:look|texture) of the (?:object|material|surface))\b"
)
_EDIT = re.compile(
    r"\b(?:remove|add|replace|chang(?:e|ing)|turn|transform|paint|put|move|insert|delete|erase|swap|but|except"
    r"|instead|other than|apart from|as (?:an?|if) (?!(?:\w+ )?(?:copy|replica|duplicate|clone)"
    r"|it (?:is|was|were) made of the same)|into an?"
    r"|in the style"
    r"|in (?:an? )?[\w-]+ style|in black|with an?|brighter|darker)\b"
)
"""Words of an edit, or of an exception."""


def requested_likeness(lower: str) -> Literal["keep", "appearance"] | None:
    """Return whether an instruction asks for the same image or the same appearance.

    Args:
        lower: The instruction, in lowercase.

    Returns:
        The kind of edit; None if it asks for neither, or for an edit as well.
    """
    rest = _SAME_IMAGE[-2].sub(" ", _SAME_IMAGE[-1].sub(" ", lower))
    if _EDIT.search(rest):
        return None
    surface, source = _SURFACE.search(lower), _TO_SOURCE.search(lower)
    if _SAME_IMAGE[0].search(lower) and not (surface and re.search(r"\b(?:of|object|material)\b", lower)):
        return "keep"
    if surface:
        return "appearance" if source and _LIKENESS.search(lower) else None
    return "keep" if any(pattern.search(lower) for pattern in _SAME_IMAGE) else None
