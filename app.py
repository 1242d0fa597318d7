"""Start the web app: `python app.py`, or as a Hugging Face Space."""

from contextlib import suppress

from app.starting import quick_imports
from rewardharness.settings import Settings

with quick_imports():
    from app.main import launch

if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        launch(Settings.from_env())
