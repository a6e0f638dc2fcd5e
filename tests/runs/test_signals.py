import os
import signal
import subprocess
import sys
import threading

import pytest

from stragglers.runs.signals import Interrupted, Wish, heeded
from tests.support import command


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_wish_and_the_second_is_not(number):
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    told = []
    with heeded() as wish:
        wish.pass_on = lambda: told.append(True)
        assert wish.number is None
        os.kill(os.getpid(), number)
        assert wish.number == number and told == [True]
        assert signal.getsignal(signal.SIGINT) == signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert before == [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]


def test_what_is_not_waited_for_ends_at_once():
    with heeded() as wish:
        with pytest.raises(Interrupted) as interrupted, wish.at_once():
            os.kill(os.getpid(), signal.SIGTERM)
        assert interrupted.value.number == signal.SIGTERM
        with pytest.raises(Interrupted), wish.at_once():  # it came before
            raise AssertionError("never here")


def test_from_some_point_on_it_is_waited_for():
    wish = Wish()
    with wish.at_once() as now_wait:
        now_wait()
        wish.hear(signal.SIGINT)
    assert wish.number == signal.SIGINT


def test_signals_that_are_ignored_stay_so():
    with command.sigint(signal.SIG_IGN), heeded() as wish:
        os.kill(os.getpid(), signal.SIGINT)
        assert wish.number is None


@pytest.mark.parametrize("handler", ["SIG_IGN", "default_int_handler"])
def test_a_child_of_a_test_handles_sigint_as_the_test_asks(handler):
    """Whether the tests themselves were started with SIGINT ignored or not."""
    code = "from signal import *; now = getsignal(SIGINT); print(getattr(now, 'name', now))"
    for outside in (signal.SIG_IGN, signal.default_int_handler):
        with command.sigint(outside), command.sigint(getattr(signal, handler)):
            child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert handler in child.stdout, child.stderr


def test_in_other_threads_signals_are_left_alone():
    seen = []

    def elsewhere():
        with heeded() as wish:
            seen.append(wish.number)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [None]
