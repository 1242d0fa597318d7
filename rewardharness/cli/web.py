"""`rh app`: the web app."""

import argparse
from dataclasses import replace

from rewardharness.cli import output
from rewardharness.cli.counts import port
from rewardharness.errors import InputError, MissingPackageError
from rewardharness.settings import Settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("app", help="open the web app", description=app.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=port, default=7860, help="port to listen on (default: 7860)")
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="host name that the app is also reached by, such as that of a proxy, with its port unless that is the "
        "usual one (may be repeated; default: RH_ALLOW_HOST)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--release",
        metavar="RELEASE",
        help="a release file, or deployed:NAME: fixes the Library and the judge of the Score tab (default: RH_RELEASE)",
    )
    parser.add_argument(
        "--judge",
        metavar="JUDGE",
        help="the judge that is chosen when nobody chooses (default: RH_JUDGE); with --release where its model is "
        "served, as an address or in full",
    )
    parser.add_argument("--router", metavar="MODEL", help="where the router of the release is served (same spelling)")
    parser.set_defaults(run=app)


def app(arguments: argparse.Namespace, settings: Settings) -> int:
    """Start the web app and serve it until interrupted."""
    from importlib.util import find_spec

    if find_spec("gradio") is None:
        raise MissingPackageError("gradio", "app", "the web app")
    from app.main import launch
    from app.releases import Places

    release = arguments.release or settings.release
    settings = replace(settings, release=release, hosts=(*settings.hosts, *arguments.allow_host))
    if release is None:
        if arguments.router is not None:
            raise InputError("A router belongs to a release.", next_step="Name the release with --release.")
        settings = replace(settings, judge=arguments.judge or settings.judge)
    places = Places(arguments.judge, arguments.router)

    def ready(address: str) -> None:
        output.say(f"RewardHarness is open at {address}  (Ctrl-C ends it)")

    launch(settings, host=arguments.host, port=arguments.port, inbrowser=arguments.open, ready=ready, places=places)
    return 0
