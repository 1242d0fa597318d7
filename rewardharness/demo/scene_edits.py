"""Edits of rendered scenes. Each function generates an edit of one category, or None if it is not possible."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rewardharness.demo.canvas import KINDS, Thing
from rewardharness.demo.defects import ANYWHERE, COLOR_CHANGES, SHAPE_CHANGES
from rewardharness.demo.edits import Base, Draw, KnownEdit, Named, Rng, meddle_later, misspelt, pick
from rewardharness.demo.filters import Picture, fade, half
from rewardharness.demo.paint import MATERIALS
from rewardharness.demo.scenes import PLACES, WORDS, Scene, draw, natural_color, stand
from rewardharness.demo.wording import (
    FLOOR_WORDS,
    LOOKS_LIKE,
    MATERIAL_WORDS,
    NUMBERS,
    PAINTS,
    TURN_WORDS,
    WALL_WORDS,
    article,
    noun,
)


def base_of(scene: Scene, rng: Rng) -> Base:
    """Return the rendered scene as an image to edit."""
    return Base(scene.key, partial(draw, scene), _drawn(_unasked(scene, (), rng)))


def _drawn(scenes: Sequence[tuple[str, Scene]]) -> Named:
    return tuple((what, partial(draw, scene)) for what, scene in scenes)


def _one(things: Sequence[Thing], rng: Rng) -> Thing:
    return things[int(rng.integers(len(things)))]


def _paint(thing: Thing, rng: Rng, *, other_than: tuple[str, ...] = ()) -> str:
    return pick([name for name in PAINTS if name not in (thing.color, *other_than)], rng)


def _new_kind(scene: Scene, rng: Rng, *, other_than: tuple[str, ...] = ()) -> str:
    there = {thing.kind for thing in scene.things}
    return pick([kind for kind in PLACES[scene.place].kinds if kind not in there and kind not in other_than], rng)


def _unasked(scene: Scene, touched: tuple[int | str, ...], rng: Rng) -> list[tuple[str, Scene]]:
    """Return scenes with one clear change outside the parts that an edit affects: slots, `wall`, `floor`."""
    found: list[tuple[str, Scene]] = []
    others = [thing for thing in scene.standing if thing.slot not in touched]
    if others:
        thing = _one(others, rng)
        found.append((f"{noun(thing)} gone", scene.without(thing)))
        if "color" in KINDS[thing.kind].edits:
            color = _paint(thing, rng)
            found.append((f"{noun(thing)} made {color}", scene.altered(thing, color=color)))
    free = [slot for slot in scene.free if slot not in touched]
    if free:
        kind = _new_kind(scene, rng)
        extra = stand(scene.place, kind, free[int(rng.integers(len(free)))], natural_color(kind, rng), rng)
        found.append((f"{noun(extra)} added", scene.plus(extra)))
    spec = PLACES[scene.place]
    if "wall" not in touched:
        wall = pick([each for each in spec.walls if each != scene.wall], rng)
        found.append((f"background made {wall}", replace(scene, wall=wall)))
    if "floor" not in touched:
        floor = pick([each for each in spec.floors if each != scene.floor], rng)
        found.append((f"ground made {floor}", replace(scene, floor=floor)))
    return found


def _faded(before: Scene, after: Scene, share: float) -> Picture:
    return fade(draw(before), draw(after), share)


def _halved(before: Scene, after: Scene, axis: int, edge: float) -> Picture:
    return half(draw(before), draw(after), axis, edge)


def _case(
    category: str,
    instruction: str,
    scene: Scene,
    after: Scene,
    wrong: Sequence[tuple[str, Scene]],
    touched: tuple[int | str, ...],
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
    free, last = scene.free, len(PLACES[scene.place].slots) - 1
    if not free:
        return None
    slot = free[int(rng.integers(len(free)))]
    kind = _new_kind(scene, rng)
    new = stand(scene.place, kind, slot, natural_color(kind, rng), rng)
    where = {0: " on the left", last: " on the right"}.get(slot, " in the middle" if last == 2 else "")
    what = article(f"{new.color} {noun(new)}" if "color" in KINDS[kind].edits else noun(new))
    words = "Add {}{}.|Put {}{}.|Place {}{}." if where else "Add {}{}.|Add {} to the scene{}."
    third = _new_kind(scene, rng, other_than=(kind,))
    other = stand(scene.place, third, slot, natural_color(third, rng), rng)
    wrong = [(f"{noun(other)} added instead", scene.plus(other))]
    if "color" in KINDS[kind].edits:
        color = _paint(new, rng)
        wrong.append((f"{color} instead of {new.color}", scene.plus(replace(new, color=color))))
    if where and len(free) > 1:
        elsewhere = next(each for each in free if each != slot)
        wrong.append(("in the wrong place", scene.plus(stand(scene.place, kind, elsewhere, new.color, rng))))
    made = _case("add", pick(words, rng).format(what, where), scene, scene.plus(new), wrong, (slot,), rng)
    return replace(made, again=partial(draw, scene.plus(replace(new, x=new.x + 0.015, size=new.size * 0.95))))


def remove(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that removes an object."""
    thing = _one(scene.standing, rng)
    other = _one([each for each in scene.standing if each != thing], rng)
    words = pick("Remove the {}.|Take the {} away.|Erase the {} from the picture.|Delete the {}.", rng)
    wrong = [
        (f"{noun(other)} removed instead", scene.without(other)),
        ("everything removed", scene.without(thing, other)),
    ]
    return _case("remove", words.format(noun(thing)), scene, scene.without(thing), wrong, (thing.slot,), rng)


