"""Prior matching against brute force: every bias that makes a difference, one argmax an example."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.simulator import prior_matching

CLASSES, STRAGGLERS = 7, (2, 5)
SIDE = np.isin(np.arange(CLASSES), STRAGGLERS)


def drawn(count=200, seed=0, tilt=1.0, steps=2**30):
    """Logits in multiples of 1 / steps: with few of them, many gaps are equal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, count)
    logits = rng.normal(size=(count, CLASSES)) + 1.5 * np.eye(CLASSES)[y]
    logits[:, SIDE] -= tilt
    # Ties within a side are broken, since an argmax would take the first of them.
    return np.round(logits * steps) / steps + 2.0**-40 * np.arange(CLASSES), y


def answered(logits, y, bias):
    return (logits + bias * SIDE).argmax(1) == y


def of(logits, y, chosen=None):
    gap, recognised = prior_matching.gaps(jnp.asarray(logits), jnp.asarray(y), STRAGGLERS)
    everything = np.ones(len(y), bool) if chosen is None else chosen
    return prior_matching.examples(
        np.asarray(gap, float), np.asarray(recognised), SIDE[y], everything
    )


def biases(logits):
    gap = np.unique(logits[:, ~SIDE].max(1) - logits[:, SIDE].max(1))
    return np.array([gap[0] - 1, *(gap[:-1] + gap[1:]) / 2, gap[-1] + 1])


@pytest.fixture(autouse=True)
def in_double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("bias", [-2.0, -0.3, 0.0, 0.7, 3.0])
def test_answers_are_those_of_an_argmax(bias):
    logits, y = drawn()
    good = answered(logits, y, bias)
    assert prior_matching.right(of(logits, y), bias) == (good[SIDE[y]].sum(), good.sum())


@pytest.mark.parametrize("steps", [2**30, 4])
@pytest.mark.parametrize("tilt", [-1.0, 0.0, 2.0])
def test_the_bias_is_the_nearest_of_the_best(tilt, steps):
    for seed in range(5):
        logits, y = drawn(seed=seed, tilt=tilt, steps=steps)
        bias = prior_matching.fitted(of(logits, y))
        candidates = np.append(biases(logits), 0.0)
        totals = [answered(logits, y, candidate).sum() for candidate in candidates]
        assert answered(logits, y, bias).sum() == max(totals)
        if totals[-1] == max(totals):
            assert bias == 0
        # The middle of an interval between recognised examples: no optimum is nearer to 0.
        gaps = np.sort(of(logits, y).gap)
        ends = np.array([-np.inf, *gaps, np.inf])
        high = ends[np.searchsorted(ends, bias)]
        low = ends[np.searchsorted(ends, bias) - 1]
        near = 0 if low < 0 < high else min(abs(low), abs(high))
        best = np.abs(candidates[totals == max(totals)]).min()
        assert best >= near


def made(gaps, straggler, unrecognised=0):
    gaps, straggler = np.array(gaps, float), np.array(straggler, bool)
    gap = np.append(gaps, np.zeros(unrecognised))
    side = np.append(straggler, np.zeros(unrecognised, bool))
    recognised = np.arange(len(gap)) < len(gaps)
    return prior_matching.examples(gap, recognised, side, np.ones(len(gap), bool))


BIASES = {
    "perfect": ([-3, -1, 2, 4], [1, 1, 0, 0], 0.0),
    "too low": ([1, 2, 5, 6], [1, 1, 0, 0], 3.5),
    "too high": ([-6, -5, -2, -1], [1, 1, 0, 0], -3.5),
    "the upper is nearer": ([-3, 2], [0, 1], 3.0),
    "the lower is nearer": ([-1, 2], [0, 1], -2.0),
    "equally near": ([-2, 2], [0, 1], -3.0),
    "the nearest with both ends": ([1, 2, 3, 4], [1, 0, 1, 0], 1.5),
    "stragglers alone": ([1, 2], [1, 1], 3.0),
    "standard alone": ([-1, 2], [0, 0], -2.0),
    "nothing": ([], [], 0.0),
    "equal gaps cancel": ([1, 1], [1, 0], 0.0),
    "a tie at zero": ([0, 0, 0], [1, 1, 0], 1.0),
    "infinite gaps": ([-np.inf, 1, np.inf], [1, 1, 0], 2.0),
    "infinite alone": ([-np.inf, np.inf], [1, 0], 0.0),
    "no number": ([np.nan, 1, 2], [0, 1, 0], 1.5),
}


@pytest.mark.parametrize("case", BIASES)
def test_the_bias_in_small(case):
    gaps, straggler, expected = BIASES[case]
    assert prior_matching.fitted(made(gaps, straggler)) == expected


