"""`python -m rewardharness` is `rh`."""

from rewardharness.cli.main import entry

entry()
