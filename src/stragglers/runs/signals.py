"""SIGINT and SIGTERM as a stop request: training sees it between chunks and writes a checkpoint.

The first signal is a request. A second one meets the system's own handlers and ends the process at
once, wherever it is; the last checkpoint is whole all the same.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal ended the command; the command line exits with 128 + its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Wish:
    """A request to stop training soon."""

    def __init__(self) -> None:
        self.number: int | None = None  # the signal that requested it
        self.pass_on: Callable[[], None] = lambda: None  # to other processes
        self._at_once = False

    def hear(self, number: int, frame: FrameType | None = None) -> None:
        del frame
        self.number = self.number or number
        self.pass_on()
        if self._at_once:
            raise Interrupted(self.number)

    @contextmanager
    def at_once(self) -> Iterator[Callable[[], None]]:
        """A block that a signal interrupts at once, until it calls the function it is given."""

        def now_wait() -> None:
            self._at_once = False

        self._at_once = True
        try:
            if self.number:
                raise Interrupted(self.number)
            yield now_wait
        finally:
            self._at_once = False


@contextmanager
def heeded() -> Iterator[Wish]:
    """Signals are wishes inside; only the main thread can have it so."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number in SIGNALS if before[number] != signal.SIG_IGN]  # as nohup has it

    def hear(number: int, frame: FrameType | None) -> None:
        for each in heard:
            signal.signal(each, signal.SIG_DFL)
        wish.hear(number, frame)

    for number in heard:
        signal.signal(number, hear)
    try:
        yield wish
    finally:
        for number in heard:
            signal.signal(number, before[number])
