"""The `chain` protocol: a conversation of thought, Tool calls, observations and an answer, as in the paper."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations

from rewardharness.judging.answers import Answer, ReplyProblem, ToolRequest, Turn, read_turn
from rewardharness.judging.chain import neutral, raw, think
from rewardharness.judging.consistency import with_consistency
from rewardharness.judging.context import Asking, Presented, answer_form, answer_schema, judge_system
from rewardharness.judging.presentation import PresentationResult, no_answer, usage_of
from rewardharness.judging.tools import ToolBox
from rewardharness.models.base import Message, ModelError, Reply, TextPart
from rewardharness.prompts import load
from rewardharness.schema import SCALE, TIE, ChainStep, Failure, Scores, Usage


@dataclass
class Conversation:
    """A conversation about the candidates in one presentation order."""

    asking: Asking
    pictures: bool = False
    on_step: Callable[[ChainStep], None] | None = None
    messages: list[Message] = field(default_factory=list)
    steps: list[ChainStep] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    usage: Usage = Usage()

    async def hold(self) -> PresentationResult:
        """Run the conversation.

        Returns:
            The result; with a failure if the model is unavailable or gives no usable answer.
        """
        asking, presented = self.asking, self.asking.presented
        limit = asking.config.tool_calls if asking.route.tools else 0
        form = answer_form("format_chain", presented, ties=asking.config.ties)
        system = judge_system(asking.route, presented, form, tool_limit=limit)
        self._chat = asking.chat(system, asking.question(), None)
        self.messages = list(self._chat.messages)
        if len(presented.labels) > 1:
            self._note(think(shown_as(presented)))
        try:
            return await self._turns(limit)
        except ModelError as error:
            return self._failed(Failure(error.code, error.message))

    async def _turns(self, limit: int) -> PresentationResult:
        asking = self.asking
        box = ToolBox(asking.route.tools, asking.model, asking.presented, asking.request, self.pictures)
        called = 0
        reminded = False
        while True:
            turn, reply = await self._ask(limit > called, reminded)
            outcome = turn.outcome
            if turn.thought:
                self._note(think(turn.thought))
            if isinstance(outcome, ToolRequest) and called < limit:
                called += 1
                await self._observe(box, outcome)
                continue
            if isinstance(outcome, Answer) and (not outcome.problem or reminded):
                return self._answered(outcome)
            self._note(raw(reply.text))
            problem = problem_of(outcome, limit)
            if reminded:
                return self._failed(no_answer(reply, problem))
            reminded = True
            form = answer_form("format_chain", asking.presented, ties=asking.config.ties)
            self.messages.append(Message.of("user", load("reminder", problem=problem, form=form)))

    async def _ask(self, tools: bool, reminded: bool) -> tuple[Turn, Reply]:
        """Request the next message. After a reminder, the form of the answer is enforced if the server supports it."""
        presented, ties = self.asking.presented, self.asking.config.ties
        schema = answer_schema(presented, ties=ties) if reminded else None
        request = replace(self._chat, schema=schema, stop=("</tool>",) if tools and not reminded else ())
        reply = None
        while reply is None:
            try:
                reply = await self.asking.model.ask(replace(request, messages=tuple(self.messages)))
            except ModelError as error:
                if error.code != "context_too_long" or not self._shorten():
                    raise
        self.usage += usage_of(reply)
        self.messages.append(Message.of("assistant", reply.text))
        names = presented.dimensions
        return read_turn(reply.text, presented.labels, ties=ties, cut_off=reply.cut_off, dimensions=names), reply

    def _note(self, step: ChainStep) -> None:
        """Add a step to the chain and report it."""
        self.steps.append(step)
        if self.on_step:
            self.on_step(step)

    def _shorten(self) -> bool:
        """Remove the longest observation from the messages, with a note. Return False if there is none."""
        places = [
            (len(part.text), number)
            for number, message in enumerate(self.messages)
            for part in message.parts
            if isinstance(part, TextPart) and part.text.startswith("<obs>") and len(part.text) > 100
        ]
        if not places:
            return False
        _, number = max(places)
        self.messages[number] = Message.of("user", '<obs>{"note": "left out, the conversation grew too long"}</obs>')
        self.notes.append("The conversation grew too long for the model; its longest observation was left out.")
        return True

    async def _observe(self, box: ToolBox, call: ToolRequest) -> None:
        asked = {"name": call.name, "images": list(call.images), "query": call.query}
        self._note(ChainStep("tool", neutral(json.dumps(asked, ensure_ascii=False))))
        observed = await box.run(call)
        for reply in observed.replies:
            self.usage += usage_of(reply)
            if "error" in observed.result:
                self._note(raw(reply.text))
        text = neutral(json.dumps(dict(observed.result), ensure_ascii=False))
        self._note(ChainStep("obs", text, observed.picture))
        self.messages.append(Message.of("user", f"<obs>{text}</obs>"))

    def _answered(self, answer: Answer) -> PresentationResult:
        said: dict[str, object] = {"preference": answer.preference} if answer.preference else {}
        names = self.asking.presented.dimensions
        said["scores"] = {label: dict(zip(names, grades, strict=True)) for label, grades in answer.scores.items()}
        self._note(ChainStep("answer", json.dumps(said)))
        scores, leads = translate(answer, self.asking)
        if answer.problem:
            self.notes.append(f"No scores: {answer.problem}")
        return PresentationResult(scores, leads, {}, tuple(self.steps), tuple(self.notes), self.usage)

    def _failed(self, failure: Failure) -> PresentationResult:
        return PresentationResult(steps=tuple(self.steps), notes=tuple(self.notes), usage=self.usage, failure=failure)


def translate(answer: Answer, asking: Asking) -> tuple[dict[str, Scores], dict[tuple[str, str], float]]:
    """Translate the labels of an answer from those that the model saw to those of the example.

    Returns:
        Scores per candidate, and margins: 1 for the preferred candidate over every other; among the others of a
        group, one half for the one with the higher reward.
    """
    own = dict(zip(asking.presented.labels, asking.presented.own, strict=True))
    scores = {own[label]: make(asking, *numbers) for label, numbers in answer.scores.items()}
    leads: dict[tuple[str, str], float] = {}
    best = own.get(answer.preference)
    for first, second in combinations(sorted(own.values()), 2):
        if answer.preference == TIE and len(own) == 2:
            leads[first, second] = 0.0
        elif best in (first, second):
            leads[first, second] = 1.0 if best == first else -1.0
        elif scores:
            difference = scores[first].value_or_evidence - scores[second].value_or_evidence
            leads[first, second] = 0.0 if difference == 0 else 0.5 if difference > 0 else -0.5
    return scores, leads


def make(asking: Asking, instruction: float, quality: float, consistency: float | None = None) -> Scores:
    """Create scores; the reward is the sum of the first two, 2 to 8 in the paper, scaled to [0, 1]."""
    low, high = SCALE
    scores = Scores(instruction, quality, (instruction + quality - 2 * low) / (2 * (high - low)))
    return with_consistency(scores, consistency, asking.config.consistency)


def problem_of(outcome: ToolRequest | Answer | ReplyProblem, limit: int) -> str:
    """Return what is wrong with a reply, where at most `limit` Tool calls are allowed."""
    if isinstance(outcome, ReplyProblem):
        return outcome.message
    if isinstance(outcome, Answer):
        return outcome.problem
    return "There are no tools." if limit == 0 else "No more tool calls are left."


def shown_as(presented: Presented) -> str:
    """Say which candidate has which label in a request."""
    pairs = zip(presented.labels, presented.own, strict=True)
    return f"Shown as: {', '.join(f'{own} as {label}' for label, own in pairs)}."
