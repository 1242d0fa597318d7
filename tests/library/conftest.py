from pathlib import Path

import pytest
from library_samples import write_sample


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the sample Library."""
    return write_sample(tmp_path / "sample")
