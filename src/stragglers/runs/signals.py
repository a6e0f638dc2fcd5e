"""SIGINT and SIGTERM as a wish: whoever trains sees it between two chunks and keeps where it is.

The first signal is a wish. A second one finds the system's own handlers and ends the process at
once, wherever it is; what was kept last is whole all the same.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal has ended what was going on; the command line exits with 128 + its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Wish:
    """That training end soon."""

    def __init__(self) -> None:
        self.number: int | None = None  # the signal that said so
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
        """A block that is not waited for, until it calls what it is given."""

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
