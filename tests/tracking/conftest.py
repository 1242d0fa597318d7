import sys
from pathlib import Path

for folder in ("cli", "evolution"):  # drawn_pairs, small_world
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))
