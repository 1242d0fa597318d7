import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hostile import HOSTILE, Reader, read_own, says

from app.evolve import proposal_views
from app.evolve import views as evolve_views
from app.evolve.runs import EvolutionStatus
from app.run_panel import views as run_views
from app.run_panel.jobs import CommandError
from app.run_panel.service import Listed
from app.run_panel.views import run_title
from rewardharness.evolution.events import (
    Concluding,
    Decided,
    Event,
    EvidenceReport,
    Finished,
    Found,
    Judged,
    PhaseBegan,
    Proposed,
    Rehearsed,
    Skipped,
    Started,
    Status,
    event_of,
)
from rewardharness.evolution.gate import Evidence
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.progress import NO_PROPOSALS, RunProgress
from rewardharness.evolution.proposal import Finding
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry
from rewardharness.runs.spending import Spent

STARTED = Started(
    HOSTILE, HOSTILE, "default", HOSTILE, 10, 4, "id", 0, {"begin": 200, "search": 1000, "audit": 600, "expected": 1800}
)
PROPOSED = Proposed("sig-b", "reweight", (HOSTILE,), HOSTILE, (HOSTILE,), HOSTILE, {
    "added": [{"name": HOSTILE, "description": HOSTILE}],
    "removed": [{"name": HOSTILE, "description": HOSTILE}],
    "changed": [{"name": HOSTILE, "notes": [HOSTILE], "document_diff": f"+{HOSTILE}", "rubric_diff": ""}],
}, step=2)  # fmt: skip


def decided(decision: str = "accept", **about: Any) -> Decided:
    counts = {"policy": "sequential", "fixes": 3, "breaks": 1, "ties": 5, "judged": 9, "affected": 17, "calls": 12}
    known = {**counts, "p_value": 0.625, "failed": 1, "unsteady": 2, "fixed": (HOSTILE,), "broken": ("p2",), **about}
    evidence = EvidenceReport.of(Evidence(decision, HOSTILE, **known))  # type: ignore[arg-type]
    return Decided(
        "sig-a", "add", (HOSTILE,), f"`{HOSTILE}` and more", (HOSTILE, "p3"), HOSTILE, evidence, 0.75, "id", 1,
        Spent(120, seconds=300.0), step=3,
    )  # fmt: skip


def sight(*events: Event, state: Any = "running", **about: Any) -> EvolutionStatus:
    judged = next((event for event in events if isinstance(event, Judged)), None)
    known = {"data_name": HOSTILE, "judge": HOSTILE, "orchestrator": HOSTILE, "schedule": {"name": HOSTILE}}
    status = Status(
        Path("/runs/x"), known, "running", start_accuracy=judged.accuracy if judged else None, judgments=120, tried=1,
        kept=1, pool_accuracy=0.75,
    )  # fmt: skip
    status = replace(status, **about)
    return EvolutionStatus(
        HOSTILE, Path("/runs/x"), state, status, events, judged=4, manifest=status.manifest, reason=status.reason
    )


FOUND = Found((Finding(f"`{HOSTILE}`", (HOSTILE,), (), 2, 1),))
BUSY = sight(STARTED, Judged(9, 1, 0.5), FOUND, PROPOSED, decided(), Skipped(HOSTILE, HOSTILE))


def test_every_state_says_what_it_is_and_what_to_do() -> None:
    for state, (name, _) in run_views.STATES.items():
        told = evolve_views.run_status(replace(BUSY, state=state))
        says(told, name, "50.0% → 75.0%", "about 1,200 were expected before the held-out test")
    paused = sight(STARTED, Judged(9, 1, 0.5), state="paused", reason=HOSTILE, next_step="Free the disk.")
    says(evolve_views.run_status(paused), "Free the disk.")
    error = CommandError(HOSTILE, HOSTILE, next_step="Mend it.")
    says(evolve_views.run_status(replace(BUSY, state="failed", error=error)), "Mend it.")
    bare = EvolutionStatus("x", Path("/x"), "starting", None)
    says(evolve_views.run_status(bare), "Starting")
    says(evolve_views.about(bare, ""))


