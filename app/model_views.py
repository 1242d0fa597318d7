"""Puts what a model does as a judge into words for the Score tab. Pure: records in, markup out.

All results are markup for `gr.Markdown`, see `app.markup`; choices and sentences of controls are plain text.
"""

import math
from collections.abc import Mapping, Sequence

from app.chain_views import last_thought, showing_title, swapped
from app.judges import ENDPOINT, ENVIRONMENT, GEMINI, Spent
from app.markup import block, bullets, callout, document, escape, paragraph, table
from app.running import ModelRun
from app.views import headline, listed, warnings
from rewardharness.judging.config import Protocol
from rewardharness.judging.subagent import ALONE
from rewardharness.models.base import ModelError, Reply
from rewardharness.models.probe import Probe
from rewardharness.models.wire import Capabilities
from rewardharness.schema import TIE, Judgment

PROTOCOLS: Mapping[Protocol, str] = {
    "chain": "Thinks aloud, calls the Library's Tools, then answers: the way of the paper.",
    "direct": "Answers at once, without thinking: quick, and few tokens.",
    "logprob": "Reads from the first token how likely A and B are: a graded answer for one token.",
    "pointwise": "Scores each candidate alone, from 1 to 4, so that order plays no part.",
    "rubric": "Grades each candidate alone on every criterion of the Library, then weighs the grades.",
}
"""What each protocol does, in one sentence."""

ROOMY = 16384
"""Tokens of prompt and reply that a comparison of large pictures, with its chain, fits into."""


def protocol_choices() -> list[tuple[str, str]]:
    """The protocols: what the list shows (name and sentence, on two lines of plain text), and the name."""
    return [(f"{name.capitalize()}\n{sentence}", name) for name, sentence in PROTOCOLS.items()]


def judge_line(kind: str, name: str) -> str:
    """Who judges when a model does, in one line, and where the pictures go.

    Args:
        kind: `ENVIRONMENT`, `ENDPOINT` or `GEMINI`.
        name: What the choice is called.
    """
    places = {
        ENDPOINT: "the endpoint that you name in the section Judge",
        GEMINI: "Google",
        ENVIRONMENT: "the model that this app is set up with",
    }
    return block(
        f'<p><span class="pill">{escape(name)}</span> judges by looking, with the notes and Tools of a Library. '
        f"To compare, the pictures and the instruction are sent to {places[kind]}.</p>"
    )


def working(candidates: int, run: ModelRun) -> str:
    """What stands in the place of the verdict while a model judges."""
    count = len(run.showings)
    asked = "once" if count == 1 else f"{count} times, side by side"
    return block(
        callout(
            "empty busy",
            f"The model is judging {candidates} candidates…",
            paragraph(f"It is asked {asked}. What it thinks is shown below as it comes."),
        )
    )


def status(run: ModelRun) -> str:
    """How far a model has come, and what it has taken so far, in one line."""
    answered = sum(each.answered for each in run.showings)
    return block(f'<p class="faint">{answered} of {len(run.showings)} answers · {_taken(run.spent)}</p>')


def _taken(spent: Spent) -> str:
    """Seconds, calls and tokens."""
    usage = spent.usage
    calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    return f"{usage.seconds:.0f} s · {calls} · {usage.input_tokens:,} tokens in · {usage.output_tokens:,} tokens out"


def spent(spent: Spent) -> str:
    """What a comparison took, as markup: time, calls, tokens, money, and what was remembered."""
    parts = [_taken(spent), _cost(spent)] if spent.usage.calls else [f"{spent.usage.seconds:.0f} s", "no calls"]
    if spent.remembered:
        many = "1 answer was" if spent.remembered == 1 else f"{spent.remembered} answers were"
        parts.append(f"{many} remembered from before and cost nothing")
    return f'<p class="faint spent">{" · ".join(parts)}</p>'


def _cost(spent: Spent) -> str:
    cost = spent.cost
    if cost is None:
        unset = spent.price is None
        return "cost unknown: " + ("no price is set" if unset else "the server does not count tokens")
    if not cost:
        return "free of charge"
    digits = max(2, 1 - math.floor(math.log10(cost)))
    return f"about ${cost:.{digits}f}"


def stopped(run: ModelRun | None) -> str:
    """What stands in the place of the verdict after Stop."""
    kept = paragraph("Nothing was judged. Your pictures are still here.")
    return block(callout("empty", "Stopped", kept, spent(run.spent) if run is not None else ""))


def verdict(judgment: Judgment, run: ModelRun) -> str:
    """The winner in one sentence, by how much, whether order mattered, and what it took."""
    return block(
        f'<section class="verdict" role="status"><p class="headline">{headline(judgment)}</p>'
        f"<p>{_lead(judgment, run)} {_order_kept(judgment, run)}</p>{spent(run.spent)}</section>"
        f"{_order_broken(judgment, run)}{warnings(judgment)}"
    )


_WHY_ORDER = "A model that sees no clear difference often prefers whoever is shown first."


