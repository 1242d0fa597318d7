"""`rh judges`: judge profiles of published reward models."""

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.settings import Settings

app = make_app(
    "judges",
    "List, show and fetch judge profiles: how published reward models are asked. A PROFILE is a name or a YAML file.",
)


@app.command(name="list")
def list_profiles(*, json: bool = False) -> int:
    """List the judge profiles of this package.

    Example: `rh judges list`

    Args:
        json: Print one JSON list.
    """
    from rewardharness.judging.profile_opening import load_profile, missing_texts, shipped_profiles

    home = Settings.from_env().home
    profiles = [(each, missing_texts(each, home)) for each in (load_profile(name)[0] for name in shipped_profiles())]
    records = [
        {"name": each.name, "version": each.version, "mode": each.mode, "model": each.model, "to_fetch": missing}
        for each, missing in profiles
    ]
    if json:
        output.emit(records)
        return 0
    rows = [(each.name, each.mode, each.model, "no" if missing else "yes") for each, missing in profiles]
    output.table(("profile", "mode", "model", "texts here"), rows)
    output.say("Judge with one: rh score DATA --judge PROFILE:NAME@URL")
    return 0


@app.command
def show(profile: str, /, *, json: bool = False) -> int:
    """Show a judge profile: its model, requests, texts with sources and licenses, score, and notes.

    Example: `rh judges show editscore`

    Args:
        profile: Name or YAML file of the profile.
        json: Print one JSON object.
    """
    from rewardharness.codec import to_json
    from rewardharness.judging.profile_opening import load_profile

    opened, _ = load_profile(profile)
    record = to_json(opened)
    if json:
        output.emit({**record, "id": opened.id})
        return 0
    each = {"single": "one candidate per request", "pair": "two candidates per request, in both orders"}[opened.mode]
    facts = {"model": opened.model, "served": opened.serving, "from": opened.homepage, "asks": each}
    output.say(f"{opened.name} {opened.version}: {opened.about}")
    output.table(("", ""), [(name, value) for name, value in facts.items() if value])
    rows = [(name, text.origin, text.license) for name, text in opened.texts.items()]
    output.table(("text", "comes from", "license"), rows)
    calls = [(name, ", ".join(call.reply.values)) for name, call in opened.calls.items()]
    output.table(("request", "values in its reply"), calls)
    low, high = opened.range
    output.say(f"Score: {_formula(opened.score)}, from {low:g} to {high:g}")
    for note in opened.notes:
        output.say(f"- {note}")
    output.say("Library, Tools and measured evidence are off: the model was trained on this one prompt.")
    return 0


@app.command
def pull(profile: str, /) -> int:
    """Fetch the texts of a judge profile and check their hashes. Nothing that is fetched is executed.

    Example: `rh judges pull editscore`

    Args:
        profile: Name or YAML file of the profile.
    """
    from rewardharness.judging.profile_opening import load_profile, load_texts

    opened, folder = load_profile(profile)
    texts = load_texts(opened, folder, Settings.from_env().home)
    for name, text in texts.items():
        source = opened.texts[name]
        output.say(f"{name}: {len(text):,} characters from {source.origin}; license {source.license}")
    output.say(f"{opened.name} is ready.")
    return 0


def _formula(node: object) -> str:
    """Write a score as a formula."""
    if not isinstance(node, dict):
        return str(node)
    ((operation, arguments),) = node.items()
    if isinstance(arguments, dict):
        inner = ", ".join(f"{name} = {_formula(each)}" for name, each in arguments.items())
    else:
        inner = ", ".join(map(_formula, arguments))
    return f"{operation}({inner})"
