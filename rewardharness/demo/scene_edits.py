"""Edits of rendered scenes. Each function generates an edit of one category, or None if it is not possible."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rewardharness.demo.edits import Base, Draw, KnownEdit, Named, meddle_later, misspelt, pick
from rewardharness.demo.filters import ANYWHERE, COLOR_CHANGES, SHAPE_CHANGES, Picture, Rng, fade, half
from rewardharness.demo.paint import MATERIALS
from rewardharness.demo.scenes import (
    FLOOR_WORDS,
    LOOKS_LIKE,
    MATERIAL_WORDS,
    NUMBERS,
    PAINTS,
    TURN_WORDS,
    WALL_WORDS,
    WORDS,
    Scene,
    article,
    draw,
    noun,
    stand,
)
from rewardharness.demo.things import KINDS, Thing

_Scenes = Sequence[tuple[str, Scene]]
_Touched = tuple[int | str, ...]
"""What an edit affects: slots, `wall`, `floor`."""


def base_of(scene: Scene, rng: Rng) -> Base:
    """Return the rendered scene as an image to edit."""
    return Base(scene.key, partial(draw, scene), _drawn(_unasked(scene, (), rng)))


def _drawn(scenes: _Scenes) -> Named:
    return tuple((what, partial(draw, scene)) for what, scene in scenes)


def _paint(thing: Thing, rng: Rng, *, other_than: str = "") -> str:
    return pick([name for name in PAINTS if name not in (thing.color, other_than)], rng)


def _new_kind(scene: Scene, rng: Rng, *, other_than: str = "") -> str:
    there = {other_than, *(thing.kind for thing in scene.things)}
    return pick([kind for kind in scene.spec.kinds if kind not in there], rng)


def _unasked(scene: Scene, touched: _Touched, rng: Rng) -> _Scenes:
    """Return scenes with one clear change outside the parts that an edit affects."""
    scenes: list[tuple[str, Scene]] = []
    if others := [thing for thing in scene.standing if thing.slot not in touched]:
        thing = pick(others, rng)
        scenes.append((f"{noun(thing)} gone", scene.without(thing)))
        if "color" in KINDS[thing.kind].edits:
            color = _paint(thing, rng)
            scenes.append((f"{noun(thing)} made {color}", scene.altered(thing, color=color)))
    if free := [slot for slot in scene.free if slot not in touched]:
        kind = _new_kind(scene, rng)
        extra = stand(scene.place, kind, pick(free, rng), rng)
        scenes.append((f"{noun(extra)} added", scene.plus(extra)))
    if "wall" not in touched:
        wall = pick([surface for surface in scene.spec.walls if surface != scene.wall], rng)
        scenes.append((f"background made {wall}", replace(scene, wall=wall)))
    if "floor" not in touched:
        floor = pick([surface for surface in scene.spec.floors if surface != scene.floor], rng)
        scenes.append((f"ground made {floor}", replace(scene, floor=floor)))
    return scenes


def _faded(before: Scene, after: Scene, share: float) -> Picture:
    return fade(draw(before), draw(after), share)


def _halved(before: Scene, after: Scene, axis: int, edge: float) -> Picture:
    return half(draw(before), draw(after), axis, edge)


def _upper(before: Scene, after: Scene, thing: Thing) -> Draw:
    """Return an edit of the upper part of an object only."""
    return partial(_halved, before, after, 0, thing.y - thing.size * 0.42)


def _case(
    category: str,
    instruction: str,
    scene: Scene,
    after: Scene,
    wrong: _Scenes,
    touched: _Touched,
    rng: Rng,
    half_done: Draw | None = None,
) -> KnownEdit:
    right = partial(draw, after)
    over = _drawn(_unasked(after, touched, rng))
    return KnownEdit(
        category=category,
        instruction=instruction,
        key=scene.key,
        source=partial(draw, scene),
        right=right,
        wrong=_drawn(wrong),
        half_done=half_done or partial(_faded, scene, after, 0.45),
        over=(*over, *meddle_later(right, SHAPE_CHANGES + COLOR_CHANGES, rng)),
        defects=ANYWHERE if touched in (("wall",), ("floor",)) else KnownEdit.defects,
    )


def add(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that adds an object, at a given location or anywhere."""
    free, last = scene.free, len(scene.spec.slots) - 1
    if not free:
        return None
    slot = pick(free, rng)
    kind = _new_kind(scene, rng)
    new = stand(scene.place, kind, slot, rng)
    where = {0: " on the left", last: " on the right"}.get(slot, " in the middle" if last == 2 else "")
    colored = "color" in KINDS[kind].edits
    what = article(f"{new.color} {noun(new)}" if colored else noun(new))
    templates = "Add {}{}.|Put {}{}.|Place {}{}." if where else "Add {}{}.|Add {} to the scene{}."
    other = stand(scene.place, _new_kind(scene, rng, other_than=kind), slot, rng)
    wrong = [(f"{noun(other)} added instead", scene.plus(other))]
    if colored:
        color = _paint(new, rng)
        wrong.append((f"{color} instead of {new.color}", scene.plus(replace(new, color=color))))
    if where and len(free) > 1:
        elsewhere = next(position for position in free if position != slot)
        wrong.append(("in the wrong place", scene.plus(stand(scene.place, kind, elsewhere, rng, new.color))))
    instruction = pick(templates, rng).format(what, where)
    again = scene.plus(replace(new, x=new.x + 0.015, size=new.size * 0.95))
    made = _case("add", instruction, scene, scene.plus(new), wrong, (slot,), rng)
    return replace(made, again=partial(draw, again))


