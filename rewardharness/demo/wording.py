"""Vocabulary of instructions for rendered scenes; alternatives are separated by `|`."""

from rewardharness.demo.canvas import KINDS, Thing

PAINTS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "black", "white")
"""Colors of objects."""

MATERIAL_WORDS: dict[str, str] = {
    "wood": "Make the {} out of wood.|Turn the {} into a wooden one.|Change the material of the {} to wood.",
    "marble": "Make the {} out of white marble.|Change the material of the {} to marble.",
    "gold": "Make the {} out of gold.|Turn the {} into solid gold.",
    "stone": "Make the {} out of gray stone.|Change the material of the {} to rough stone.",
    "stripes": "Give the {} a striped pattern.|Put stripes on the {}.",
    "dots": "Give the {} a polka dot pattern.|Put polka dots on the {}.",
    "checks": "Give the {} a checkered pattern.|Make the {} checkered.",
}
"""Instruction phrases for materials."""

LOOKS_LIKE = {"wood": "brown", "marble": "white", "stone": "gray", "gold": "yellow"}
"""Materials that are barely visible on an object of this color."""

WALL_WORDS: dict[str, str] = {
    "cream": "Paint the wall cream.|Change the wall to a cream color.",
    "blue": "Paint the wall blue.|Change the background wall to blue.",
    "green": "Paint the wall green.|Change the background wall to green.",
    "pink": "Paint the wall pink.|Change the background wall to pink.",
    "brick": "Change the wall behind to a red brick wall.|Replace the background with a brick wall.",
    "kitchen": "Change the background to kitchen shelves.",
    "garden": "Change the background to a green garden.|Replace the background with blurred green foliage.",
    "lights": "Change the background to city lights at night.|Replace the background with a city at night.",
    "beach": "Change the background to a beach.|Replace the background with a sunny beach and the sea.",
    "day": "Make it a sunny day with a blue sky.",
    "sunset": "Change the sky to a sunset.|Make the background an orange sunset.|Make it sunset.",
    "night": "Change the sky to a starry night.|Make it night, with a moon and stars.|Turn day into night.",
    "storm": "Change the sky to dark storm clouds.|Make the sky stormy and gray.",
}
"""Instruction phrases for walls, backgrounds and skies."""

FLOOR_WORDS: dict[str, str] = {
    "snow": "Cover the ground with snow.|Make the ground snowy.",
    "sand": "Turn the meadow into a sandy desert.|Replace the grass with sand.",
    "grass": "Replace the pavement with grass.|Turn the sidewalk into a lawn.",
    "wood": "Change the {} to wood.|Make the {} wooden.",
    "marble": "Make the {} out of white marble.|Change the material of the {} to marble.",
    "tiles": "Change the {} to black and white tiles.|Lay black and white tiles on the {}.",
    "carpet": "Lay a red carpet on the {}.|Cover the {} with a red carpet.",
    "cloth": "Put a checked tablecloth on the {}.|Cover the {} with a checked cloth.",
}
"""Instruction phrases for floors and grounds."""

TURN_WORDS: dict[str, str] = {
    "over": "Turn the {} upside down.|Flip the {} upside down.",
    "side": "Lay the {} on its side.|Tip the {} over so that it lies on its side.",
    "mirror": "Mirror the {} so that it faces the other way.|Make the {} face the other direction.",
}
"""Instruction phrases for turns."""

NUMBERS = ("no", "one", "two", "three", "four")
"""Number words."""


def noun(thing: Thing) -> str:
    """Return the name of an object."""
    return KINDS[thing.kind].noun or thing.kind


def article(words: str) -> str:
    """Return words with the indefinite article."""
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"