def _lead(judgment: Judgment, run: ModelRun) -> str:
    margin = judgment.margin or 0.0
    if judgment.inconsistent:
        return f"The model's answers contradict each other and cancel out. This is no tie. {_WHY_ORDER}"
    if judgment.preference == TIE or len(judgment.ranking) < 2:
        return "The model finds no difference between them."
    first, second = escape(judgment.preference or ""), listed(judgment.ranking[1])
    if run.how.protocol in ALONE:
        return f"{first} leads {second} by {margin:.2f} in reward, which runs from 0 to 1."
    if run.how.protocol == "logprob":
        return f"The odds speak for {first} over {second} by {margin:.2f}, where 0 is undecided and 1 is certain."
    if margin > 0.999:
        return f"The model preferred {first} over {second} every time it was asked."
    return f"{first} leads {second} by {margin:.2f}, where 1 means preferred every time."


def _order_kept(judgment: Judgment, run: ModelRun) -> str:
    if run.how.protocol in ALONE:
        return "Each candidate was judged alone, so order played no part."
    if judgment.position_consistent is None:
        return "Only one order was asked, so whether the order matters is not known."
    return "It gave the same answer in both orders." if judgment.position_consistent else ""


def _order_broken(judgment: Judgment, run: ModelRun) -> str:
    if judgment.position_consistent is not False or judgment.inconsistent:
        return ""
    title = "The answer changed with the order, so trust it little"
    if run.how.samples > 1:
        title = "The answer was not the same in all orders and samples, so trust it little"
    return callout("warning", title, paragraph(_WHY_ORDER))


def reasons(judgment: Judgment, run: ModelRun) -> str:
    """Why the winner leads, in the model's own words."""
    if judgment.reasons:
        return block(f"<h3>Why</h3>{bullets(map(escape, judgment.reasons), 'reasons')}")
    if judgment.position_consistent is False:
        differ = "Its answers differ. What it thought each time stands under “How the judge got there”."
        return block(f"<h3>Why</h3>{paragraph(differ, 'faint')}")
    found = last_thought(run.showings)
    if found is None:
        return block(
            f"<h3>Why</h3>{paragraph('The model gave no reasons: this protocol asks for the answer alone.', 'faint')}"
        )
    seen, thought = found
    title = f"In the model's own words, shown {showing_title(seen)}."
    return block(f"<h3>Why</h3>{document(thought)}{paragraph(f'{title} {swapped(seen)}'.strip(), 'faint')}")


def checked(found: Sequence[Probe] | Reply) -> str:
    """What came of the check of an endpoint: what it can do, and what to mend."""
    if isinstance(found, Reply):
        return block(callout("good", f"The model answers, in {found.seconds:.2f} seconds"))
    return block("".join(map(_probed, found)))


def checking() -> str:
    """What stands there while an endpoint is checked."""
    return block(callout("empty busy", "Asking a few small questions…"))


def unchecked(error: ModelError) -> str:
    """Why a model could not be checked."""
    return block(_trouble(error))


def _probed(probe: Probe) -> str:
    can = probe.capabilities
    if can is None:
        assert probe.error is not None
        return _trouble(probe.error)
    title = f"{probe.endpoint} answers, in {probe.seconds:.2f} seconds for a few small questions"
    if not can.vision:
        title = f"{probe.endpoint} answers, and does not see pictures"
    rows = [_ability(*row) for row in _abilities(can)]
    served = f"It lists: {', '.join(can.models[:5])}." if can.models else "It does not list its models."
    kind = "good" if can.vision else "error"
    return callout(kind, title, table(["", "Works", "What that means"], rows, "cards"), paragraph(served, "faint"))


def _trouble(error: ModelError) -> str:
    remedies = {
        "unauthorized": "Type the right key above.",
        "model_not_found": "Type one of these names above, or serve this model.",
        "not_public": "Check the address. It must lie on the public internet, unless you run the app yourself.",
    }
    remedy = remedies.get(error.code, error.next_step)
    return callout("error", error.title, paragraph(error.message), paragraph(remedy, "remedy"))


def _abilities(can: Capabilities) -> list[tuple[str, bool | None, str, str]]:
    """What is looked at: its name, whether it is there (None: not known), what that means, what to do without."""
    tokens = can.max_model_len
    length = "The server does not say how long prompt and reply may be." if tokens is None else f"{tokens:,} tokens."
    return [
        (
            "Pictures",
            can.vision,
            "They reach the model.",
            "They are refused, or accepted and dropped: nothing can be judged. Serve a vision-language model; with "
            "vLLM allow enough pictures: --limit-mm-per-prompt '{\"image\":8}'.",
        ),
        (
            "Structured output",
            can.schema,
            "The form of the answer is enforced.",
            "The form is not enforced: an answer in another form is asked for again, then not judged. vLLM: see "
            "--structured-outputs-config.",
        ),
        (
            "Probabilities",
            can.logprobs,
            "The protocol Logprob can be used.",
            "The protocol Logprob cannot be used; choose another (vLLM: --max-logprobs 20).",
        ),
        (
            "Length",
            None if tokens is None else tokens >= ROOMY,
            length,
            f"{length} Large pictures or a long chain may not fit: allow more (vLLM: --max-model-len 32768), or scale "
            "the pictures down.",
        ),
    ]


def _ability(name: str, there: bool | None, means: str, remedy: str) -> list[str]:
    mark = "not said" if there is None else "yes" if there else "no"
    return [
        escape(name),
        f'<span class="pill {"warning" if there is False else ""}">{mark}</span>',
        escape(remedy if there is False else means),
    ]
