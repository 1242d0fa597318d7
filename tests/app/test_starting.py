import subprocess
import sys

from app_parts import ROOT

LOOK = """
import gc, inspect
from app import starting
before = inspect.getfile
with starting.quick_imports():
    import gradio
    assert not gc.isenabled()
assert inspect.getfile is before and inspect.getfile(gradio.Button).endswith("button.py")
starting.started()
assert gc.isenabled() and gc.get_freeze_count() > 10_000
print("fine", gradio.Button("Go").value)
"""


def test_gradio_is_whole_after_a_quick_import() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout.split() == ["fine", "Go"]
