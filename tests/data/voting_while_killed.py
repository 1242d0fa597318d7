"""Five voters give votes until their process is killed, again and again. Run by test_vote_store.

    voting_while_killed.py FOLDER TIMES TOKEN     stores in ann/preferences on the Hub of HF_ENDPOINT

Prints `given ID` before a vote is given, and `stored ID` when it is acknowledged. The processes are forked, so that
nothing is imported again: the first is killed after one acknowledgment, and each further one after one more.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import huggingface_hub.hf_api  # noqa: F401  (imported once, before anything is forked)
from vote_parts import Pace, example, store, vote

from rewardharness.hub.repository import Access


def give(folder: Path, number: int, token: str, place: int) -> None:
    """Give votes, and write each line at once, whole."""
    access = Access(token, os.environ["HF_ENDPOINT"], folder / "cache")
    votes = store(access, folder / "pending", Pace(gather=0.01, give_up=0.0))

    def person(who: int) -> None:
        for turn in range(1000):
            one = vote(example(number, 100 + who, 200 + turn % 50), "A", f"person {who}", turn)
            os.write(place, f"given {one.id}\n".encode())
            votes.give(one)
            os.write(place, f"stored {one.id}\n".encode())

    people = [threading.Thread(target=person, args=(who,)) for who in range(5)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join()


def main() -> None:
    folder, times, token = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for number in range(times):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            give(folder, number, token, writing)
            os._exit(0)
        os.close(writing)
        count = 0
        with os.fdopen(reading) as stream:
            for line in stream:
                sys.stdout.write(line)
                count += line.startswith("stored")
                if count > number:
                    os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "it was not killed"


if __name__ == "__main__":
    main()
