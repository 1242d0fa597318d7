"""Formats progress and results of a model as a judge for the Score tab. Pure: records in, markup out.

All results are markup for `gr.Markdown`, see `app.markup`; labels of controls are plain text.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from app.markup import SHORT, block, bullets, callout, count, document, escape, hashed, notice, paragraph, table, whole
from app.score.comparisons import ModelRun
from app.score.judges import ENDPOINT, ENVIRONMENT, GEMINI, HUGGING_FACE, PROFILE, AnswerCost
from app.score.releases import Fixed
from app.score.views import ALONE_NOTE, beside, listed, verdict_section, warnings
from app.viewer.chain_views import last_thought, showing_title, swapped
from rewardharness.judging.checklist import GradedChecklist, checklist_of
from rewardharness.judging.model_config import Protocol
from rewardharness.judging.profile import Profile
from rewardharness.judging.release import Release, remarks
from rewardharness.judging.release_card import UNVERIFIED, Figure
from rewardharness.models.base import ModelError, Reply
from rewardharness.models.probe import LocalServer, Probe
from rewardharness.schema import TIE, Judgment

PROTOCOLS: Mapping[Protocol, str] = {
    "chain": "Reasons step by step, calls the Tools of the Library, then answers, as in the paper.",
    "direct": "Answers immediately, without reasoning: fast, few tokens.",
    "logprob": "Uses the probabilities of A and B as the first token: a graded answer for one token.",
    "pointwise": "Scores each candidate separately, from 1 to 4; presentation order has no effect.",
    "rubric": "Grades each candidate separately on every criterion of the Library, then weights the grades.",
    "checklist": "Writes yes-or-no principles for the instruction once, then grades each candidate on them.",
}
"""Description of each protocol."""

SUFFICIENT_CONTEXT = 16384
"""Context length in tokens that is sufficient for a comparison of large images with reasoning."""


_CAPABILITIES: Mapping[str, tuple[str, str]] = {
    "Images": (
        "The model sees images.",
        "Images are rejected or ignored, so nothing can be judged. Serve a vision-language model; with vLLM allow "
        "enough images: --limit-mm-per-prompt '{\"image\":8}'.",
    ),
    "Structured output": (
        "The answer format is enforced.",
        "The answer format is not enforced: an answer in another format is requested again, then not judged. vLLM: see "
        "--structured-outputs-config.",
    ),
    "Probabilities": (
        "The protocol Logprob is available.",
        "The protocol Logprob is not available; choose another (vLLM: --max-logprobs 20).",
    ),
    "Context length": (
        "LENGTH",
        "LENGTH Large images or long reasoning may not fit: increase it (vLLM: --max-model-len 32768), or scale the "
        "images down.",
    ),
}
"""What the availability of each capability of a server means, and the remedy where it is missing."""


def protocol_choices() -> list[tuple[str, str]]:
    """Return label (two lines of plain text) and name of each protocol."""
    return [(f"{name.capitalize()}\n{sentence}", name) for name, sentence in PROTOCOLS.items()]


def near_choices(servers: Iterable[LocalServer]) -> list[tuple[str, str]]:
    """Return label (plain text) and `KIND URL NAME` of each model that a server on this computer serves."""
    said = {True: "accepts images", False: "does not accept images", None: "may accept images"}
    models = [(server, model) for server in servers for model in server.models]
    labels = [f"{model.name}\n{server.usual}, {server.url}: {said[model.images]}" for server, model in models]
    return list(zip(labels, (f"{server.kind} {server.url} {model.name}" for server, model in models), strict=True))


def judge_line(kind: str, name: str, *, local: bool) -> str:
    """Describe a model judge in one line, and where the images are sent.

    Args:
        kind: `ENVIRONMENT`, `ENDPOINT`, `PROFILE`, `HUGGING_FACE` or `GEMINI`.
        name: Label of the choice.
        local: Whether the user is at this computer.
    """
    whose = "the login of this computer" if local else "your login"
    places = {
        **dict.fromkeys((ENDPOINT, PROFILE), "the endpoint in the section Judge"),
        GEMINI: "Google",
        HUGGING_FACE: f"Hugging Face and the provider of the model, with {whose}",
        ENVIRONMENT: "the model that this app is configured with",
    }
    method = "as its authors ask it, without a Library" if kind == PROFILE else "with the Skills and Tools of a Library"
    return block(
        f'<p><span class="pill">{escape(name)}</span> judges the images, {method}. '
        f"Compare sends the images and the instruction to {places[kind]}.</p>"
    )


def destination(kind: str, *, local: bool) -> str:
    """Return where a judge sends the images, in a few words as plain text; see `judge_line` for the arguments."""
    places = {
        **dict.fromkeys((ENDPOINT, PROFILE), "images go to the endpoint"),
        GEMINI: "images go to Google",
        HUGGING_FACE: "images go to Hugging Face",
        ENVIRONMENT: "images go to the model of this app",
    }
    return places.get(kind, "nothing leaves this computer" if local else "no model, no key")


def about_profile(profile: Profile, *, missing: bool) -> str:
    """Say what a judge profile asks, where its texts come from, and what is off.

    Args:
        profile: The profile.
        missing: Whether texts are still to be fetched.
    """
    origins = dict.fromkeys(text.origin for text in profile.texts.values() if not text.inline)
    text = f"Its prompts come from {'; '.join(origins) or 'the profile itself'}"
    text += ", and are fetched with the first judgment." if missing else "."
    off = "Library, Tools and measured evidence are off."
    return block(paragraph(f"{profile.about} {text} {off}") + paragraph(f"Model: {profile.model}", "faint"))


def working(candidates: int, run: ModelRun) -> str:
    """Return the placeholder of the result while a model judges."""
    asked = "once" if len(run.showings) == 1 else f"{len(run.showings)} times in parallel"
    text = f"It is queried {asked}. Its reasoning appears below as it arrives."
    return notice("empty busy", f"The model is judging {count(candidates, 'candidate')}…", text)


def status(run: ModelRun) -> str:
    """Format progress and usage of a model in one line."""
    answered = sum(order.answered for order in run.showings)
    return block(f'<p class="faint">{answered} of {len(run.showings)} answers · {_taken(run.spent)}</p>')


def _taken(spent: AnswerCost) -> str:
    """Format seconds, calls and tokens."""
    usage = spent.usage
    calls = count(usage.calls, "call")
    return f"{usage.seconds:.0f} s · {calls} · {usage.input_tokens:,} tokens in · {usage.output_tokens:,} tokens out"


def spent(spent: AnswerCost) -> str:
    """Format time, calls, tokens, cost and cached answers of a comparison, as markup."""
    parts = [_taken(spent), _cost(spent)] if spent.usage.calls else [f"{spent.usage.seconds:.0f} s", "no calls"]
    if spent.remembered:
        many = "1 answer was" if spent.remembered == 1 else f"{spent.remembered} answers were"
        parts.append(f"{many} cached and free")
    return f'<p class="faint spent">{" · ".join(parts)}</p>'


def _cost(spent: AnswerCost) -> str:
    cost = spent.cost
    if cost is None:
        return "cost unknown: " + ("no price is set" if spent.price is None else "the server does not count tokens")
    return f"about ${cost:.{max(2, 1 - math.floor(math.log10(cost)))}f}" if cost else "free of charge"


def stopped(run: ModelRun | None) -> str:
    """Return the message after Stop."""
    note = paragraph("Nothing was judged. Your images are still here.")
    return block(callout("empty", "Stopped", note, spent(run.spent) if run is not None else ""))


def verdict(judgment: Judgment, run: ModelRun) -> str:
    """Format preference, margin, position consistency and cost."""
    grounds = f"<p>{_lead(judgment, run)} {_order_kept(judgment, run)}</p>{spent(run.spent)}"
    return block(f"{verdict_section(judgment, grounds)}{_order_broken(judgment, run)}{warnings(judgment)}")


_WHY_ORDER = "A model that sees no clear difference often prefers the candidate that is shown first (position bias)."


def _lead(judgment: Judgment, run: ModelRun) -> str:
    margin = judgment.margin or 0.0
    if len(judgment.scores) == 1:
        return ALONE_NOTE
    if judgment.inconsistent:
        return f"The model's answers contradict each other and cancel out. This is not a tie. {_WHY_ORDER}"
    if judgment.preference == TIE or len(judgment.ranking) < 2:
        return "The model finds no difference between them."
    first, second = escape(judgment.preference or ""), listed(judgment.ranking[1])
    if run.alone:
        return f"{first} leads {second} by {margin:.2f} in reward, which runs from 0 to 1."
    if run.how.protocol == "logprob":
        return f"The probabilities favor {first} over {second} by {margin:.2f}, where 0 is undecided and 1 is certain."
    if run.profile is not None:
        return f"{first} leads {second} by {margin:.2f}, where 1 is the largest margin."
    if margin > 0.999:
        return f"The model preferred {first} over {second} in every query."
    return f"{first} leads {second} by {margin:.2f}, where 1 means preferred in every query."


def _order_kept(judgment: Judgment, run: ModelRun) -> str:
    if len(judgment.scores) == 1:
        return ""
    if run.alone:
        return "Each candidate was judged separately, so presentation order had no effect."
    if judgment.position_consistent is None:
        return "Only one presentation order was used, so position consistency is unknown."
    return "The answer is the same in both presentation orders." if judgment.position_consistent else ""


def _order_broken(judgment: Judgment, run: ModelRun) -> str:
    if judgment.position_consistent is not False or judgment.inconsistent:
        return ""
    changed = "changed with the order" if run.how.samples == 1 else "was not the same in all orders and samples"
    return callout("warning", f"The answer {changed}, so trust it little", paragraph(_WHY_ORDER))


def reasons(judgment: Judgment, run: ModelRun) -> str:
    """Format the reasons in the model's own words."""
    passage, graded = last_thought(run.showings), checklist_of(judgment)
    if graded is not None:
        why = _checklist(graded)
    elif judgment.reasons:
        why = bullets(map(escape, judgment.reasons), "reasons")
    elif run.alone and passage is not None:  # each candidate was judged separately
        own = [(order.showing.labels[0], last_thought([order])) for order in run.showings if not order.showing.sample]
        why = bullets((beside(label, document(thought[1])) for label, thought in own if thought), "reasons")
    elif judgment.position_consistent is False:
        why = paragraph("The answers differ. See “How the judge got there”.", "faint")
    elif run.profile is not None:
        why = paragraph("The replies of the model are under “How the judge got there”.", "faint")
    elif passage is None:
        why = paragraph("This protocol asks only for the answer, without reasons.", "faint")
    else:
        title = f"The model's own words, presentation order: {showing_title(passage[0])}."
        why = document(passage[1]) + paragraph(f"{title} {swapped(passage[0])}".strip(), "faint")
    return block(f"<h3>Why</h3>{why}")