def test_it_says_what_it_is_at() -> None:
    at, judged, score = RunProgress("audit", 4, 10, 180.0), Judged(9, 1, 0.5), Score(5, 5, 0.8, (0.376, 0.964))
    done = sight(STARTED, judged, Finished("dry", 0.75, 0.8, "id"), state="finished", audit=score)
    older = sight(*done.events, state="finished", audit=Score(0, 0, 0.8, None))
    interval = "95% CI: 37.6% to 96.4%, 5 of 5 judged: no edit was selected on these"
    for run, words, absent in (
        (sight(STARTED, progress=at), ["Judging the held-out examples: 4 of 10 · about 3 min left"], []),
        (sight(STARTED, state="stopped", progress=at), [], ["4 of 10"]),
        (sight(STARTED, judged, PhaseBegan("prune", 3)), ["Removing unused entries"], []),
        (sight(STARTED, judged, Concluding("dry")), ["held-out examples"], []),
        (done, ["80.0%", interval], []),
        (older, ["80.0%"], ["95%"]),
    ):
        says(evolve_views.run_status(run), *words, no=absent)
    ((line, _),) = evolve_views.run_choices([Listed(done)])
    assert "held-out 80.0% [37.6%, 96.4%]" in line


def test_a_run_without_an_edit_says_so_and_why() -> None:
    def told(*events: Event, state: str = "finished") -> str:
        return read_own(proposal_views.no_item(sight(STARTED, *events, state=state))).text

    assert told() == "No edit was tested" == told(PROPOSED), "it was proposed"
    assert "Nothing was proposed yet" in told(state="running")
    assert "Choose an edit" in told(decided())
    done = sight(STARTED, Judged(9, 1, 0.5), state="finished", reason="the time is up")
    says(evolve_views.run_status(done), "The search ended because the time is up.")
    says(evolve_views.run_status(replace(done, status=replace(done.status, reason=NO_PROPOSALS))), "No further idea")


def test_foreign_text_stays_text_everywhere() -> None:
    told = {
        "expected": {}, "words": [HOSTILE, "At least 2 requests."], "seconds": 150.0,
        "pool": 1, "audit": 1, "data": HOSTILE, "judge": HOSTILE, "orchestrator": HOSTILE, "corrections": 2,
        "problems": [HOSTILE],
    }  # fmt: skip
    says(evolve_views.expected(told), "2 requests", "About 2 min on")
    for markup in (
        evolve_views.about(BUSY, HOSTILE),
        evolve_views.findings(BUSY),
        evolve_views.introduction(local=False),
        run_views.no_run(local=False),
        run_views.no_runs("evolve", local=True),
        evolve_views.corrected(Path(HOSTILE), changed=True),
    ):
        read_own(markup)
    for item in proposal_views.items(BUSY):
        read_own(proposal_views.head(item))
    read_own(proposal_views.foreseen(PROPOSED))
    entry = Entry("evil", "skill", HOSTILE, HOSTILE, {"triggers": "always"})
    read_own(proposal_views.change(diff_libraries(EMPTY, EMPTY.apply(AddEntry(entry)))))
    assert "<code>" in evolve_views.findings(BUSY), "what stands between backticks is a name"


def test_edits_stand_newest_first_and_say_what_spoke_for_them() -> None:
    again = replace(decided("reject"), step=5)
    shown = sight(STARTED, Judged(9, 1, 0.5), PROPOSED, decided(), again)
    items = proposal_views.items(shown)
    assert [each.decision for each in items] == ["Waiting", "Rejected", "Accepted"]
    assert len({each.key for each in items}) == 3
    after = proposal_views.items(sight(STARTED, Judged(9, 1, 0.5), PROPOSED, replace(decided(), signature="sig-b")))
    assert after[0].key == items[0].key, "an edit keeps its key when its turn comes"
    says(proposal_views.head(items[2]), "17 examples", "12 of them", "fixes 3 and breaks 1", "Regressions: 1 example")
    says(proposal_views.head(items[2]), "probability 0.62", "1 example could not be judged", "2 examples were left out")
    label, key = proposal_views.choices(items)[2]
    assert key == items[2].key and "3 fixed, 1 broken · p 0.62 · training 75.0%" in label and label.count("\n") == 2
    assert proposal_views.example_choices(items[2])[1] == ("broken: p2", "p2")
    assert proposal_views.example_choices(items[2])[-1] == ("cited: p3", "p3")
    assert proposal_views.example_choices(items[0]) == [] == proposal_views.example_choices(None)
    untouched = decided("reject", affected=0, calls=0, judged=0, fixes=0, breaks=0, p_value=None, failed=0, unsteady=0)
    says(proposal_views.head(replace(items[2], event=untouched)), "reads for no example")


