"""Numbers on the command line: what is out of range is a wrong command line, said before any work begins."""

import argparse


def positive(text: str) -> int:
    """Read a number of at least 1, for `add_argument(type=...)`.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    return _within(text, 1, None)


def port(text: str) -> int:
    """Read a port to listen on; 0 stands for any that is free.

    Raises:
        argparse.ArgumentTypeError: If it is none.
    """
    return _within(text, 0, 65535)


def _within(text: str, low: int, high: int | None) -> int:
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
    if number < low or (high is not None and number > high):
        wanted = f"{low} or more" if high is None else f"a number from {low} to {high}"
        raise argparse.ArgumentTypeError(f"{number} is out of range; give {wanted}")
    return number
