"""`rh app`: the web app."""

import argparse

from rewardharness.cli import output
from rewardharness.errors import MissingPackageError
from rewardharness.settings import Settings


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("app", help="open the web app", description=app.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=7860, help="port to listen on (default: 7860)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.set_defaults(run=app)


def app(arguments: argparse.Namespace, settings: Settings) -> int:
    """Start the web app and serve it until interrupted."""
    from importlib.util import find_spec

    if find_spec("gradio") is None:
        raise MissingPackageError("gradio", "app", "the web app")
    from app.main import launch

    def ready(address: str) -> None:
        output.say(f"RewardHarness is open at {address}  (Ctrl-C ends it)")

    launch(settings, host=arguments.host, port=arguments.port, inbrowser=arguments.open, ready=ready)
    return 0
