"""The packing, played through by the rule of the engine: lanes start what they can."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stragglers.simulator.packing import Load, pack
from tests.support.helpers import load_of

SIZES = st.lists(st.integers(1, 30), max_size=7)  # of the clients of one trial's server step


@st.composite
def loads(draw):
    trials, steps = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    cohorts = [[draw(SIZES) for _ in range(trials)] for _ in range(steps)]
    stops = draw(st.sets(st.integers(1, steps))) if trials > 1 else range(1, steps)
    legs = np.array(sorted({0, *stops, steps}))
    rows = [
        (t, v, n) for v, each in enumerate(cohorts) for t, some in enumerate(each) for n in some
    ]
    trial, version, cost = np.array(rows, np.int64).reshape(-1, 3).T
    return Load(trial, version, cost, legs, trials)


def played(load, packed, lanes):
    """When each client starts and ends, and when each turn is."""
    start, end, turns = np.full(len(load.cost), -1), np.full(len(load.cost), -1), []
    now = 0
    for leg, (first, last) in enumerate(pairwise(packed.turn_begin.tolist())):
        queues = [list(packed.order[a:b]) for a, b in pairwise(packed.begin[leg])]
        runs = [None] * lanes

        for turn in range(first, last):
            spans = packed.spans[packed.span_begin[turn] : packed.span_begin[turn + 1]].tolist()
            for span in [0, *spans] if turn == first else spans:
                now += span
                for lane, queue in enumerate(queues):
                    if (row := runs[lane]) is not None and now - start[row] >= load.cost[row]:
                        end[row], runs[lane] = now, None
                    if runs[lane] is None and queue and packed.opens[queue[0]] <= turn:
                        runs[lane] = queue.pop(0)
                        start[runs[lane]] = now
            turns.append(now)
        assert not any(queues) and runs == [None] * lanes
    return start, end, np.array(turns)


@given(loads(), st.integers(1, 6))
def test_every_client_trains_between_the_turns_of_its_trial(load, lanes):
    packed = pack(load, lanes)
    assert sorted(packed.order) == list(range(len(load.cost)))
    start, end, turns = played(load, packed, lanes)
    np.testing.assert_array_equal(end - start, load.cost)
    when = dict(zip(zip(packed.trial.tolist(), packed.version.tolist()), turns, strict=True))
    assert len(when) == len(turns) == load.trials * load.legs[-1]
    for trial, version, began, ended in zip(load.trial, load.version, start, end):
        assert when.get((trial, version - 1), 0) <= began < ended <= when[trial, version]
    meetings = np.append(0, packed.ticks.cumsum())
    for leg, (first, last) in enumerate(pairwise(load.legs)):  # nobody crosses one
        mine = (load.version >= first) & (load.version < last)
        assert np.all(start[mine] >= meetings[leg]) and np.all(end[mine] <= meetings[leg + 1])
    assert np.all(packed.bound <= packed.ticks)


@given(st.lists(SIZES, min_size=1, max_size=5), st.integers(1, 6))
def test_longest_first_is_never_far_from_the_best(cohorts, lanes):
    packed = pack(load_of(cohorts), lanes)
    for v, cohort in enumerate(cohorts):
        total = np.sort(cohort)
        assert packed.bound[v] == max(-(-total.sum() // lanes), total.max(initial=0))
        # Never worse than 4/3 of the best, which is never below the bound or the sum of the two
        # clients that must share a lane.
        pair = total[-lanes - 1 :][:2].sum() if len(total) > lanes else 0
        assert packed.ticks[v] <= 4 / 3 * max(packed.bound[v], pair) or lanes == 1


def test_one_lane_keeps_the_order_of_dispatch():
    assert pack(load_of([[1, 9, 2], [5, 7]]), 1).order.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("clients, lanes, least", [(200, 50, 0.99), (50, 25, 0.99), (60, 20, 0.95)])
def test_heavy_tails_pack_next_to_the_bound(clients, lanes, least):
    rng = np.random.default_rng(0)
    steps = np.ceil(10 * rng.lognormal(0, 1, (100, clients))).astype(np.int64)
    assert pack(load_of(steps), lanes).efficiency >= least


def test_trials_that_need_not_wait_for_each_other_fill_more_lanes():
    rng = np.random.default_rng(0)
    trials, steps, clients = 10, 48, 50
    cost = np.ceil(10 * rng.lognormal(0, 1, (steps, trials, clients))).astype(np.int64)
    version, trial, _ = np.indices(cost.shape)

    def ticks(legs, lanes):
        load = Load(trial.ravel(), version.ravel(), cost.ravel(), np.array(legs), trials)
        return pack(load, lanes).ticks.sum()

    assert ticks(range(0, steps + 1, 16), 43) * 43 < 1.01 * cost.sum()
    assert ticks(range(steps + 1), 43) * 43 > 1.15 * cost.sum()
