import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.planning.faults import Fault
from stragglers.planning.latency import Draw
from stragglers.planning.report_weights import Reports, parts_of_steps, report_weights
from stragglers.planning.schedule import Fate
from stragglers.planning.training_rows import rows_of
from tests.support.plans import over_selected
from tests.support.timetables import table_latency

REPORTS = Reports(
    staleness=np.array([0, 0, 1, 3, 8]),
    examples=np.array([5, 0, 7, 2, 4]),
    local_steps=np.array([2, 0, 4, 1, 2]),
    step=np.array([0, 1, 5, 5, 11]),
    before=np.array([0, 1, 0, 5, 3]),
)


def weights(reports=REPORTS, **options):
    found = report_weights(reports, **options)
    assert found.dtype == np.float64
    return found.tolist()


def test_all_reports_weigh_the_same_unless_told_otherwise():
    assert weights() == [1, 1, 1, 1, 1]


def test_a_report_may_weigh_its_examples():
    assert weights(by="examples") == [5, 0, 7, 2, 4]


def test_the_square_root_of_staleness():
    found = weights(discount="inverse_sqrt", exponent=3.0)
    np.testing.assert_allclose(found, [1, 1, 2**-0.5, 0.5, 1 / 3], rtol=1e-15)


def test_any_power_of_staleness():
    found = weights(discount="polynomial", exponent=2.0)
    np.testing.assert_allclose(found, [1, 1, 1 / 4, 1 / 16, 1 / 81], rtol=1e-15)


def test_directions_weigh_the_same_however_long_they_are():
    assert weights(local_steps="normalised") == [0.5, 0, 0.25, 1, 0.5]


def test_whoever_seldom_takes_part_weighs_more():
    assert weights(participation="corrected") == [1, 1, 6, 1, 3]


def test_they_multiply():
    found = weights(
        by="examples",
        discount="polynomial",
        exponent=1.0,
        local_steps="normalised",
        participation="corrected",
    )
    np.testing.assert_allclose(found, [2.5, 0, 3.5 / 4 * 6, 0.5, 4 / 9 / 2 * 3], rtol=1e-15)


def test_the_exponent_zero_is_no_discount():
    assert weights(discount="polynomial", exponent=0.0) == weights()


def test_a_client_weighs_on_average_as_if_it_took_part_every_time():
    """Its weights add up to nearly the number of steps, whatever its chance of each."""
    rng, trials, steps = np.random.default_rng(0), 4_000, 60
    for p in (0.1, 0.5, 1.0):
        there = rng.random((trials, steps)) < p
        before = there.cumsum(axis=1) - there
        step = np.broadcast_to(np.arange(steps), there.shape)
        columns = np.zeros((5, there.sum()), int)
        columns[3], columns[4] = step[there], before[there]
        total = sum(weights(Reports(*columns), participation="corrected")) / trials
        expected = np.sum(1 - (1 - p) ** (1 + np.arange(steps)))
        assert expected > 0.85 * steps
        np.testing.assert_allclose(total, expected, rtol=0.02)


def test_whole_numbers_of_any_width_give_double_precision():
    for dtype in (np.int16, np.int32, np.int64):
        given = Reports(*(column.astype(dtype) for column in REPORTS))
        options = dict(by="examples", discount="inverse_sqrt", participation="corrected")
        assert weights(given, **options) == weights(**options)


def test_nobody_weighs_nothing():
    nobody = Reports(*(column[:0] for column in REPORTS))
    assert weights(nobody, by="examples", discount="polynomial", local_steps="normalised") == []


def two_rounds():
    """Of three clients two are waited for; the third of the first round comes during the second."""
    draw = Draw(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.full(6, 10))
    plan = over_selected(
        3, lambda first, who: draw, seed=0, goal=2, cohort=3, updates=4, late_rounds=2
    )
    on_time = Fate.ON_TIME
    assert plan.fate.tolist() == [on_time, on_time, Fate.LATE, on_time, on_time, Fate.IN_FLIGHT]
    return plan


@pytest.mark.parametrize(
    "settles, parts",
    [
        ("never", [1 / 3, 2 / 3, 0, 4 / 9, 5 / 9, 0]),
        ("at_arrival", [1 / 3, 2 / 3, 0, 4 / 9, 5 / 9, 0]),
        ("next_step", [1 / 3, 2 / 3, 3 / 12, 4 / 12, 5 / 12, 0]),
    ],
)
def test_what_part_of_its_step_a_report_is(settles, parts):
    plan, work = two_rounds(), np.arange(1, 7)
    found = parts_of_steps(plan, settles, 2, np.ones(3, int), work, lambda r: 1.0 * r.local_steps)
    np.testing.assert_allclose(found, parts, rtol=1e-15)


def test_what_is_dropped_is_no_part_of_its_step():
    plan = two_rounds()
    fault = np.where(np.arange(6) == 1, Fault.NAN, 0).astype(np.int8)
    for weight, parts in ((1.0, [1, 0, 0, 0.5, 0.5, 0]), (0.0, [0] * 6)):
        found = parts_of_steps(
            plan._replace(fault=fault),
            "never",
            1,
            np.full(3, 10),
            plan.examples,
            lambda reports, weight=weight: weight * reports.examples,
        )
        np.testing.assert_allclose(found, parts, rtol=1e-15)


@pytest.mark.parametrize("patience", [{}, {"round_timeout": 1.0, "minimum": 3}])
@pytest.mark.parametrize("settles", ["never", "next_step", "at_arrival", "by_round"])
def test_parts_are_of_the_weights_that_training_has(settles, patience):
    """Late reports that are settled apart are no part of a step, but count as having been there."""
    table = np.random.default_rng(0).lognormal(0, 1.0, 300)
    plan = over_selected(
        9, table_latency(table), seed=0, goal=3, cohort=5, updates=120, late_rounds=3, **patience
    )
    rows = rows_of(plan, settles, seed=0, teachers=3)
    weight, totals = np.zeros(len(plan.client)), np.zeros(plan.steps)
    for i, dispatch in enumerate(rows.dispatch):
        if plan.fate[dispatch] == Fate.ON_TIME or settles == "next_step":
            weight[dispatch] = (1 + rows.step[i]) / (1 + rows.before[i])
            totals[rows.joins[i]] += weight[dispatch]
    weight[rows.dispatch] /= np.maximum(totals[rows.joins], 1e-9)
    found = parts_of_steps(
        plan,
        settles,
        3,
        np.ones(9, int),
        plan.examples,
        lambda r: report_weights(r, participation="corrected"),
    )
    np.testing.assert_allclose(found, weight, rtol=1e-12)
    made = len(np.unique(plan.step[plan.fate == Fate.ON_TIME]))
    assert (made < plan.steps) == bool(patience) and np.any(plan.fate == Fate.LATE)
    np.testing.assert_allclose(found.sum(), made, rtol=1e-12)


def test_local_steps_that_nobody_knows_are_no_directions():
    unknown = REPORTS._replace(local_steps=np.full(5, -1))
    assert weights(unknown) == [1] * 5
    with pytest.raises(BadInput, match="clients do not tell how many they made"):
        report_weights(unknown, local_steps="normalised")


@pytest.mark.parametrize("exponent", [-0.1, np.nan, np.inf])
def test_a_bad_exponent_is_one_line(exponent):
    with pytest.raises(BadInput, match=f"staleness exponent={exponent}") as error:
        report_weights(REPORTS, exponent=exponent)
    assert "\n" not in str(error.value)
