"""An evolution as it is chosen on the screen, and the command that it becomes.

What is typed becomes words of `rh evolve`, so that the page starts nothing that the command line could not. Keys are
never among the words.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from app.judges import BY_MEASURING, ENDPOINT, ENVIRONMENT, GEMINI, JudgeChoice, Judges, key_for, place_of
from rewardharness.data.opening import DEMO, FEEDBACK
from rewardharness.errors import InputError
from rewardharness.evolution.config import AUTO
from rewardharness.jobs import JobConfig
from rewardharness.judging.opening import MEASURED
from rewardharness.models.open import model_urls
from rewardharness.settings import Settings

FOLDER = "folder"
"""Choice of examples in a folder on this computer."""

HUB = "hub"
"""Choice of a dataset on the Hugging Face Hub."""

BUILTIN = "builtin"
"""Spelling of the Orchestrator that needs no model, and of the Library that comes with this project."""

VISIT_SECONDS = 600
"""Seconds that the search of a stranger's run may take, at most."""

MOST_PROPOSALS = 1000
"""Proposals that can be asked for, at most."""

NO_KEYS_OF_OURS = dict.fromkeys(
    ("RH_API_KEY", "RH_ORCHESTRATOR_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"), ""
)
"""Variables of a stranger's run: it gets none of the keys that the app has."""

CORRECTIONS = "--corrections"
_ORCHESTRATOR_KEY = "RH_ORCHESTRATOR_API_KEY"
_LIMITS = (("--budget-calls", "judgments"), ("--budget-seconds", "seconds"), ("--budget-tokens", "tokens"))


class MissingError(InputError):
    """Something that a run needs was not given."""

    title = "The run is not complete"


@dataclass(frozen=True)
class Prices:
    """Dollars for a million input and output tokens."""

    input: float
    output: float

    @property
    def words(self) -> list[str]:
        """As options are given."""
        return [f"{self.input:g}", f"{self.output:g}"]


@dataclass(frozen=True)
class Budget:
    """What the search may spend; None: no limit."""

    judgments: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    money: float | None = None
    """In dollars; needs the prices of all models."""
    judge_prices: Prices | None = None
    orchestrator_prices: Prices | None = None


@dataclass(frozen=True)
class Proposer:
    """Who proposes edits."""

    model: str = ""
    """A model as `open_model` spells it, as typed; empty for the built-in Orchestrator."""
    key: str = field(default="", repr=False)
    """Its key, as typed."""
    images: bool = False
    """Whether it is shown the images of cited examples."""


@dataclass(frozen=True)
class NewRun:
    """A run as it is chosen."""

    data: str = DEMO
    """`DEMO`, `FEEDBACK`, `FOLDER` or `HUB`."""
    place: str = ""
    """The folder or the name on the Hub, as typed."""
    columns: str = ""
    """Columns of a table that are not recognised by name, one `field=column` a line, as typed."""
    judge: JudgeChoice = BY_MEASURING
    proposer: Proposer = Proposer()
    library: str = BUILTIN
    """Spelling of the Library to start from."""
    schedule: str = "default"
    proposals: int = 60
    """Proposals to try; for the paper's schedule its iterations."""
    seed: int = 0
    budget: Budget = Budget()
    corrections: bool = True
    """Whether labels that were corrected in the app are used."""


@dataclass(frozen=True)
class Command:
    """A command, ready to be started."""

    words: tuple[str, ...]
    """The words after `rh`."""
    changes: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What its environment has beside this one's: keys, and an address that is hidden."""


