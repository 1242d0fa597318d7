"""Columns are recognised by the names that datasets give them, and what was recognised is said."""

import pytest

from rewardharness.data.columns import KNOWN, InferredFields, complete
from rewardharness.data.fields import FieldMap, check_columns
from rewardharness.data.row_store import DataTable
from rewardharness.errors import DataError

LISTS = ("output_images", "candidates", "many", "images", "references", "source_images")


def table(*names: str) -> DataTable:
    """A table with these columns; what begins with `+` holds images, and names of `LISTS` lists of them."""
    images = {name: {"list": "image"} if name[1:] in LISTS else "image" for name in names if name[0] == "+"}
    return DataTable("table", {name.lstrip("+"): images.get(name) for name in names})  # type: ignore[misc]


def recognised(*names: str, given: FieldMap = FieldMap()) -> FieldMap:  # noqa: B008
    return complete(table(*names), given).fields


AB = ("edit_a", "edit_b")
NAMED = {
    "+source_image instruction +left_image +right_image vote_type dev_id category": FieldMap(
        "source_image", "instruction", ("left_image", "right_image"), ("vote_type",), id="dev_id", category="category"
    ),
    "+source_image instruct_prompt +left_output_image +right_output_image vote_type left_model right_model": FieldMap(
        "source_image",
        "instruct_prompt",
        ("left_output_image", "right_output_image"),
        ("vote_type",),
        editors=("left_model", "right_model"),
    ),
    "id instruction +source_image +candidate_1 +candidate_2 ranking comparison_type score_1 score_2": FieldMap(
        "source_image", "instruction", ("candidate_1", "candidate_2"), ("ranking",), id="id"
    ),
    "+image_0 +image_1 +image_2 prompt +input_image": FieldMap(
        "input_image", "prompt", ("image_0", "image_1", "image_2")
    ),
    "+source +Candidate-A +Candidate_B prompt Label": FieldMap(
        "source", "prompt", ("Candidate-A", "Candidate_B"), ("Label",)
    ),
    "+input_image instruction +output_images scores": FieldMap(
        "input_image", "instruction", ("output_images",), scores=("scores",), label_kind_text="scores"
    ),
    "+before prompt +edit_a +edit_b a_score b_score": FieldMap(
        "before", "prompt", AB, scores=("a_score", "b_score"), label_kind_text="scores"
    ),
    "+before prompt +edit_a +edit_b rank_a rank_b": FieldMap(
        "before", "prompt", AB, ranks=("rank_a", "rank_b"), label_kind_text="ranks"
    ),
    "+image prompt +chosen +rejected label": FieldMap("image", "prompt", ("chosen", "rejected"), first_wins=True),
    "+source instruction +image_winner +image_loser": FieldMap(
        "source", "instruction", ("image_winner", "image_loser"), first_wins=True
    ),
}


@pytest.mark.parametrize("names", NAMED)
def test_names_that_datasets_use(names: str) -> None:
    assert recognised(*names.split()) == NAMED[names]


def test_what_was_recognised_is_said() -> None:
    rows = table("+source", "prompt", "+left", "+right", "mood")
    found = complete(rows, FieldMap())
    said = "source is source; instruction is prompt; candidates is left, right. No label column was found."
    assert found == InferredFields(found.fields, f"Inferred from column names: {said}", guessed=True)
    given = FieldMap(preference=("mood",), source="source", instruction="prompt", candidates=("right", "left"))
    assert complete(rows, given) == InferredFields(given, "")
    partly = complete(rows, FieldMap(candidates=("right", "left"), preference=("mood",)))
    assert partly.how == "Inferred from column names: source is source; instruction is prompt."


def test_what_is_given_leads_to_the_rest() -> None:
    names = "+image +left +right +image_a +image_b left_score right_score score_a score_b text".split()
    found = recognised(*names, given=FieldMap(candidates=("left", "right")))
    assert (found.source, found.scores) == ("image", ("left_score", "right_score"))
    assert recognised(*names).scores == ("score_a", "score_b")
    assert recognised(*names, given=FieldMap(scores=("-",))).labeled is False

    found = recognised("source_image", "+source", "+instruction", "prompt", "+left", "right", "+image_a", "+image_b")
    assert (found.source, found.instruction, found.candidates) == ("source", "prompt", ("image_a", "image_b"))


def test_what_cannot_be_recognised_is_asked_for() -> None:
    rows = table("+one", "+two", "+three", "words")
    with pytest.raises(DataError, match="no column for the field 'source' was found") as caught:
        check_columns(rows, complete(rows, FieldMap()).fields)
    assert "Columns: one, two, three, words. Image columns: one, two, three." in caught.value.next_step


def test_known_datasets_are_known_only_where_their_columns_are() -> None:
    repo = "AgPerry/EditReward-Data-100"
    columns = ("+source_image", "instruction", "+left_image", "+right_image", "vote_type", "dev_id", "category")
    whole = complete(table(*columns), FieldMap(), repo)
    assert whole == InferredFields(KNOWN[repo], f"Built-in column mapping of {repo}.")
    assert complete(table(*columns), FieldMap(category="-"), repo).fields.category == ""
    assert complete(table(*columns[:-1]), FieldMap(), repo).guessed


@pytest.mark.parametrize(
    ("names", "source", "references"),
    [
        ("+source +references instruction +edit_a +edit_b", "source", ("references",)),
        ("+source +source_2 +source_3 instruction +edit_a +edit_b", "source", ("source_2", "source_3")),
        ("+source_1 +source_2 instruction +edit_a +edit_b", "source_1", ("source_2",)),
        ("+source +reference_image_2 instruction +edit_a +edit_b", "source", ("reference_image_2",)),
        ("+source_images instruction +edit_a +edit_b", "source_images", ()),
        ("+source +references instruction +candidates best", "source", ("references",)),
        ("+source +reference_image instruction +edit_a +edit_b", "source", ()),
    ],
)
def test_references_are_recognised(names: str, source: str, references: tuple[str, ...]) -> None:
    fields = recognised(*names.split())
    assert (fields.source, fields.references) == (source, references)
