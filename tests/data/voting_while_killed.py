"""Five voters give votes until the process is killed. Run by test_vote_store.

    voting_while_killed.py FOLDER ROUND TOKEN     stores in ann/preferences on the Hub of HF_ENDPOINT

Prints `given ID` before a vote is given, and `stored ID` when it is acknowledged.
"""

import os
import sys
import threading
from pathlib import Path

from vote_parts import Pace, example, store, vote

from rewardharness.hub.repository import Access


def say(word: str, name: str) -> None:
    """Write a line at once, whole."""
    os.write(sys.stdout.fileno(), f"{word} {name}\n".encode())


def main() -> None:
    folder, number, token = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    access = Access(token, os.environ["HF_ENDPOINT"], folder / "cache")
    votes = store(access, folder / "pending", Pace(gather=0.01, give_up=0.0))

    def person(who: int) -> None:
        for turn in range(1000):
            one = vote(example(number, 100 + who, 200 + turn % 50), "A", f"person {who}", turn)
            say("given", one.id)
            votes.give(one)
            say("stored", one.id)

    for who in range(5):
        threading.Thread(target=person, args=(who,)).start()


if __name__ == "__main__":
    main()