def _checklist(graded: GradedChecklist) -> str:
    """Format the principles of a checklist, and which of them each candidate met."""
    marks = {1.0: _mark("good", "met"), 0.0: _mark("warning", "not met"), None: "not graded"}
    rows = [
        [
            f'{escape(principle.criterion.text)} <span class="faint">{principle.criterion.dimension}, '
            f"weight {principle.criterion.weight:g}</span>",
            *(marks.get(met[number]) or f"met in {met[number]:.0%} of samples" for met in graded.met.values()),
        ]
        for number, principle in enumerate(graded.principles)
    ]
    head = ["Principle", *map(escape, graded.met)]
    note = "The model wrote these principles for the instruction before it saw a candidate, unless you corrected them."
    return paragraph(note, "faint") + table(head, rows, "cards")


def _mark(style: str, word: str) -> str:
    return f'<span class="pill {style}">{word}</span>'


def checked(result: Sequence[Probe] | Reply) -> str:
    """Format the result of an endpoint check: capabilities and remedies."""
    if isinstance(result, Reply):
        return block(callout("good", f"The model answers in {result.seconds:.2f} seconds"))
    return block("".join(map(_probed, result)))


CHECKING = notice("empty busy", "Checking the endpoint…")
"""The placeholder while an endpoint is checked."""


