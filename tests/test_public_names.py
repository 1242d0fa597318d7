import subprocess
import sys

import rewardharness


def test_every_public_name_resolves_and_is_documented() -> None:
    assert sorted(rewardharness.__all__) == dir(rewardharness) and len(rewardharness.__all__) <= 28
    for name in rewardharness.__all__:
        value = getattr(rewardharness, name)
        assert name == "__version__" or value.__doc__, f"{name} has no docstring"
    assert set(rewardharness._HOMES) == set(rewardharness.__all__) - {"__version__"}


def test_importing_the_package_and_asking_for_help_loads_nothing_heavy() -> None:
    heavy = {"numpy", "cv2", "PIL", "yaml", "gradio", "rich", "skimage", "rapidocr", "aiohttp"}
    script = (
        "import sys, rewardharness, rewardharness.cli.main as m; m.root_help();"
        f"print(sorted(set(sys.modules) & {heavy!r}))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