def exchange(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that replaces an object."""
    thing = _one(scene.standing, rng)
    other = _one([each for each in scene.standing if each != thing], rng)
    kind = _new_kind(scene, rng)
    third = _new_kind(scene, rng, other_than=(kind,))
    new = stand(scene.place, kind, thing.slot, natural_color(kind, rng), rng)
    bad = stand(scene.place, third, thing.slot, natural_color(third, rng), rng)
    astray = stand(scene.place, kind, other.slot, new.color, rng)
    words = pick("Replace the {} with {}.|Swap the {} for {}.|Turn the {} into {}.", rng)
    wrong = [
        (f"{noun(bad)} instead", scene.changed(thing, bad)),
        (f"{noun(other)} replaced instead", scene.changed(other, astray)),
        ("only removed", scene.without(thing)),
    ]
    instruction = words.format(noun(thing), article(noun(new)))
    made = _case("replace", instruction, scene, scene.changed(thing, new), wrong, (thing.slot,), rng)
    return replace(made, again=partial(draw, scene.changed(thing, replace(new, size=new.size * 0.95))))


def recolor(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the color of an object."""
    things = [thing for thing in scene.standing if "color" in KINDS[thing.kind].edits]
    if not things:
        return None
    thing = _one(things, rng)
    color = _paint(thing, rng)
    after = scene.altered(thing, color=color)
    bad = _paint(thing, rng, other_than=(color,))
    wrong = [(f"made {bad}", scene.altered(thing, color=bad))]
    others = [each for each in things if each != thing and each.color != color]
    if others:
        other = _one(others, rng)
        wrong.append((f"{noun(other)} made {color} instead", scene.altered(other, color=color)))
    words = pick("Make the {0} {1}.|Change the color of the {0} to {1}.|Turn the {0} {1}.|Paint the {0} {1}.", rng)
    part = partial(_halved, scene, after, 0, thing.y - thing.size * 0.42)
    return _case("color", words.format(noun(thing), color), scene, after, wrong, (thing.slot,), rng, part)


def remake(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the material of an object or the floor."""
    spec = PLACES[scene.place]
    if scene.place in {"room", "table"} and rng.random() < 0.35:
        floors = [each for each in spec.floors if each != scene.floor]
        floor = pick(floors, rng)
        after = replace(scene, floor=floor)
        bad = next(each for each in floors if each != floor)
        words = pick(FLOOR_WORDS[floor], rng).format("floor" if scene.place == "room" else "table")
        part = partial(_halved, scene, after, 1, 0.5)
        return _case(
            "material", words, scene, after, [(f"made {bad}", replace(scene, floor=bad))], ("floor",), rng, part
        )
    things = [thing for thing in scene.standing if "material" in KINDS[thing.kind].edits]
    if not things:
        return None
    thing = _one(things, rng)
    name = pick([each for each in MATERIALS if LOOKS_LIKE.get(each) != thing.color], rng)
    bad = pick([each for each in MATERIALS if each != name], rng)
    after = scene.altered(thing, material=name)
    wrong = [(f"made of {bad}", scene.altered(thing, material=bad))]
    others = [each for each in things if each != thing]
    if others:
        wrong.append((f"{noun(others[0])} changed instead", scene.altered(others[0], material=name)))
    words = pick(MATERIAL_WORDS[name], rng).format(noun(thing))
    part = partial(_halved, scene, after, 0, thing.y - thing.size * 0.42)
    return _case("material", words, scene, after, wrong, (thing.slot,), rng, part)


def change_background(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the wall, sky or ground."""
    spec = PLACES[scene.place]
    ground = scene.place in {"landscape", "street"} and rng.random() < 0.3
    part_of, names, there = ("floor", spec.floors, scene.floor) if ground else ("wall", spec.walls, scene.wall)
    name = pick([each for each in names if each != there], rng)
    bad = pick([each for each in names if each not in (there, name)], rng)
    other_values: list[dict[str, Any]] = [{part_of: name}, {part_of: bad}]
    after, other = (replace(scene, **values) for values in other_values)
    words = pick((FLOOR_WORDS if ground else WALL_WORDS)[name], rng)
    edge = float(rng.uniform(0.38, 0.58))
    part = partial(_halved, scene, after, 1, edge)
    return _case("background", words, scene, after, [(f"made {bad}", other)], (part_of,), rng, part)


def write(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the text on a sign, card or poster."""
    signs = [thing for thing in scene.things if thing.slot < 0]
    if not signs:
        return None
    sign = signs[0]
    word = pick([each for each in WORDS if each != sign.text], rng)
    if not sign.text:
        words = 'Write "{1}" on the {0}.|Add the word \'{1}\' to the {0}.|Put the text "{1}" on the {0}.'
    elif rng.random() < 0.25:
        words, word = (
            'Remove the text from the {0}.|Erase the writing on the {0}.|Remove the word "{2}" from the {0}.',
            "",
        )
    else:
        words = 'Change the text on the {0} to "{1}".|Replace "{2}" on the {0} with "{1}".|Make the {0} say "{1}".'
    after = scene.altered(sign, text=word)
    bad = misspelt(word or sign.text, rng)
    other = pick([each for each in WORDS if each not in (sign.text, word)], rng)
    wrong = [(f'written "{text}"', scene.altered(sign, text=text)) for text in ((bad, other) if word else (bad,))]
    begun = partial(draw, scene.altered(sign, text=word[: len(word) // 2])) if word else None
    return _case(
        "text", pick(words, rng).format(noun(sign), word, sign.text), scene, after, wrong, (sign.slot,), rng, begun
    )


def count(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the number of objects, for scenes with one kind of object."""
    things, slots = scene.standing, len(PLACES[scene.place].slots)
    number = len(things)
    wanted = int(rng.choice([each for each in range(1, slots + 1) if each != number]))
    first = things[0]
    ordered = [thing.slot for thing in things] + scene.free

    def of(total: int) -> Scene:
        extra = [stand(scene.place, first.kind, slot, first.color, rng) for slot in ordered[number:total]]
        return replace(scene, things=tuple([*things[:total], *extra]))

    after = of(wanted)
    others = [each for each in range(1, slots + 1) if each not in (number, wanted)]
    wrong = [
        (f"made {NUMBERS[each]}", replace(after, things=after.things[:each]) if each < wanted else of(each))
        for each in others
    ]
    what = noun(first)
    if wanted == 1:
        words = "Leave only one {0}.|Keep just one {0} and remove the others.|Make it one {0} instead of {2}."
    else:
        words = "Make it {1} {0}.|There should be {1} {0}.|Change the number of {0} to {1}."
        what += "es" if what.endswith("ch") else "s"
    instruction = pick(words, rng).format(what, NUMBERS[wanted], NUMBERS[number])
    return _case("count", instruction, scene, after, wrong, tuple(range(slots)), rng)


def move(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that moves an object or swaps two objects."""
    things, free = scene.standing, scene.free
    thing = _one(things, rng)
    other = _one([each for each in things if each != thing], rng)
    if not free:
        return None

    def at(what: Thing, slot: int) -> Thing:
        x, y = PLACES[scene.place].slots[slot]
        return replace(what, x=x, y=y, slot=slot)

    slot = free[int(rng.integers(len(free)))]
    if rng.random() < 0.4:
        swapped = tuple(
            at(each, other.slot if each == thing else thing.slot) if each in (thing, other) else each
            for each in scene.things
        )
        words = pick("Swap the positions of the {0} and the {1}.|Let the {0} and the {1} change places.", rng)
        wrong = [(f"only the {noun(thing)} moved", scene.changed(thing, at(thing, slot)))]
        instruction = words.format(noun(thing), noun(other))
        return _case(
            "position", instruction, scene, replace(scene, things=swapped), wrong, (thing.slot, other.slot), rng
        )
    last = len(PLACES[scene.place].slots) - 1
    side = "right" if slot > thing.slot else "left"
    if slot in (0, last):
        words = pick(
            "Move the {0} to the {1} side.|Put the {0} on the far {1}.|Move the {0} all the way to the {1}.", rng
        )
    elif last == 2:
        words = pick("Move the {0} to the middle.|Put the {0} in the middle.", rng)
    else:
        words = "Move the {0} further to the {1}."
    after = scene.changed(thing, at(thing, slot))
    wrong = [(f"{noun(other)} moved instead", scene.changed(other, at(other, slot)))]
    wrong += [
        ("moved to the wrong place", scene.changed(thing, at(thing, each)))
        for each in free
        if each != slot and (each < thing.slot) != (slot < thing.slot)
    ]
    copied = partial(draw, scene.plus(at(thing, slot)))
    return _case("position", words.format(noun(thing), side), scene, after, wrong, (thing.slot, slot), rng, copied)


def turn(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit that turns, tips over or mirrors an object."""
    things = [thing for thing in scene.standing if KINDS[thing.kind].turns]
    if not things:
        return None
    thing = _one(things, rng)
    turns = KINDS[thing.kind].turns
    way, bad = turns if rng.random() < 0.5 else turns[::-1]
    inside = min(max(thing.x, thing.size / 2), 1 - thing.size / 2)
    turned = {
        "over": replace(thing, angle=180.0),
        "side": replace(thing, angle=90.0, x=inside),
        "mirror": replace(thing, mirrored=True),
    }
    after = scene.changed(thing, turned[way])
    wrong = [
        ({"over": "turned over", "side": "laid down", "mirror": "mirrored"}[bad], scene.changed(thing, turned[bad]))
    ]
    tilted = None if way == "mirror" else partial(draw, scene.altered(thing, angle=25.0))
    words = pick(TURN_WORDS[way], rng).format(noun(thing))
    return _case("pose", words, scene, after, wrong, (thing.slot,), rng, tilted)


def _scaled(scene: Scene, thing: Thing, factor: float) -> Scene:
    """Return the scene with a resized object that stays inside the image."""
    size = thing.size * factor
    x = min(max(thing.x, size * 0.46), 1 - size * 0.46)
    return scene.altered(thing, size=size, x=x, y=thing.y + 0.06 * max(0.0, factor - 1))


def resize(scene: Scene, rng: Rng) -> KnownEdit | None:
    """Generate an edit of the size of an object."""
    thing = _one(scene.standing, rng)
    other = _one([each for each in scene.standing if each != thing], rng)
    larger = rng.random() < 0.5 and thing.size < 0.42
    factor, opposite = (1.55, 0.6) if larger else (0.52, 1.4)
    wrong = [
        ("the other way", _scaled(scene, thing, opposite)),
        (f"{noun(other)} instead", _scaled(scene, other, factor)),
    ]
    bigger = "Make the {} much larger.|Make the {} bigger.|Enlarge the {}."
    words = pick(bigger if larger else "Make the {} much smaller.|Make the {} half as big.|Shrink the {}.", rng)
    slightly = partial(draw, _scaled(scene, thing, 1.10 if larger else 0.90))
    after = _scaled(scene, thing, factor)
    made = _case("other", words.format(noun(thing)), scene, after, wrong, (thing.slot,), rng, slightly)
    return replace(made, again=partial(draw, _scaled(scene, thing, factor * 0.96)))
