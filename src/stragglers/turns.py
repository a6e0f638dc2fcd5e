"""Processes that share an accelerator: all prepare side by side, one trains at a time.

Compiling takes cores and up to a minute, training the whole device. So while one trains, the next
reads its data and compiles. A turn is a lock on a file, which ends with its process, however that
ends.
"""

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

POLL_S = 0.05  # a lock that is waited for asleep hears a signal only where the kernel delivers it
Take = Callable[[], None]


@contextmanager
def turn(file: str | None) -> Iterator[Take]:
    """What the block is given waits for its turn, which ends with the block; no file, no wait."""
    with open(file, "wb") if file else nullcontext() as handle:

        def take() -> None:
            while handle and not _locked(handle):
                time.sleep(POLL_S)

        yield take


def _locked(handle: IO[bytes]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
