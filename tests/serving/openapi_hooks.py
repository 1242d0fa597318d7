"""For Schemathesis, which is not needed for the tests: gives each `ref` the image that it names.

That a `ref` must name something cannot be said in a schema. With a server that runs on port 8100:

    export PYTHONPATH=tests/serving SCHEMATHESIS_HOOKS=openapi_hooks
    schemathesis run http://127.0.0.1:8100/openapi.json --mode positive --checks all
    unset SCHEMATHESIS_HOOKS
    schemathesis run http://127.0.0.1:8100/openapi.json --mode negative --checks all
"""

from typing import Any

import schemathesis

IMAGE = "iVBORw0KGgo="


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    body = case.body
    root = body["request"] if isinstance(body, dict) and "request" in body else body
    if isinstance(root, dict) and isinstance(root.get("images", {}), dict):
        wanted = names({key: value for key, value in root.items() if key != "images"})
        missing = wanted - set(root.get("images", {}))
        if missing:
            root.setdefault("images", {}).update(dict.fromkeys(missing, IMAGE))


def names(value: Any) -> set[str]:
    """All names that images are referred to by."""
    if isinstance(value, dict):
        own = {value["ref"]} if set(value) == {"ref"} and isinstance(value["ref"], str) else set()
        return own.union(*map(names, value.values()))
    return set().union(*map(names, value)) if isinstance(value, list) else set()
