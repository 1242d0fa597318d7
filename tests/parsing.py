"""Commands are inspected once in a process; cyclopts itself would do so twice for each command line."""

from copy import copy
from typing import Any

import pytest
from cyclopts import App, ArgumentCollection, Parameter


def inspect_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each parse get arguments of its own, made from those that the first one with the same settings found."""
    assemble = App.assemble_argument_collection
    found: dict[tuple[int, bool], list[tuple[App, Any, Parameter, ArgumentCollection]]] = {}

    def once(
        app: App, *, default_parameter: Parameter | None = None, parse_docstring: bool = False
    ) -> ArgumentCollection:
        settings = Parameter.combine(app.app_stack.default_parameter, default_parameter)
        known = found.setdefault((id(app), parse_docstring), [])
        for _, command, usual, arguments in known:
            if command is app.default_command and usual == settings:
                return _fresh(arguments)
        arguments = assemble(app, default_parameter=default_parameter, parse_docstring=parse_docstring)
        known.append((app, app.default_command, settings, arguments))
        return _fresh(arguments)

    monkeypatch.setattr(App, "assemble_argument_collection", once)


def _fresh(arguments: ArgumentCollection) -> ArgumentCollection:
    """Copy arguments, with their children, before a command line is matched with them."""
    copies = {id(each): copy(each) for each in arguments}
    for each in copies.values():
        each.tokens = [*each.tokens]
        each.children = ArgumentCollection(copies[id(child)] for child in each.children)
    return ArgumentCollection(copies.values())
