"""Infer column mappings from column names, with built-in mappings for known datasets."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from rewardharness.data.fields import FieldMap
from rewardharness.data.row_store import DataTable
from rewardharness.data.tables import IMAGE
from rewardharness.schema import LABELS, SOURCES, TIE

_VOTES: dict[str, Any] = {"source": "source_image", "preference": ("vote_type",), "label_kind_text": "human"}
KNOWN: dict[str, FieldMap] = {
    "AgPerry/EditReward-Data-100": FieldMap(
        **_VOTES,
        instruction="instruction",
        candidates=("left_image", "right_image"),
        values={"leftvote": "A", "rightvote": "B", "tie": "tie", "tievote": "tie"},
        id="dev_id",
        category="category",
    ),
    "TIGER-Lab/GenAI-Bench": FieldMap(
        **_VOTES,
        instruction="instruct_prompt",
        candidates=("left_output_image", "right_output_image"),
        values={"leftvote": "A", "rightvote": "B", "tievote": "tie", "bothbad vote": "tie"},
    ),
}
"""Column mappings of datasets on the Hub. In GenAI-Bench, "both bad" votes count as ties."""

_LETTERS = {**{label.lower(): label for label in LABELS}, TIE: TIE}
_PLACES = {str(place): label for place, label in enumerate(LABELS)}

_SOURCE = (
    "source_image source input_image original_image src_image image_source image_before before_image before original "
    "input reference_image src image_src source_img input_img original_img init_image image sources source_images "
    "input_images source_1 source_image_1 input_image_1"
)
_REFERENCES = "references reference_images ref_images"
_REFERENCE_STEMS = "reference reference_image ref_image source source_image input_image"
_INSTRUCTION = (
    "instruction edit_instruction editing_instruction instruct_prompt edit_prompt prompt instruction_text edit text "
    "request command caption question query"
)
SINGLE = ("edited", "edited_image", "output_image", "output", "candidate", "edit", "result", "image")
"""Names of columns with a single candidate."""
_LISTS = (
    "candidates candidate_images output_images edited_images outputs edits edit_images responses completions videos "
    "images"
)
_PREFERENCE = (
    "preference vote_type vote preferred human_preference winner label choice best best_candidate annotation verdict "
    "human_label human_vote ranking"
)
_WINNERS = ("chosen rejected", "winner loser", "preferred rejected", "win lose", "good bad")
_STEMS = (
    "image img candidate output output_image edited edited_image edit response response_image option result completion "
    "answer video"
)
_SUFFIXES = (("a", "b", "c", "d"), ("0", "1", "2", "3"), ("1", "2", "3", "4"), ("left", "right"))
_SCORES = "overall_score score overall rating reward mean_score average_score total_score"
_RANKS = "rank ranking"
_EDITORS = "editor model model_name"
_ID = "id dev_id example_id sample_id pair_id uid uuid item_id row_id"
_CATEGORY = "category edit_type task_type edit_category edit_task task subset type"
_SOURCE_ID = "source_id source_image_id image_id src_id"


class InferredFields(NamedTuple):
    """The fields of a table, and how they were inferred."""

    fields: FieldMap
    how: str
    """One sentence; empty if all fields were given."""
    guessed: bool = False
    """Whether fields were inferred from column names, so that the user should check them."""


def complete(rows: DataTable, stated: FieldMap, repo: str = "") -> InferredFields:
    """Complete a field map from the built-in mapping of a dataset, or from its column names.

    Args:
        rows: The table.
        stated: Fields set by the user; they take precedence.
        repo: Dataset repository of the table, if any.

    Returns:
        The fields. Unknown fields are empty; `fields.check_columns` reports them.
    """
    known = KNOWN.get(repo)
    if known is not None and all(column in rows.columns for columns in known.columns.values() for column in columns):
        return InferredFields(stated.over(known).settled(), f"Built-in column mapping of {repo}.")
    inferred = _infer(rows, stated)
    whole = stated.over(inferred).settled()
    if not (whole.preference or whole.label_kind or whole.label_kind_text):
        whole = replace(whole, label_kind_text="scores" if whole.scores else "ranks" if whole.ranks else "")
    taken = {name: columns for name, columns in whole.columns.items() if stated.columns.get(name) != columns}
    if not taken:
        return InferredFields(whole, "")
    mapping = "; ".join(f"{name} is {', '.join(columns)}" for name, columns in taken.items())
    label = "" if whole.labeled else " No label column was found."
    return InferredFields(whole, f"Inferred from column names: {mapping}.{label}", guessed=True)


def _infer(rows: DataTable, stated: FieldMap) -> FieldMap:
    plain = {name.lower().replace("-", "_").replace(" ", "_"): name for name in reversed(rows.columns)}
    images = {name: column for name, column in plain.items() if column in rows.images}
    texts = {name: column for name, column in plain.items() if column not in rows.images}
    ours = _ours(rows)
    if ours is not None:
        return ours
    # Without an image anywhere, candidates are texts.
    candidates, ends = _candidates(rows, images or texts, stated)
    others = {key: column for key, column in images.items() if column not in candidates}
    source = stated.source or _first(_SOURCE, others)
    others = {key: column for key, column in others.items() if column != source}
    preference = _first(_PREFERENCE, texts)
    labels: dict[str, Any] = {"preference": (preference,)}
    if ends in [tuple(pair.split()) for pair in _WINNERS]:
        labels = {"first_wins": True}
    elif not preference:
        scores = _scores(_SCORES, texts, ends, len(candidates))
        labels = {"scores": scores} if scores else {"ranks": _scores(_RANKS, texts, ends, len(candidates))}
    return FieldMap(
        source=source,
        instruction=_first(_INSTRUCTION, texts),
        references=stated.references or _references(others),
        candidates=candidates,
        id=_first(_ID, {**plain, **texts}),
        category=_first(_CATEGORY, texts),
        source_id=_first(_SOURCE_ID, texts),
        label_kind="label_kind" if "label_kind" in rows.columns else "",
        editors=_scores(_EDITORS, texts, ends, len(candidates)),
        **labels,
    )


def _ours(rows: DataTable) -> FieldMap | None:
    """Return the fields of a `groups.jsonl`, optionally with a `pairs.jsonl` (see `folder`): `best` counts from 0."""
    if "candidates" not in rows.images or not {"source", "instruction", "best"} <= set(rows.columns):
        return None
    names = (*(f"candidate_{label.lower()}" for label in LABELS), "candidates")
    there: dict[str, Any] = {
        name: name if name in rows.columns else "" for name in ("id", "category", "source_id", "label_kind")
    }
    return FieldMap(
        source="source",
        instruction="instruction",
        references=("references",) if "references" in rows.images else (),
        candidates=tuple(name for name in names if name in rows.images),
        preference=tuple(name for name in ("preference", "best") if name in rows.columns),
        values={**_LETTERS, **_PLACES},
        **there,
    )


def _first(names: str, columns: dict[str, str]) -> str:
    return next((columns[name] for name in names.split() if name in columns), "")


def _references(images: dict[str, str]) -> tuple[str, ...]:
    """Return a column with a list of references, or numbered columns such as `reference_2` or `source_2`."""
    if listed := _first(_REFERENCES, images):
        return (listed,)
    for stem in _REFERENCE_STEMS.split():
        for name in _spellings(stem):
            named = [images.get(name(str(number))) for number in range(2, SOURCES + 1)]
            if named[0]:
                return tuple(column for column in named if column)
    return ()


def _candidates(rows: DataTable, media: dict[str, str], stated: FieldMap) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the candidate columns and their distinguishing suffixes, such as `left` and `right`."""
    if stated.candidates:
        return stated.candidates, _ends(stated.candidates)
    lists = ({"list": IMAGE}, {"list": {"list": IMAGE}})
    single = {name: column for name, column in media.items() if rows.shapes[column] not in lists}
    videos = {name: column for name, column in media.items() if rows.shapes[column] == lists[0]}
    for group in (single, videos):
        for ends, names in _patterns():
            columns = [group[name] for name in names if name in group and group[name] != stated.source]
            if len(columns) >= 2 and [name in group for name in names[: len(columns)]] == [True] * len(columns):
                return tuple(columns), ends[: len(columns)]
    listed = _first(_LISTS, {name: column for name, column in media.items() if name not in single or not rows.images})
    return ((listed,), ()) if listed else ((), ())


def _patterns() -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield all naming patterns of candidate columns."""
    for ends in (*_SUFFIXES, *(tuple(pair.split()) for pair in _WINNERS)):
        yield ends, list(ends)
        for stem in _STEMS.split():
            yield from ((ends, [name(end) for end in ends]) for name in _spellings(stem))


def _spellings(stem: str) -> Iterable[Callable[[str], str]]:
    return (lambda end: f"{stem}_{end}", lambda end: f"{end}_{stem}", lambda end: f"{stem}{end}")


def _ends(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the distinguishing suffixes of the given columns."""
    wanted = [column.lower() for column in columns]
    return next((ends[: len(wanted)] for ends, names in _patterns() if names[: len(wanted)] == wanted), ())


def _scores(stems: str, texts: dict[str, str], ends: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return columns with scores or editors that are named like the candidates, or a single column with a list."""
    for stem in stems.split():
        for name in _spellings(stem):
            columns = [texts[name(end)] for end in ends if name(end) in texts]
            if ends and len(columns) == count:
                return tuple(columns)
        if f"{stem}s" in texts:
            return (texts[f"{stem}s"],)
    return ()