def unchecked(error: ModelError) -> str:
    """Format the error of a check."""
    return block(_error(error))


def _probed(probe: Probe) -> str:
    can = probe.capabilities
    if can is None:
        assert probe.error is not None
        return _error(probe.error)
    took = f"answers; the check took {probe.seconds:.2f} seconds" if can.vision else "answers, but does not see images"
    tokens, length = can.max_model_len, "The server does not report its context length."
    enough = None if tokens is None else tokens >= SUFFICIENT_CONTEXT
    length = length if tokens is None else f"{tokens:,} tokens."
    available = (can.vision, can.schema, can.logprobs, enough)
    rows = []
    for (name, (means, remedy)), is_there in zip(_CAPABILITIES.items(), available, strict=True):
        known: dict[bool | None, tuple[str, str, str]] = {True: ("yes", "", means), False: ("no", "warning", remedy)}
        mark, style, text = known.get(is_there, ("unknown", "", means))
        rows.append([escape(name), f'<span class="pill {style}">{mark}</span>', escape(text.replace("LENGTH", length))])
    served = f"Models: {', '.join(can.models[:5])}." if can.models else "The server does not list its models."
    head, note = table(["", "Available", "Meaning"], rows, "cards"), paragraph(served, "faint")
    return callout("good" if can.vision else "error", f"{probe.endpoint} {took}", head, note)


