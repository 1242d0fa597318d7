"""RewardHarness: a reward for image edits that is evolved, not trained."""

__version__ = "0.1.0"
