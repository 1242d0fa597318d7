"""The Edit section of the Library tab: a form and texts that change a copy, its test, and its publication."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gradio as gr

from app.failures import explaining_at
from app.library import views
from app.library.chooser import Chooser
from app.library.libraries import Choice, Order, RightsError
from app.library.publish import draw_publishing
from app.library.views import JudgedAgain
from app.run_panel.new_jobs import FOLDER, VISITOR_PAIRS, examples_spec
from app.score.judges import BY_MEASURING
from app.services import AppServices
from app.viewer.pictures import shrunk
from app.widgets import QUIET, Updates, Widgets, announced, button, markup, section, state, textbox
from rewardharness.data.opening import DEMO, FEEDBACK, open_data
from rewardharness.errors import InputError
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.held_out import HeldOutComparison, Score
from rewardharness.library.check import check_texts
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import ENTRY_FILE, RUBRIC_FILE, Entry, check_name, entry_files
from rewardharness.library.problems import Problem
from rewardharness.library.store import Library, ReplaceEntry
from rewardharness.measure.table import MEASURES


@dataclass(frozen=True)
class EditedCopy:
    """A copy of a Library that is being edited."""

    start: Library
    """The Library that was copied."""
    library: Library
    """The copy with all edits without errors."""
    entry: Entry
    """The open entry as the form shows it; it may have errors."""
    problems: tuple[Problem, ...] = ()
    """Problems of the open entry."""
    saved: str = ""
    """Id of the Library that was saved last; empty if none was."""

    @property
    def failed(self) -> bool:
        """Whether the open entry has errors, so that the copy does not have its latest edit."""
        return any(problem.severity == "error" for problem in self.problems)

    def result(self) -> Library:
        """Return the edited Library, with a line in its lineage.

        Raises:
            InputError: If the open entry has errors.
        """
        if self.failed:
            raise InputError(f"{self.entry.name} has errors.", next_step="Correct what the form reports, then repeat.")
        changed = [entry.name for entry in self.library.entries if self.start.get(entry.name) != entry]
        record = {"parent": self.start.id, "library": self.library.id, "operator": "edit by hand", "entries": changed}
        return self.library.with_lineage(record) if changed else self.library

    def edit(self, texts: Mapping[str, str], entry: Entry | None = None) -> "EditedCopy":
        """Apply new texts of the open entry; if they have errors, the Library stays as it is.

        Args:
            texts: See `check_texts`.
            entry: What the form shows if they have errors; None for what it shows now.
        """
        new, problems = check_texts(self.library, self.entry, texts, MEASURES)
        library = self.library if new is None else self.library.apply(ReplaceEntry(new))
        return replace(self, library=library, entry=new or entry or self.entry, problems=problems)


def judge_again(services: AppServices, draft: EditedCopy, data: str, place: str) -> JudgedAgain:
    """Judge labeled examples, at most `VISITOR_PAIRS`, with the Library and with its edited copy.

    Args:
        services: The services.
        draft: The copy.
        data: Kind of data, as in `examples_spec`; visitors have only the demo pairs.
        place: The folder, as typed.

    Raises:
        HarnessError: If the data cannot be read, or the judge gives no answers.
    """
    library = draft.result()
    if not services.local and data != DEMO:
        raise InputError("Other data are not judged on the computer of this page.", next_step="Use the demo pairs.")
    judge = services.judges.open(BY_MEASURING if services.fixed is not None else services.api_judge())
    examples = open_data(examples_spec(data, place), services.settings).examples
    labeled = [example for example in examples if example.preference is not None]
    if not labeled:
        raise InputError("These examples have no labels.", next_step="Choose others, or vote on them first.")
    evaluator = Evaluator(judge, concurrency=judge.traits.concurrency)
    chosen = evaluator.affected(draft.start, library, labeled)[:VISITOR_PAIRS]
    before, after = evaluator.judge(draft.start, chosen), evaluator.judge(library, chosen)
    changed = [
        ("Fixed" if new.credit > old.credit else "Broken", new.example)
        for old, new in zip(before, after, strict=True)
        if old.judged and new.judged and old.credit != new.credit
    ]
    compared = HeldOutComparison.of(after, before)
    return JudgedAgain(len(labeled), Score.of(before), Score.of(after), compared, tuple(changed))


def save_copy(services: AppServices, draft: EditedCopy, name: str) -> tuple[EditedCopy, Path]:
    """Save the edited copy under a name, on this computer.

    A Library of that name is replaced only if it is the one that was copied or saved last.

    Raises:
        HarnessError: If the name is invalid or taken, the copy has errors, or the user is elsewhere.
    """
    if not services.local:
        step = "Publish it with your own login, or run the app on your own computer."
        raise RightsError("Copies are saved only on the computer that the app runs on.", next_step=step)
    check_name(name)
    folder, library = services.libraries.home / name, draft.result()
    if folder.exists() and Library.load(folder).id not in {draft.start.id, draft.saved}:
        step = "Choose another name, or open that Library and edit it."
        raise InputError(f"There is another Library named {name}.", next_step=step)
    replace(library, meta={**library.meta, "id": name}).save(folder)
    return replace(draft, saved=library.id), folder


THUMBNAIL = 320
"""Long side in pixels of the pictures of examples that changed."""


class Editor(Widgets):
    """Widgets that edit a copy of a Library. The form rewrites the texts of the open entry."""

    def __init__(self, services: AppServices, chooser: Chooser) -> None:
        self._services, local = services, services.local
        self.draft = state()
        begin = button("Edit a copy", "edit-copy", variant="primary", min_width=160)
        self.about = markup(views.EDIT_HINT, elem_id="edit-about")
        with gr.Column(visible=False, elem_id="edit-form") as self.form:
            with gr.Row():
                self.entry = gr.Dropdown([], label="Entry", elem_id="edit-entry", min_width=240)
                self.criterion = gr.Dropdown([], label="Criterion", elem_id="edit-criterion", min_width=240)
            fields = self._draw_fields()
            self.problems, self.rubric = markup(elem_id="edit-problems"), markup(elem_id="edit-rubric")
            with section("Advanced: the texts of the entry"):
                plain: dict[str, Any] = {"lines": 8, "max_lines": 24, "max_length": 300_000}
                self.skill_text = textbox(ENTRY_FILE, "edit-skill-text", elem_classes="source-text", **plain)
                self.rubric_text = textbox(RUBRIC_FILE, "edit-rubric-text", elem_classes="source-text", **plain)
            with section("What changed"):
                self.changed = markup(elem_id="edit-changed")
            with section("Judge again on examples", open=True):
                self._draw_judging(local=local)
            with section("Save as a copy", open=True, visible=local):
                name = textbox("Name", "edit-name", placeholder="my-library", max_length=64)
                save = button("Save", "edit-save", min_width=120)
                self.saved = markup(elem_id="edit-saved")
            texts = [self.skill_text, self.rubric_text]
            # Gradio may take the first letter that is typed after an update for a part of it; leaving the field tells.
            edits = [[event for part in parts for event in (part.input, part.blur)] for parts in (fields, texts)]
            with section("Publish"):
                typed = [part.input for part in (*fields, *texts)]
                draw_publishing(
                    services,
                    "edit-publish",
                    lambda repo, options, draft: Order.on_its_base(draft.result(), repo, options),
                    [self.draft],
                    typed,
                )
        begin.click(self.begin, chooser.inputs, self.parts, **QUIET)
        self.entry.input(self.open, [self.draft, self.entry], self.parts, **QUIET)
        self.criterion.input(self.fill, [self.draft, self.criterion], self.parts, **QUIET)
        gr.on(edits[0], self.change, [self.draft, self.criterion, *fields], self.parts, **QUIET)
        gr.on(edits[1], self.rewrite, [self.draft, self.criterion, *texts], self.parts, **QUIET)
        gr.on([save.click, name.submit], self.save, [self.draft, name], [self.draft, self.saved], **QUIET)

    def _draw_fields(self) -> list[Any]:
        """Draw the fields of a criterion, and the triggers."""
        with gr.Column() as self.fields:
            with gr.Column() as self.criteria:
                with gr.Row():
                    labels = {"weight": "Weight", "low": "Worst grade", "high": "Best grade"}
                    self.weight, self.low, self.high = (
                        gr.Number(None, label=label, elem_id=f"edit-{name}", min_width=110)
                        for name, label in labels.items()
                    )
                    known = (name for name, measure in MEASURES.items() if measure.medium == "image")
                    measures = [("None: only a model grades it", ""), *((name, name) for name in known)]
                    options: dict[str, Any] = {"allow_custom_value": True, "elem_id": "edit-measure"}
                    self.measure = gr.Dropdown(measures, label="Measured by", min_width=200, **options)
                self.text = textbox("What is graded", "edit-text", lines=2, max_lines=6, max_length=4000)
            info = "Words and phrases, /regular expressions/, or always; separated by commas."
            options = {"info": info, "max_lines": 5, "max_length": 8000}
            self.triggers = textbox("Applies when the instruction says", "edit-triggers", **options)
        return [self.weight, self.low, self.high, self.measure, self.text, self.triggers]

    def _draw_judging(self, *, local: bool) -> None:
        kinds = [("Demo pairs", DEMO), ("My votes", FEEDBACK), ("A folder or table", FOLDER)][: 3 if local else 1]
        data = gr.Radio(kinds, value=DEMO, label="Examples with labels", elem_id="edit-data")
        place = textbox("Folder or table", "edit-place", placeholder="/home/me/pairs", visible=False)
        again = button("Judge again", "edit-judge", min_width=160)
        self.result = markup(views.AGAIN_HINT, elem_id="edit-result")
        options: dict[str, Any] = {"columns": 4, "object_fit": "contain", "interactive": False, "buttons": []}
        self.pictures = gr.Gallery(label="Examples that changed", visible=False, elem_id="edit-pictures", **options)
        data.input(lambda kind: gr.Textbox(visible=kind == FOLDER), data, place, queue=False, **QUIET)
        limited: dict[str, Any] = {"concurrency_limit": 2, "concurrency_id": "judge again", **QUIET}
        judge = announced(lambda: {self.result: views.JUDGING_AGAIN}, self.judge)
        again.click(judge, [self.draft, data, place], [self.result, self.pictures], **limited)

    @explaining_at("about")
    def begin(self, *values: Any) -> Updates:
        """Copy the chosen Library, and open its first Skill with criteria."""
        choice = Choice(*values)
        library = self._services.libraries.open(choice)
        entries = sorted(library.entries, key=lambda entry: (entry.rubric is None, entry.kind))
        if not entries:
            raise InputError("This Library has no entries.", next_step="Choose another one.")
        name = entries[0].name
        return {
            **self.open(EditedCopy(library, library, entries[0]), name),
            self.about: views.edited(self._services.libraries.name(choice)),
            self.form: gr.Column(visible=True),
            self.entry: gr.Dropdown([entry.name for entry in entries], value=name),
            self.result: views.AGAIN_HINT,
            self.pictures: gr.Gallery(visible=False),
        }

    @explaining_at("problems")
    def open(self, draft: EditedCopy, name: str) -> Updates:
        """Show an entry and its first criterion."""
        entry = draft.library.get(name)
        if entry is None:
            raise InputError("This copy does not have this entry.", next_step="Choose one of the list.")
        draft = replace(draft, entry=entry).edit(entry_files(entry))
        return {
            **self._checked(draft),
            **self._texts(entry),
            **self.fill(draft, 0),
            self.fields: gr.Column(visible=True),
        }

    def fill(self, draft: EditedCopy, index: int | None) -> Updates:
        """Show a criterion in the form."""
        rows = draft.entry.rubric.criteria if draft.entry.rubric is not None else ()
        index = index if index is not None and index < len(rows) else 0
        names = [(criterion.id, number) for number, criterion in enumerate(rows)]
        updates: Updates = {
            self.criterion: gr.Dropdown(names, value=index if rows else None, visible=bool(rows)),
            self.criteria: gr.Column(visible=bool(rows)),
            self.triggers: draft.entry.metadata.get("triggers", ""),
        }
        if rows:
            row = rows[index]
            values = (row.weight, *row.scale, row.measure or "", row.text)
            updates |= zip((self.weight, self.low, self.high, self.measure, self.text), values, strict=True)
        return updates

    @explaining_at("problems")
    def change(self, draft: EditedCopy, index: int | None, *values: Any) -> Updates:
        """Rewrite the texts with the values of the form."""
        weight, low, high, measure, text, typed = values
        entry, triggers = draft.entry, " ".join(typed.split())
        rubric, metadata = entry.rubric, {**entry.metadata, "triggers": triggers}
        if not triggers:
            del metadata["triggers"]
        if rubric is not None:
            if None in {weight, low, high}:
                raise InputError("The weight or a grade is missing.", next_step="Type a number.")
            rows, place = list(rubric.criteria), index or 0
            rows[place] = replace(rows[place], weight=weight, scale=(low, high), measure=measure or None, text=text)
            rubric = replace(rubric, criteria=tuple(rows))
        entry = replace(entry, metadata=metadata, rubric=rubric)
        if entry == draft.entry:  # a field was left; texts that are being typed stay
            return {self.draft: draft}
        return {**self._checked(draft.edit(entry_files(entry), entry)), **self._texts(entry)}

    @explaining_at("problems")
    def rewrite(self, draft: EditedCopy, index: int | None, text: str, rubric: str) -> Updates:
        """Read texts that were typed. While they have errors the form, which would replace them, is hidden."""
        texts = {ENTRY_FILE: text, **({RUBRIC_FILE: rubric} if rubric.strip() else {})}
        if texts == entry_files(draft.entry) and not draft.failed:
            return {self.draft: draft}
        draft = draft.edit(texts)
        return {**self._checked(draft), **self.fill(draft, index), self.fields: gr.Column(visible=not draft.failed)}

    def _texts(self, entry: Entry) -> Updates:
        texts = entry_files(entry)
        rubric = gr.Textbox(texts.get(RUBRIC_FILE, ""), visible=entry.kind == "skill")
        return {self.skill_text: texts[ENTRY_FILE], self.rubric_text: rubric}

    def _checked(self, draft: EditedCopy) -> Updates:
        entry = draft.library.get(draft.entry.name)
        return {
            self.draft: draft,
            self.problems: views.problems(draft.problems),
            self.rubric: views.entry_rubric(entry) if entry is not None and entry.rubric else "",
            self.changed: views.differences(diff_libraries(draft.start, draft.library)),
            self.saved: "",
        }

    @explaining_at("result")
    def judge(self, draft: EditedCopy, data: str, place: str | None) -> Updates:
        """Judge examples with the Library and with the copy."""
        judged = judge_again(self._services, draft, data, place or "")
        named = ((example.images[0], f"{kind}: {example.instruction}") for kind, example in judged.changed)
        tiles = [(shrunk(image, THUMBNAIL), caption) for image, caption in named]
        return {self.result: views.judged_again(judged), self.pictures: gr.Gallery(tiles, visible=bool(tiles))}

    @explaining_at("saved")
    def save(self, draft: EditedCopy, name: str | None) -> Updates:
        """Save the copy under a name."""
        draft, folder = save_copy(self._services, draft, (name or "").strip())
        return {self.draft: draft, self.saved: views.saved(folder.name, str(folder))}
