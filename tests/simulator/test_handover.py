"""Lanes that end: both forms against a loop over lanes; GPU kernels run by the interpreter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.algorithms.base import Sum
from stragglers.simulator import handover, handover_gpu
from stragglers.simulator.handover import Ending
from stragglers.tasks.models import pallas
from tests.support.helpers import kernels_for_a_gpu

LANES, SLOTS, TRIALS = 9, 4, 2  # more lanes than two strides, more clients than buckets
SHAPES = {"wide": (3, 700), "bias": (7,)}  # one longer than a program's block, one shorter


def drawn(seed, trials=TRIALS):
    rng = np.random.default_rng(seed)

    def tree(rows):
        return {k: rng.standard_normal((rows, *s)).astype(np.float32) for k, s in SHAPES.items()}

    buckets = Sum(tree(SLOTS), rng.random(SLOTS).astype(np.float32), np.arange(SLOTS, dtype=int))
    lanes = Ending(
        ends=rng.random(LANES) < 0.7,
        starts=rng.random(LANES) < 0.5,
        trial=rng.integers(0, trials, LANES).astype(np.int32),
        next_trial=rng.integers(0, trials, LANES).astype(np.int32),
        slot=rng.integers(0, SLOTS, LANES).astype(np.int32),
        weight=rng.random(LANES).astype(np.float32) + 0.5,
        idle=rng.random(LANES) < 0.2,
        corrupt=None,
    )
    return tree(LANES), buckets, tree(trials), lanes


def one_after_another(params, buckets, models, lanes):
    """What the module says, lane by lane."""
    params, sums = ({k: v.copy() for k, v in tree.items()} for tree in (params, buckets.delta))
    weight, reports, good = buckets.weight.copy(), buckets.reports.copy(), np.ones(LANES, bool)
    for i in np.flatnonzero(lanes.ends):
        delta = {k: models[k][lanes.trial[i]] - params[k][i] for k in params}
        with np.errstate(over="ignore"):
            finite = np.isfinite(sum(np.sum(np.square(v)) for v in delta.values()))
        good[i] = finite or lanes.idle[i]
        if good[i]:
            weight[lanes.slot[i]] += lanes.weight[i]
            reports[lanes.slot[i]] += 1
            for k in sums if not lanes.idle[i] else ():
                sums[k][lanes.slot[i]] += lanes.weight[i] * delta[k]
    for i in np.flatnonzero(lanes.starts):  # one that has waited, too
        for k in params:
            params[k][i] = models[k][lanes.next_trial[i]]
    return params, Sum(sums, weight, reports), good


@pytest.fixture(params=["all_at_once", "in_place"])
def form(request, monkeypatch):
    monkeypatch.setattr(pallas, "INTERPRET", True)
    return jax.jit(getattr(handover, request.param))


def assert_same(form, given):
    found = form(*jax.tree.map(jnp.asarray, given))
    expected = one_after_another(*given)
    ends = given[3].ends
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), found[:2], expected[:2]
    )
    np.testing.assert_array_equal(np.asarray(found[2])[ends], expected[2][ends])
    jax.tree.map(np.testing.assert_array_equal, found[0], expected[0])  # copied, not computed


@pytest.mark.parametrize("trials", [1, TRIALS])
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_what_ends_is_given_away_and_the_rest_stays(form, seed, trials):
    given = drawn(seed, trials)
    ends, starts = given[3].ends, given[3].starts
    assert (ends & ~starts).any() and (starts & ~ends).any() and not (starts | ends).all()
    assert_same(form, given)


@pytest.mark.parametrize("together", [1, 2])
def test_leaves_in_kernels_of_their_own(form, monkeypatch, together):
    monkeypatch.setattr(handover_gpu, "TOGETHER", together)
    assert_same(form, drawn(6))


@pytest.mark.parametrize("ends", [False, True])
def test_nobody_and_everybody(form, ends):
    *given, lanes = drawn(3)
    everyone = np.full(LANES, ends)
    assert_same(form, (*given, lanes._replace(ends=everyone, starts=everyone, idle=~everyone)))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e38])
@pytest.mark.parametrize("ends", [True, False], ids=["of a lane that ends", "of another"])
def test_what_is_not_finite_stays_out(form, value, ends):
    params, buckets, models, lanes = drawn(4)
    params["wide"][2, 1, 5] = value
    lanes.ends[2], lanes.idle[2] = ends, False
    lanes.starts[2] &= ends
    assert_same(form, (params, buckets, models, lanes))


def test_who_had_no_examples_reports_nothing_but_himself(form):
    params, buckets, models, lanes = drawn(5)
    params["bias"][1, 0] = np.nan  # a lane goes on with anything meanwhile
    lanes.ends[1] = lanes.idle[1] = True
    assert_same(form, (params, buckets, models, lanes))


def test_a_cpu_takes_the_plain_form_and_so_does_a_corrupted_report(monkeypatch):
    taken = []
    for name in ("all_at_once", "in_place"):
        monkeypatch.setattr(handover, name, lambda *_, name=name: taken.append(name))
    given = drawn(0)
    handover.hand_over(*given)
    monkeypatch.setattr(pallas, "run_here", lambda: True)
    handover.hand_over(*given)
    handover.hand_over(*given[:3], given[3]._replace(corrupt=np.zeros(LANES, int)))
    handover.hand_over(*given[:3], given[3]._replace(again=np.zeros(LANES, int)))
    with jax.enable_x64(True):
        wide = {k: v.astype(np.float64) for k, v in given[0].items()}
        handover.hand_over(wide, *given[1:])
    assert taken == ["all_at_once", "in_place", *["all_at_once"] * 3]


def test_the_kernels_can_be_lowered_for_a_gpu():
    given = jax.tree.map(jnp.asarray, drawn(0))
    assert kernels_for_a_gpu(handover.in_place, *given) == 2