def remove(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that removes an object."""
    thing = pick(scene.standing, rng)
    other = pick(scene.beside(thing), rng)
    template = pick("Remove the {}.|Take the {} away.|Erase the {} from the picture.|Delete the {}.", rng)
    less = scene.without(thing)
    wrong = [(f"{noun(other)} removed instead", scene.without(other)), ("everything removed", less.without(other))]
    return _case("remove", template.format(noun(thing)), scene, less, wrong, (thing.slot,), rng)


def exchange(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that replaces an object."""
    thing = pick(scene.standing, rng)
    other = pick(scene.beside(thing), rng)
    kind = _new_kind(scene, rng)
    third = _new_kind(scene, rng, other_than=kind)
    new = stand(scene.place, kind, thing.slot, rng)
    bad = stand(scene.place, third, thing.slot, rng)
    astray = stand(scene.place, kind, other.slot, rng, new.color)
    template = pick("Replace the {} with {}.|Swap the {} for {}.|Turn the {} into {}.", rng)
    wrong = [
        (f"{noun(bad)} instead", scene.changed(thing, bad)),
        (f"{noun(other)} replaced instead", scene.changed(other, astray)),
        ("only removed", scene.without(thing)),
    ]
    instruction = template.format(noun(thing), article(noun(new)))
    again = scene.changed(thing, replace(new, size=new.size * 0.95))
    made = _case("replace", instruction, scene, scene.changed(thing, new), wrong, (thing.slot,), rng)
    return replace(made, again=partial(draw, again))


def recolor(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the color of an object."""
    things = [thing for thing in scene.standing if "color" in KINDS[thing.kind].edits]
    if not things:
        return None
    thing = pick(things, rng)
    color = _paint(thing, rng)
    after = scene.altered(thing, color=color)
    bad = _paint(thing, rng, other_than=color)
    wrong = [(f"made {bad}", scene.altered(thing, color=bad))]
    if others := [member for member in things if member != thing and member.color != color]:
        other = pick(others, rng)
        wrong.append((f"{noun(other)} made {color} instead", scene.altered(other, color=color)))
    template = pick("Make the {0} {1}.|Change the color of the {0} to {1}.|Turn the {0} {1}.|Paint the {0} {1}.", rng)
    instruction, part = template.format(noun(thing), color), _upper(scene, after, thing)
    return _case("color", instruction, scene, after, wrong, (thing.slot,), rng, part)


def remake(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the material of an object or the floor."""
    if scene.place in {"room", "table"} and rng.random() < 0.35:
        floors = [surface for surface in scene.spec.floors if surface != scene.floor]
        floor = pick(floors, rng)
        after = replace(scene, floor=floor)
        bad = next(surface for surface in floors if surface != floor)
        instruction = pick(FLOOR_WORDS[floor], rng).format("floor" if scene.place == "room" else "table")
        wrong, part = [(f"made {bad}", replace(scene, floor=bad))], partial(_halved, scene, after, 1, 0.5)
        return _case("material", instruction, scene, after, wrong, ("floor",), rng, part)
    things = [thing for thing in scene.standing if "material" in KINDS[thing.kind].edits]
    if not things:
        return None
    thing = pick(things, rng)
    name = pick([material for material in MATERIALS if LOOKS_LIKE.get(material) != thing.color], rng)
    bad = pick([material for material in MATERIALS if material != name], rng)
    after = scene.altered(thing, material=name)
    wrong = [(f"made of {bad}", scene.altered(thing, material=bad))]
    for other in [member for member in things if member != thing][:1]:
        wrong.append((f"{noun(other)} changed instead", scene.altered(other, material=name)))
    instruction = pick(MATERIAL_WORDS[name], rng).format(noun(thing))
    return _case("material", instruction, scene, after, wrong, (thing.slot,), rng, _upper(scene, after, thing))


def change_background(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the wall, sky or ground."""
    ground = scene.place in {"landscape", "street"} and rng.random() < 0.3
    names, there = (scene.spec.floors, scene.floor) if ground else (scene.spec.walls, scene.wall)
    name = pick([surface for surface in names if surface != there], rng)
    bad = pick([surface for surface in names if surface not in (there, name)], rng)
    after, other = (replace(scene, **{"floor" if ground else "wall": surface}) for surface in (name, bad))  # type: ignore[arg-type]
    instruction = pick((FLOOR_WORDS if ground else WALL_WORDS)[name], rng)
    part = partial(_halved, scene, after, 1, float(rng.uniform(0.38, 0.58)))
    touched = ("floor" if ground else "wall",)
    return _case("background", instruction, scene, after, [(f"made {bad}", other)], touched, rng, part)


_NEW_TEXT = 'Write "{1}" on the {0}.|Add the word \'{1}\' to the {0}.|Put the text "{1}" on the {0}.'
_NO_TEXT = 'Remove the text from the {0}.|Erase the writing on the {0}.|Remove the word "{2}" from the {0}.'
_OTHER_TEXT = 'Change the text on the {0} to "{1}".|Replace "{2}" on the {0} with "{1}".|Make the {0} say "{1}".'


def write(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the text on a sign, card or poster."""
    sign = next((thing for thing in scene.things if thing.slot < 0), None)
    if sign is None:
        return None
    word, templates = pick([option for option in WORDS if option != sign.text], rng), _NEW_TEXT
    if sign.text:
        word, templates = ("", _NO_TEXT) if rng.random() < 0.25 else (word, _OTHER_TEXT)
    after = scene.altered(sign, text=word)
    bad = misspelt(word or sign.text, rng)
    other = pick([option for option in WORDS if option not in (sign.text, word)], rng)
    wrong = [(f'written "{text}"', scene.altered(sign, text=text)) for text in ((bad, other) if word else (bad,))]
    begun = partial(draw, scene.altered(sign, text=word[: len(word) // 2])) if word else None
    instruction = pick(templates, rng).format(noun(sign), word, sign.text)
    return _case("text", instruction, scene, after, wrong, (sign.slot,), rng, begun)


def count(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the number of objects, for scenes with one kind of object."""
    things, slots = scene.standing, len(scene.spec.slots)
    number, first = len(things), things[0]
    wanted = int(rng.choice([amount for amount in range(1, slots + 1) if amount != number]))
    ordered = [thing.slot for thing in things] + scene.free

    def of(total: int) -> Scene:
        extra = [stand(scene.place, first.kind, slot, rng, first.color) for slot in ordered[number:total]]
        return replace(scene, things=(*things[:total], *extra))

    after = of(wanted)
    wrong = [
        (f"made {NUMBERS[amount]}", replace(after, things=after.things[:amount]) if amount < wanted else of(amount))
        for amount in range(1, slots + 1)
        if amount not in (number, wanted)
    ]
    what = noun(first)
    if wanted == 1:
        templates = "Leave only one {0}.|Keep just one {0} and remove the others.|Make it one {0} instead of {2}."
    else:
        templates = "Make it {1} {0}.|There should be {1} {0}.|Change the number of {0} to {1}."
        what += "es" if what.endswith("ch") else "s"
    instruction = pick(templates, rng).format(what, NUMBERS[wanted], NUMBERS[number])
    return _case("count", instruction, scene, after, wrong, tuple(range(slots)), rng)


def move(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that moves an object or swaps two objects."""
    free, slots = scene.free, scene.spec.slots
    thing = pick(scene.standing, rng)
    other = pick(scene.beside(thing), rng)
    if not free:
        return None

    def at(what: Thing, slot: int) -> Thing:
        return replace(what, x=slots[slot][0], y=slots[slot][1], slot=slot)

    slot = pick(free, rng)
    moved = at(thing, slot)
    if rng.random() < 0.4:
        swaps = {thing: at(thing, other.slot), other: at(other, thing.slot)}
        after = replace(scene, things=tuple(swaps.get(member, member) for member in scene.things))
        template = pick("Swap the positions of the {0} and the {1}.|Let the {0} and the {1} change places.", rng)
        wrong = [(f"only the {noun(thing)} moved", scene.changed(thing, moved))]
        instruction = template.format(noun(thing), noun(other))
        return _case("position", instruction, scene, after, wrong, (thing.slot, other.slot), rng)
    last = len(slots) - 1
    side = "right" if slot > thing.slot else "left"
    template = "Move the {0} further to the {1}."
    if slot in (0, last):
        template = "Move the {0} to the {1} side.|Put the {0} on the far {1}.|Move the {0} all the way to the {1}."
        template = pick(template, rng)
    elif last == 2:
        template = pick("Move the {0} to the middle.|Put the {0} in the middle.", rng)
    wrong = [(f"{noun(other)} moved instead", scene.changed(other, at(other, slot)))]
    wrong += [
        ("moved to the wrong place", scene.changed(thing, at(thing, position)))
        for position in free
        if position != slot and (position < thing.slot) != (slot < thing.slot)
    ]
    instruction, touched = template.format(noun(thing), side), (thing.slot, slot)
    copied = partial(draw, scene.plus(moved))
    return _case("position", instruction, scene, scene.changed(thing, moved), wrong, touched, rng, copied)


def turn(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that turns, tips over or mirrors an object."""
    things = [thing for thing in scene.standing if KINDS[thing.kind].turns]
    if not things:
        return None
    thing = pick(things, rng)
    turns = KINDS[thing.kind].turns
    way, bad = turns if rng.random() < 0.5 else turns[::-1]
    inside = min(max(thing.x, thing.size / 2), 1 - thing.size / 2)
    turned = {
        "over": ("turned over", replace(thing, angle=180.0)),
        "side": ("laid down", replace(thing, angle=90.0, x=inside)),
        "mirror": ("mirrored", replace(thing, mirrored=True)),
    }
    after = scene.changed(thing, turned[way][1])
    wrong = [(turned[bad][0], scene.changed(thing, turned[bad][1]))]
    tilted = None if way == "mirror" else partial(draw, scene.altered(thing, angle=25.0))
    instruction = pick(TURN_WORDS[way], rng).format(noun(thing))
    return _case("pose", instruction, scene, after, wrong, (thing.slot,), rng, tilted)


def _scaled(scene: Scene, thing: Thing, factor: float) -> Scene:
    """Return the scene with a resized object that stays inside the image."""
    size = thing.size * factor
    x = min(max(thing.x, size * 0.46), 1 - size * 0.46)
    return scene.altered(thing, size=size, x=x, y=thing.y + 0.06 * max(0.0, factor - 1))


def resize(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the size of an object."""
    thing = pick(scene.standing, rng)
    other = pick(scene.beside(thing), rng)
    larger = rng.random() < 0.5 and thing.size < 0.42
    factor, opposite = (1.55, 0.6) if larger else (0.52, 1.4)
    wrong = [
        ("the other way", _scaled(scene, thing, opposite)),
        (f"{noun(other)} instead", _scaled(scene, other, factor)),
    ]
    bigger = "Make the {} much larger.|Make the {} bigger.|Enlarge the {}."
    template = pick(bigger if larger else "Make the {} much smaller.|Make the {} half as big.|Shrink the {}.", rng)
    slightly = partial(draw, _scaled(scene, thing, 1.10 if larger else 0.90))
    after, again = _scaled(scene, thing, factor), _scaled(scene, thing, factor * 0.96)
    made = _case("other", template.format(noun(thing)), scene, after, wrong, (thing.slot,), rng, slightly)
    return replace(made, again=partial(draw, again))
