"""Start the web app: `python app.py`, or as a Hugging Face Space."""

from app.main import launch
from rewardharness.settings import Settings

if __name__ == "__main__":
    launch(Settings.from_env())