def command_of(run: NewRun, judges: Judges, settings: Settings, *, local: bool) -> Command:
    """Spell a run.

    Args:
        run: The run as it was chosen.
        judges: Who knows how judges are spelled, and which keys they get.
        settings: The settings.
        local: Whether who asks sits at this computer; strangers may only have what costs nobody anything.

    Raises:
        InputError: If something is missing or out of range.
    """
    if not local:
        return _visit(run, settings)
    words = ["evolve", "--data", _data(run), "--library", run.library]
    if run.data in {FOLDER, HUB}:
        words += [word for line in run.columns.splitlines() if line.strip() for word in ("--field", line.strip())]
    told, changes = judge_words(run.judge, judges)
    words += told
    told, more = _proposer(run, settings)
    words += [*told, *_search(run), *_budget(run)]
    if run.corrections:
        words += [CORRECTIONS, AUTO]
    return Command(tuple(words), {**changes, **more})


def _visit(run: NewRun, settings: Settings) -> Command:
    """The run of a stranger. Whatever the page sent, it is no other."""
    given = run.budget.seconds
    seconds = VISIT_SECONDS if given is None else given
    if not 1 <= seconds <= VISIT_SECONDS:
        raise InputError(f"{seconds:g} seconds cannot be had here.", next_step=f"Choose 1 to {VISIT_SECONDS}.")
    library = settings.library if run.library == settings.library else BUILTIN
    words = ["evolve", "--data", DEMO, "--library", library, "--judge", MEASURED, "--orchestrator", BUILTIN]
    words += [*_search(run), "--budget-seconds", f"{seconds:g}"]
    return Command(tuple(words), NO_KEYS_OF_OURS)


def _data(run: NewRun) -> str:
    place = run.place.strip()
    if run.data in {DEMO, FEEDBACK}:
        return run.data
    if run.data == FOLDER:
        if not place:
            raise MissingError("No folder is named.", next_step="Type the path of the folder that holds the examples.")
        return str(Path(place).expanduser().absolute())
    if run.data != HUB:
        raise InputError("There are no such data.", next_step="Choose one of the list.")
    if not place:
        raise MissingError("No dataset is named.", next_step="Type it as org/name.")
    return place if place.startswith("hf:") else f"hf:{place}"


def judge_words(choice: JudgeChoice, judges: Judges) -> tuple[list[str], dict[str, str]]:
    """Words and variables that describe the judge. The address of a hidden one goes by the environment."""
    if choice.kind == MEASURED:
        return ["--judge", MEASURED], {}
    spec, settings = judges.spelled(choice)
    how, changes = choice.how, {"RH_API_KEY": settings.api_key or ""}
    if settings.gemini_key:
        changes["GEMINI_API_KEY"] = settings.gemini_key
    words = ["--protocol", how.protocol, "--samples", str(how.samples)]
    words += [] if how.both_orders else ["--one-order"]
    words += ["--max-pixels", str(how.max_pixels)] if how.max_pixels else []
    words += [] if choice.remember else ["--no-cache"]
    if choice.kind == ENVIRONMENT:
        return words, {**changes, "RH_JUDGE": spec}
    check_address(spec)
    return ["--judge", spec, *words], changes


def _proposer(run: NewRun, settings: Settings) -> tuple[list[str], dict[str, str]]:
    """Words and variables that describe the Orchestrator. It never gets a key that was typed for another place."""
    model = run.proposer.model.strip()
    if not model:
        return ["--orchestrator", BUILTIN], {}
    check_address(model)
    typed, judge = run.proposer.key.strip(), run.judge
    words = ["--orchestrator", model, *(["--orchestrator-images"] if run.proposer.images else [])]
    if model.startswith("gemini:"):
        both = judge.kind == GEMINI and judge.key is not None
        if typed and both and judge.key is not None and typed != judge.key.value:
            raise InputError("Two keys of Gemini are given.", next_step="Judge and Orchestrator share one; give one.")
        return words, {"GEMINI_API_KEY": typed} if typed else {}
    places = {place_of(ENDPOINT, url) for url in model_urls(model)}
    same = judge.key is not None and places == {judge.key.place}
    known = (
        judge.key.value if same and judge.key is not None else own_keys(settings, orchestrator=model)[_ORCHESTRATOR_KEY]
    )
    return words, {_ORCHESTRATOR_KEY: typed or known}


