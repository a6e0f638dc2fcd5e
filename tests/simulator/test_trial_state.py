"""Whether a trial has diverged, and when, is a matter of its server steps alone."""

from itertools import pairwise

import numpy as np
import pytest

from stragglers.simulator.prepare import Work
from stragglers.simulator.trial_state import HOPELESS, TrialState


def work(clients, corrupt=()):
    """Of a trial with so many clients a server step, some of whose reports faults corrupt."""
    trained = np.cumsum([0, *clients])
    damaged = np.cumsum([0, *(corrupt or np.zeros_like(clients))])
    nothing = np.zeros_like(trained)
    return Work(trained, trained - damaged, nothing, nothing)


def end(given, dropped, finite, stops):
    """Looks at these server steps until it is over."""
    state = TrialState(None)
    for step in stops:
        state = state.after(given, step, np.array(dropped, np.int32), min(finite, step))
        if state.diverged:
            break
    return state.diverged, state.trained, state.dropped


ALL, LAST = HOPELESS // 10, 30  # clients a server step, server steps
CASES = {
    "nobody": ([0] * LAST, LAST, None),
    "all of ten steps": ([ALL] * 10 + [0] * 20, LAST, ("every client", 10)),
    "all of nine, and then all but one": (([ALL] * 9 + [ALL - 1]) * 3, LAST, None),
    "all of ten, later": ([3, ALL, 0] + [ALL] * 10 + [0] * 17, LAST, ("every client", 13)),
    "weights": ([0] * LAST, 4, ("not finite", 5)),
    "weights, and so all clients": ([0] * 5 + [ALL] * 25, 5, ("not finite", 6)),
    "both at once": ([ALL] * 10 + [0] * 20, 9, ("every client", 10)),
    "clients, and then weights": ([ALL] * 10 + [0] * 20, 12, ("every client", 10)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_trial_diverges_where_it_does_whenever_it_is_looked_at(name):
    dropped, finite, expected = CASES[name]
    for stops in (range(1, LAST + 1), range(7, LAST + 8, 7), [LAST]):
        why, trained, lost = end(work([ALL] * LAST), dropped, finite, np.minimum(stops, LAST))
        steps = expected[1] if expected else LAST
        assert (trained, lost) == (ALL * steps, sum(dropped[:steps]))
        assert why is None if expected is None else expected[0] in why
        assert expected is None or f"server step {steps}" in why


def test_all_that_there_are_may_be_few():
    for stops in ([1, 2, 3, 4], [4]):
        assert end(work([2, 1, 0, 0]), [2, 1, 0, 0], 4, stops)[0].startswith(
            "every client diverged: the last 3 reports up to server step 2 "
        )
        assert end(work([0, 0, 0, 0]), [0, 0, 0, 0], 4, stops) == (None, 0, 0)


def test_what_faults_corrupt_neither_adds_to_a_streak_nor_ends_it():
    some = work([60] * 4, corrupt=[20, 60, 0, 0])
    why, trained, dropped = end(some, [60, 60, 60, 60], 4, [4])
    assert "the last 100 reports up to server step 3 " in why
    assert (trained, dropped) == (180, 180)
    assert end(work([60] * 4, corrupt=[60] * 4), [60] * 4, 4, [2, 4]) == (None, 240, 240)


def test_the_numbers_grow_from_look_to_look():
    found = work([3, 0, 2, 4])
    seen = [end(found, [1, 0, 2, 0], 4, [step]) for step in (1, 2, 3, 4)]
    assert [dropped for _, _, dropped in seen] == [1, 1, 3, 3]
    assert all(before[1] <= after[1] for before, after in pairwise(seen)) and seen[-1][1] == 9
