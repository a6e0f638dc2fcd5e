import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stragglers.lanes import pack


@given(
    st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=5), st.integers(1, 6)
)
def test_every_client_has_one_place_and_lanes_are_as_long_as_said(steps_by_version, lanes):
    begin = np.cumsum([0, *map(len, steps_by_version)])
    steps = np.array([n for version in steps_by_version for n in version], np.int64)
    packed = pack(begin, steps, lanes)
    cost = np.maximum(steps, 1)
    for v in range(len(steps_by_version)):
        queues = [
            packed.order[packed.begin[v, lane] : packed.begin[v, lane + 1]] for lane in range(lanes)
        ]
        assert sorted(np.concatenate(queues)) == list(range(begin[v], begin[v + 1]))
        longest = max(cost[queue].sum() for queue in queues)
        total = cost[begin[v] : begin[v + 1]]
        assert packed.ticks[v] == longest >= packed.bound[v]
        assert packed.bound[v] == max(-(-total.sum() // lanes), total.max(initial=0))
        # Longest first is never worse than 4/3 of the best, which is never below the bound
        # or the sum of the two clients that must share a lane.
        pair = np.sort(total)[-lanes - 1 :][:2].sum() if len(total) > lanes else 0
        assert packed.ticks[v] <= 4 / 3 * max(packed.bound[v], pair) or lanes == 1


def test_one_lane_keeps_the_order_of_dispatch():
    assert pack(np.array([0, 3, 5]), np.array([1, 9, 2, 5, 7]), 1).order.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("clients, lanes, least", [(200, 50, 0.99), (50, 25, 0.99), (60, 20, 0.95)])
def test_heavy_tails_pack_next_to_the_bound(clients, lanes, least):
    rng = np.random.default_rng(0)
    steps = np.ceil(10 * rng.lognormal(0, 1, 100 * clients)).astype(np.int64)
    packed = pack(np.arange(0, 100 * clients + 1, clients), steps, lanes)
    assert packed.efficiency >= least
