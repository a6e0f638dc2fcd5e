"""Processes that share an accelerator: all prepare side by side, one trains at a time.

Compiling takes cores and up to a minute; training takes the whole device. So while one process
trains, the next reads its data and compiles. A turn is a lock on a file, which is released when its
process ends, however it ends.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile

from stragglers._core import files, jax_env

# Polled: a process that sleeps in flock hears a signal only if the system gives
# it to the very thread that sleeps, and jax has others.
POLL_S = 0.05
Take = Callable[[], None]


@contextmanager
def shared() -> Iterator[str | None]:
    """The lock file of an accelerator's processes; None where all may train at once."""
    if not jax_env.on_accelerator():
        yield None
        return
    with NamedTemporaryFile(prefix="stragglers-turn-") as file:
        yield file.name


@contextmanager
def turn(file: str | None) -> Iterator[Take]:
    """What the block is given waits for its turn, which ends with the block; no file, no wait."""
    with open(file, "wb") if file else nullcontext() as handle:

        def take() -> None:
            if not handle:
                return
            with files.told(Path(handle.name)):
                while not files.locked(handle.fileno()):
                    time.sleep(POLL_S)

        yield take
