"""`rh app`: the web app, here and as a Space."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import make_app, within
from rewardharness.cli.hub import pushed_json
from rewardharness.cli.output import INTERRUPTED
from rewardharness.errors import InputError, MissingPackageError
from rewardharness.ranges import PORTS
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.hub.pushing import Pushed

PORT = 7860
app = make_app("app", "Open the web app, or publish it as a Hugging Face Space.")


@app.default
@app.command
def run(
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, within("port", PORTS)] = PORT,
    allow_host: tuple[str, ...] = (),
    open_: Annotated[bool, Parameter(name="--open")] = False,
    judge: str | None = None,
    editor: str | None = None,
    release: str | None = None,
    router: str | None = None,
    mcp: bool = False,
) -> int:
    """Start the web app and serve it until interrupted.

    Example: `rh app --open`

    Args:
        host: Address to listen on (default: this machine only).
        port: Port to listen on; 0 for any.
        allow_host: Another host name of the app, such as a proxy's, with its port if unusual (RH_ALLOW_HOST); may be
            repeated.
        open_: Open the page in the browser.
        judge: Judge that is selected at the start (default: RH_JUDGE); with --release, the URL of its model.
        editor: Editor with which edits are improved, such as openai:NAME@URL (default: RH_EDITOR).
        release: Release file or deployed:NAME that fixes Library and judge of the Score tab (default: RH_RELEASE).
        router: URL of the release's router model.
        mcp: Also be an MCP server with the tool `score`, for agents; needs the extra mcp.
    """
    from importlib.util import find_spec

    if find_spec("gradio") is None:
        raise MissingPackageError("gradio", "app", "the web app")
    if mcp and find_spec("mcp") is None:
        raise MissingPackageError("mcp", "mcp", "the MCP server")
    from app.starting import quick_imports

    with quick_imports():
        from app.main import launch
        from app.score.releases import Places

    settings = Settings.from_env()
    settings = replace(settings, release=release or settings.release, hosts=(*settings.hosts, *allow_host))
    settings = replace(settings, editor=editor or settings.editor)
    if settings.release is None:
        if router is not None:
            raise InputError("--router needs --release.", next_step="Name the release with --release.")
        settings = replace(settings, judge=judge or settings.judge)

    def ready(address: str) -> None:
        output.say(f"RewardHarness is running at {address}  (press Ctrl-C to stop)")
        if mcp:
            output.say(f"MCP server: {address.rstrip('/')}/gradio_api/mcp/")

    try:
        launch(settings, host=host, port=port, inbrowser=open_, ready=ready, places=Places(judge, router), mcp=mcp)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


@app.command
def push_space(
    name: str,
    /,
    *,
    library: str,
    judge: str = "measured",
    private: bool = False,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Publish the web app as a Hugging Face Space that judges with one Library, or update that Space.

    Keys are never pushed. The README of the Space names the secrets to set by hand.

    Example: `rh app push-space me/judge --library me/my-library`

    Args:
        name: The Space, as ORG/NAME; it is created if it does not exist.
        library: Library on the Hub, as ORG/NAME[@REVISION].
        judge: Judge of the Space.
        private: Make a new Space private.
        dry_run: Show the changes and the card, and write nothing.
        json: Print one JSON object.
    """
    from rewardharness.library.hub import usual_access
    from rewardharness.library.space import push_space as publish

    access = usual_access(Settings.from_env())
    done = publish(name, library, judge, private=private, dry_run=dry_run, access=access)
    for note in done.notes:
        output.note(note)
    if json:
        output.emit(pushed_json(done, space=done.repo, url=done.url, notes=list(done.notes)))
    else:
        _show_space(done)


def _show_space(done: "Pushed") -> None:
    if done.nothing_to_push:
        output.say(f"Nothing to push: {done.repo} has all of it, commit {done.commit}.")
        return
    changes = done.changes
    counts = f"{len(changes.added)} files added, {len(changes.changed)} changed, {len(changes.deleted)} deleted"
    if not done.dry_run:
        output.say(f"{done.repo} is commit {done.commit}: {counts}.")
        output.say(f"It builds now, which takes a few minutes: {done.url}")
        return
    for text in done.diffs.values():
        output.say(text)
    new = f" {done.repo} would be made." if done.created else ""
    output.say(f"\n{counts}.{new} Nothing was written.")