def test_at_a_tie_across_the_sides_the_answer_is_a_standard_class():
    given = made([0, 0, 0], [1, 1, 0])
    assert prior_matching.right(given, 0.0) == (0, 1)
    assert prior_matching.right(given, 1e-9) == (2, 2)


@pytest.mark.parametrize("steps", [2**30, 4])
def test_the_area_is_under_the_curve(steps):
    logits, y = drawn(steps=steps)
    given = of(logits, y)
    curve = [prior_matching.right(given, bias) for bias in biases(logits)]
    straggler = np.array([found for found, _ in curve])
    standard = np.array([total - found for found, total in curve])
    expected = np.trapezoid(straggler[::-1], standard[::-1])
    expected /= SIDE[y].sum() * (~SIDE[y]).sum()
    np.testing.assert_allclose(prior_matching.area(given), expected, rtol=1e-12)
    assert 0.2 < expected < 0.9


def test_the_area_does_not_depend_on_the_threshold():
    areas = {round(prior_matching.area(of(*drawn(tilt=tilt))), 12) for tilt in (-1.0, 0.0, 3.0)}
    assert len(areas) == 1


AREAS = {
    "perfect": (made, ([-1, 1], [1, 0]), 1.0),
    "worst": (made, ([1, -1], [1, 0]), 0.0),
    "a tie": (made, ([1, 1], [1, 0]), 0.5),
    "one unrecognised": (made, ([-1, 1], [1, 0], 1), 0.5),
    "stragglers alone": (made, ([1], [1]), np.nan),
    "nothing": (made, ([], []), np.nan),
}


@pytest.mark.parametrize("case", AREAS)
def test_the_area_in_small(case):
    make, given, expected = AREAS[case]
    np.testing.assert_equal(prior_matching.area(make(*given)), expected)


def columns(logits, y):
    gap, recognised = prior_matching.gaps(jnp.asarray(logits), jnp.asarray(y), STRAGGLERS)
    return np.asarray(gap), np.asarray(recognised), SIDE[y]


def test_each_number_is_of_its_part():
    logits, y = drawn(count=400)
    part = np.resize(np.array([0, 1, 0, 2], np.int8), 400)
    real = np.arange(400) < 390
    found = prior_matching.metrics(prior_matching.parts(*columns(logits, y), part, real))
    held_out, validation = real & (part == 0), real & (part > 0)
    bias = prior_matching.fitted(of(logits, y, validation))
    good = answered(logits, y, bias)
    one, other = (real & (part == number) for number in (1, 2))
    crossed = np.zeros(400, bool)
    for measured, fitted in ((one, other), (other, one)):
        own = prior_matching.fitted(of(logits, y, fitted))
        crossed[measured] = answered(logits, y, own)[measured]
    expected = {
        "matched_straggler_accuracy": good[held_out & SIDE[y]].mean(),
        "matched_total_accuracy": good[held_out].mean(),
        "matched_bias": bias,
        "straggler_auc": prior_matching.area(of(logits, y, held_out)),
        "validation_matched_straggler_accuracy": crossed[validation & SIDE[y]].mean(),
        "validation_matched_total_accuracy": crossed[validation].mean(),
    }
    assert found == pytest.approx(expected, rel=1e-12)
    assert len(set(found.values())) == len(found) and bias > 0.5


def test_held_out_examples_choose_nothing():
    logits, y = drawn(count=400)
    part = np.resize(np.array([0, 1, 0, 2], np.int8), 400)
    others = np.where(part[:, None] == 0, drawn(count=400, seed=9)[0], logits)
    found, changed = (
        prior_matching.metrics(prior_matching.parts(*columns(given, y), part, np.ones(400, bool)))
        for given in (logits, others)
    )
    for name in found:
        kept = name == "matched_bias" or name.startswith("validation_")
        assert (found[name] == changed[name]) == kept, name


def test_a_model_that_answers_nothing_is_right_nowhere():
    for logits in (np.zeros((8, CLASSES)), np.full((8, CLASSES), np.nan)):
        y = np.arange(8) % CLASSES
        part = np.resize(np.array([0, 1, 0, 2], np.int8), 8)
        given = prior_matching.parts(*columns(logits, y), part, np.ones(8, bool))
        found = prior_matching.metrics(given)
        assert found["matched_total_accuracy"] == 0 and found["matched_bias"] == 0


@pytest.mark.parametrize("part", [0, 1, 2])
def test_without_examples_of_a_part_its_numbers_are_missing(part):
    logits, y = drawn(count=50)
    given = prior_matching.parts(*columns(logits, y), np.full(50, part, np.int8), np.ones(50, bool))
    found = prior_matching.metrics(given)
    missing = {name for name, value in found.items() if np.isnan(value)}
    validated = {name for name in found if name.startswith("validation_")}
    assert np.isfinite(found["matched_bias"])
    assert missing == (validated if part == 0 else found.keys() - validated - {"matched_bias"})
