"""Judges a dataset on a Ray cluster of two nodes on this machine, and kills one of them in the middle.

    python two_nodes.py DATA OUTPUT JUDGE PARTS

The second node is killed when PARTS parts are complete. Prints how many parts were complete then.
"""

import subprocess
import sys
import time
from pathlib import Path

from ray.cluster_utils import Cluster


def main(data: str, output: Path, judge: str, parts: int) -> int:
    """Run the command on the cluster; return its exit status."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    second = cluster.add_node(num_cpus=2)
    words = ["score", data, "--output", str(output), "--judge", judge, "--part-rows", "4", "--no-cache"]
    words += ["--protocol", "direct", "--engine", "ray", "--address", cluster.address, "--workers", "4", "--quiet"]
    run = subprocess.Popen([sys.executable, "-m", "rewardharness", *words], stdout=subprocess.DEVNULL)
    done = 0
    while run.poll() is None and done < parts:
        time.sleep(0.05)
        done = len(list(output.glob("done/*.json")))
    sys.stdout.write(f"{done}\n")
    cluster.remove_node(second, allow_graceful=False)
    status = run.wait()
    cluster.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
