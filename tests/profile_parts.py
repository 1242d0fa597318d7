"""Judge profiles without the texts of their authors: a stand-in for each text, with the same slots."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rewardharness.codec import to_json
from rewardharness.judging.profile import MessagePart, Profile, TextSource
from rewardharness.judging.profile_opening import load_profile
from rewardharness.library.yamlsafe import print_yaml


def parts_of(profile: Profile, call: str = "") -> Iterator[MessagePart]:
    for name, each in profile.calls.items():
        if call in ("", name):
            yield from (*each.system, *each.user)


def marker(profile: Profile, text: str) -> str:
    """What a stand-in begins with, so that a server knows what it is asked."""
    return f"[{profile.name} {text}]"


def stand_in(name: str, folder: Path, max_tokens: int = 2048, profile: Profile | None = None) -> Path:
    """Write a shipped profile whose texts are stand-ins, and whose replies have at most so many tokens."""
    profile = profile or load_profile(name)[0]
    texts = {}
    for text, source in profile.texts.items():
        slots = {slot: None for part in parts_of(profile) if text in part.uses for slot in part.slots}
        inline = " ".join([marker(profile, text), *slots])
        texts[text] = TextSource("none", inline=inline, braces=source.braces)
    sampling = replace(profile.sampling, max_tokens=min(max_tokens, profile.sampling.max_tokens))
    path = folder / f"{name}.yaml"
    path.write_text(print_yaml(to_json(replace(profile, texts=texts, sampling=sampling))), encoding="utf-8")
    return path


def canned(profile: Profile, asked: str) -> str:
    """Return a reply of the authors' form to a request of the profile, from its first check."""
    check = next(check for check in profile.check if check.score)
    for call in profile.calls:
        texts = {text for part in parts_of(profile, call) for text in part.uses if text}
        if any(marker(profile, text) in asked for text in texts):
            return check.replies[call]
    raise AssertionError(asked)