def _error(error: ModelError) -> str:
    remedies = {
        "unauthorized": "Correct the key above.",
        "model_not_found": "Enter one of these names above, or serve this model.",
        "not_public": "Check the address. It must be on the public internet, unless you run the app yourself.",
    }
    remedy = remedies.get(error.code, error.next_step)
    return callout("error", error.title, paragraph(error.message), paragraph(remedy, "remedy"))


def fixed_label(fixed: Fixed, *, local: bool) -> str:
    """Return the release that judges and where the images go, in a few words as plain text."""
    where = destination(ENVIRONMENT if fixed.by_model else "", local=local)
    return f"About this release: {fixed.release.id[:SHORT]} · Judge: {fixed.release.judged_by} · {where}"


def fixed_line(fixed: Fixed, *, local: bool) -> str:
    """Which release judges, in one line for the head of the tab, and where the pictures go."""
    release = fixed.release
    where = "No model, no key, nothing leaves this computer." if local else "No model, no key."
    if fixed.by_model:
        where = "To compare, the pictures and the instruction are sent to the model that this app is set up with."
    return block(
        f'<p><span class="pill" title="{escape(release.id)}">Release {escape(release.id[:SHORT])}</span> fixes what '
        f"judges here: {escape(release.judged_by)}, protocol {escape(release.protocol)}, with Library "
        f"{hashed(release.library.id)}. {where}</p>"
    )


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def about_release(release: Release) -> str:
    """Format the contents of a release, its figures, and differences of this installation."""
    counts = f"{len(release.library.skills)} Skills, {len(release.library.tools)} Tools"
    model = {"Weights": release.model_revision or "not said", "Router": release.router or "none"}
    facts = {
        "Judge": release.judged_by,
        "Protocol": release.protocol,
        **(model if release.model is not None else {}),
        **{_called(name): _said(value) for name, value in sorted(release.options.items())},
    }
    rows = [("Release", whole(release.id)), *((escape(name), escape(text)) for name, text in facts.items())]
    rows.insert(3, ("Library", f"{whole(release.library.id)} with {counts}"))
    note = paragraph(
        "The same input gets the same score on this page, from rh score --release and from a server of this release.",
        "faint",
    )
    notes = "".join(paragraph(f"{text}: the last digits of what is measured may differ.") for text in remarks(release))
    return block(note + table(["What is fixed", "As"], rows, "plain") + notes + _figures(release.figures))


def _called(setting: str) -> str:
    titles = {"ocr": "Reads text", "ties": "Offers ties", "one_order": "One presentation order"}
    return titles.get(setting, setting.replace("_", " ").capitalize())


def _figures(figures: tuple[Figure, ...]) -> str:
    if not figures:
        return paragraph("The release carries no figures.", "faint")
    rows = [
        [
            escape(figure.name),
            "not known" if figure.accuracy is None else f"{figure.accuracy:.3f}",
            "not known" if figure.interval is None else "{:.3f} to {:.3f}".format(*figure.interval),
            f"{figure.judged} of {figure.n}",
        ]
        for figure in figures
    ]
    body = table(["Measured on", "Accuracy", "95% CI", "Judged"], rows)
    return "<h4>Figures of its card</h4>" + paragraph(UNVERIFIED) + body
