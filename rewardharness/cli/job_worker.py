"""The program of a Hugging Face Job; see `remote.worker`. Not a command of `rh`."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rewardharness.cli import output
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.errors import HarnessError, describe
from rewardharness.remote.worker import STOPPED, Worker
from rewardharness.settings import Settings


def main(arguments: Sequence[str]) -> int:
    """Do the job in a folder. Returns the exit status of the job."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        status = Worker(Path(arguments[0]), Settings.from_env(), output.note).work(restart="--restart" in arguments)
    except HarnessError as error:
        output.fail(describe(error))
        return 1
    except KeyboardInterrupt:
        return STOPPED
    return 0 if status == NOT_JUDGED else status  # the run is complete, although some examples were not judged


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
