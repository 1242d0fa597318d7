"""Runs a command of `rh` with a Ray cluster of two nodes on this machine, and kills one of them in the middle.

    python two_nodes.py FOLDER COUNT WORDS...

The second node is killed when FOLDER has COUNT complete parts, or a results file with COUNT lines; prints the count.
The command finds the cluster by RAY_ADDRESS.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster


def done(folder: Path) -> int:
    """Return the number of complete parts or judgments."""
    results = folder / "results.jsonl"
    lines = results.read_bytes().count(b"\n") if results.exists() else 0
    return len(list(folder.glob("done/*.json"))) + lines


def main(folder: Path, count: int, words: list[str]) -> int:
    """Run the command on the cluster; return its exit status."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    second = cluster.add_node(num_cpus=2)
    environ = {**os.environ, "RAY_ADDRESS": cluster.address}
    run = subprocess.Popen([sys.executable, "-m", "rewardharness", *words], stdout=subprocess.DEVNULL, env=environ)
    while run.poll() is None and done(folder) < count:
        time.sleep(0.05)
    sys.stdout.write(f"{done(folder)}\n")
    cluster.remove_node(second, allow_graceful=False)
    status = run.wait()
    cluster.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