def test_it_says_what_is_tested_now_and_what_the_latest_edit_changed() -> None:
    waiting = sight(STARTED, Judged(9, 1, 0.5), decided(), replace(PROPOSED, step=4))
    told = proposal_views.story(waiting, None)
    says(told, "Now testing", "Change a weight", "Before it", "Add to", "1 right now, 1 wrong now")
    says(proposal_views.story(sight(STARTED, Judged(9, 1, 0.5), decided()), None), "Latest edit", no=["Now testing"])
    assert proposal_views.story(sight(STARTED), None) == ""
    assert proposal_views.caption("make it red", right=False) == "Wrong now: make it red"


def test_a_visitors_run_is_called_by_data_and_date() -> None:
    run = replace(BUSY, name=f"visitor-{'9a' * 16}")
    dated = replace(run, data="demo-100", begun="26 Nov, 12:56")
    archive = replace(dated, manifest={"command": "score"})
    titles = [HOSTILE, "New run", "demo-100 · 26 Nov, 12:56", "Your archive · 26 Nov, 12:56"]
    assert [run_title(each) for each in (BUSY, run, dated, archive)] == titles
    says(evolve_views.run_status(dated), "demo-100 · 26 Nov, 12:56", no=["visitor-"])


def test_a_rehearsal_is_told_and_what_it_replaced_does_not_wait() -> None:
    seen = ({"example": "e", "said": HOSTILE, "problem": ""}, {"example": "f", "said": "", "problem": HOSTILE})
    good = Rehearsed("meter", "sig-b", seen[:1], usable=True)
    [item] = proposal_views.items(sight(STARTED, Judged(9, 1, 0.5), PROPOSED, good))
    says(proposal_views.head(item), "tried on 1 example first: all replies were of use")
    bad = replace(good, observations=seen, usable=False)
    assert proposal_views.items(sight(STARTED, Judged(9, 1, 0.5), PROPOSED, bad)) == []
    says(proposal_views.head(replace(item, rehearsed=(bad,))), "tried on 2 examples first: <script>")


def test_what_a_phase_has_dropped_does_not_wait() -> None:
    judged = Judged(9, 1, 0.5)
    assert len(proposal_views.items(sight(STARTED, judged, PROPOSED))) == 1
    for gone in (PhaseBegan("tools", 1, step=3), Skipped(PROPOSED.statement, "An entry has changed.", step=3)):
        assert proposal_views.items(sight(STARTED, judged, PROPOSED, gone)) == []
    assert proposal_views.items(sight(STARTED, judged, PROPOSED, state="finished")) == []
    assert proposal_views.items(sight(replace(STARTED, schedule="paper"), judged, PROPOSED)) == []


def test_the_accuracy_is_drawn_of_numbers_alone() -> None:
    odd = replace(decided(), accuracy=None)
    markup = proposal_views.accuracy(sight(STARTED, Judged(9, 1, 0.5), decided(), odd))
    reader = Reader(markup)
    assert set(reader.tags) <= {"svg", "path", "circle", "text", "div", "p"} and reader.open == []
    drawn = re.findall(r' (?:d|cx|cy|r|x|y)="([^"]*)"', markup)
    assert drawn and all(re.fullmatch(r"[MHVLh0-9 .,-]+", each) for each in drawn)
    assert reader.tags.count("circle") == 1, "a dot is an accepted edit"
    assert "1 edits tested" in reader.text and "80%" in reader.text and "45%" in reader.text
    assert proposal_views.accuracy(sight(STARTED)) == ""


def test_a_hostile_number_does_not_reach_a_chart() -> None:
    for value in (HOSTILE, float("nan"), -1, 2, True):
        bad = replace(decided(), accuracy=value)  # type: ignore[arg-type]
        markup = proposal_views.accuracy(sight(STARTED, Judged(9, 1, 0.5), bad, decided()))
        assert "45%" in markup and "80%" in markup and "nan" not in markup and "script" not in markup
    line = {"event": "decided", **asdict(decided())}
    assert event_of(line) == decided()
    assert event_of({**line, "spent": {"judgments": HOSTILE}}) is None, "the line of a foreign run is not an event"
