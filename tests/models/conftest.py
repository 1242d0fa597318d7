import asyncio
import functools
import inspect
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # model_server


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run coroutine tests, in virtual time where their module has `RUN = virtual_time.run`."""
    run = getattr(pyfuncitem.module, "RUN", asyncio.run)

    def finished(test):
        return functools.wraps(test)(lambda *values, **named: run(test(*values, **named)))

    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = finished(test)
    elif inspect.iscoroutinefunction(inner := getattr(getattr(test, "hypothesis", None), "inner_test", None)):
        test.hypothesis.inner_test = finished(inner)