def own_keys(settings: Settings, *asked: str, orchestrator: str = "") -> dict[str, str]:
    """Return the variables that give a run the keys of the environment that may be sent where its models are served.

    Args:
        settings: The settings.
        asked: Where the judge and its router are served; empty: as the settings say.
        orchestrator: The Orchestrator's model.
    """
    return {
        "RH_API_KEY": key_for(settings.api_key, settings, *asked) or "",
        _ORCHESTRATOR_KEY: key_for(settings.orchestrator_key, settings, orchestrator) or "",
    }


@dataclass(frozen=True)
class Keys:
    """Keys that a visitor typed for a run that goes on; empty where none was."""

    judge: str = field(default="", repr=False)
    orchestrator: str = field(default="", repr=False)


NO_KEYS = Keys()
"""None was typed."""


def models_of(config: JobConfig, settings: Settings) -> tuple[str, str]:
    """Return the models that a configuration names as judge and as Orchestrator.

    Empty for the judge of the environment, and where no model is named.
    """
    judge, orchestrator = config.judge or "", getattr(config, "orchestrator", "")
    return "" if judge in {MEASURED, settings.judge} else judge, "" if orchestrator == BUILTIN else orchestrator


def keys_of(config: JobConfig, keys: Keys, settings: Settings) -> dict[str, str]:
    """Return the variables that give keys to a resumed run, each key to its own model only.

    Args:
        config: The configuration of the run.
        keys: The keys that were typed.
        settings: The settings, whose keys are used if none was typed.
    """
    judge, orchestrator = models_of(config, settings)
    typed, other = keys.judge.strip(), keys.orchestrator.strip()
    judges = (judge, config.router or "", *getattr(config, "baseline_judges", ()))
    changes = own_keys(settings, *judges, orchestrator=orchestrator)
    changes |= {_ORCHESTRATOR_KEY: other} if other else {}
    for model, key in ((orchestrator, other), (judge, typed)):
        if key and model.startswith("gemini:"):
            changes["GEMINI_API_KEY"] = key
    if typed and not judge.startswith("gemini:"):
        changes["RH_API_KEY"] = typed
    return changes


def check_address(spec: str) -> None:
    """Make sure that no password stands in an address: words of a command can be seen by others on this computer.

    Raises:
        InputError: If one does.
    """
    if any("@" in each.partition("://")[2].partition("/")[0] for each in model_urls(spec)):
        raise InputError("There is a password in the address.", next_step="Type it as the key instead.")


def _search(run: NewRun) -> list[str]:
    if not 1 <= run.proposals <= MOST_PROPOSALS:
        step = f"Choose 1 to {MOST_PROPOSALS}."
        raise InputError(f"{run.proposals} proposals cannot be tried.", next_step=step)
    if run.schedule not in {"default", "paper"}:
        raise InputError("There is no such schedule.", next_step="Choose one of the list.")
    count = "--iterations" if run.schedule == "paper" else "--proposals"
    return ["--schedule", run.schedule, count, str(run.proposals), "--seed", str(run.seed)]


def _budget(run: NewRun) -> list[str]:
    budget, words = run.budget, []
    for option, name in _LIMITS:
        value = getattr(budget, name)
        if value is not None:
            if not value > 0:
                raise InputError(f"A budget of {value:g} {name} allows nothing.", next_step="Give more, or nothing.")
            words += [option, f"{value:g}" if isinstance(value, float) else str(value)]
    for option, prices in (("--price", budget.judge_prices), ("--orchestrator-price", budget.orchestrator_prices)):
        words += [option, *prices.words] if prices is not None else []
    if budget.money is not None:
        if not budget.money > 0:
            raise InputError(f"A budget of ${budget.money:g} allows nothing.", next_step="Give more, or nothing.")
        words += ["--budget-money", f"{budget.money:g}"]
    return words
