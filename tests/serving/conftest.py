import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # serving_parts
sys.path.insert(0, str(Path(__file__).parents[1]))  # model_server

from serving_parts import ReadyJudge, Running


@pytest.fixture(scope="module")
def judge() -> ReadyJudge:
    """A judge that answers at once, by the bytes of the images."""
    return ReadyJudge()


@pytest.fixture(scope="module")
def server(judge: ReadyJudge) -> Iterator[Running]:
    """A server without a token that the tests of one module share."""
    with Running(judge) as running:
        yield running


@pytest.fixture
def anyio_backend() -> str:
    """Coroutine tests run on asyncio."""
    return "asyncio"
