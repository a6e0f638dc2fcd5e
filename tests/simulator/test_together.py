"""Trials in one program, models of one training: each as if it were alone."""

import jax
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import all_of, with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.training_rows import rows_of
from stragglers.simulator import prepare
from stragglers.simulator.events import Evaluated, Finished, Started
from stragglers.simulator.local_training import Local
from stragglers.simulator.prepare import Trial
from stragglers.simulator.simulate import Simulation, simulate
from stragglers.simulator.together import COLUMNS, LEG, join, legs_of
from tests.support.helpers import linear_task, matrix, measured, plan_for
from tests.support.together import simulate_together

STEPS, K, SEEDS = 12, 3, (0, 7, 31)
ADAM = optax.adam(0.05, eps=1e-3)
KINDS = {
    "fedavg": (with_ema(fedavg(ADAM), 0.8), Rounds(goal=3, cohort=5)),
    "fedbuff": (fedavg(optax.sgd(0.5)), Buffer(size=2, concurrency=5)),
    "fare-dust": (fare_dust(ADAM, k=K), Rounds(goal=3, cohort=5, late_rounds=K)),
    "feast": (feast(ADAM, beta=0.7, kappa=0.5), Rounds(goal=3, cohort=5, late_seconds=30.0)),
}
# Algorithms that differ in what they have aside alone.
ALIKE = {
    "fedavg": [fedavg(ADAM), KINDS["fedavg"][0], with_ema(fedavg(ADAM), 0.5)],
    "fedbuff": [with_ema(fedavg(optax.sgd(0.5)), decay) for decay in (0.0, 0.9)],
    "fare-dust": [
        with_ema(fare_dust(ADAM, k=K, average=average), decay)
        for average, decay in [("weights", 0.0), ("corrected", 0.0), ("corrected", 0.6)]
    ],
    "feast": [
        with_ema(feast(ADAM, beta=beta, kappa=kappa), decay)
        for beta, kappa, decay in [(0.7, 0.5, 0), (0.7, 0.0, 0), (0.9, 1.0, 0), (0.7, 0.5, 0.8)]
    ],
}


def trials(task, policy):
    """Schedules of their own, from latencies of their own."""
    each = [np.random.default_rng(seed).lognormal(1, 1, 60) for seed in SEEDS]
    return [
        Trial(plan_for(task, policy, table, seed=seed, steps=STEPS), seed)
        for seed, table in zip(SEEDS, each)
    ]


@pytest.mark.parametrize("settles", ["never", "next_step", "at_arrival", "by_round"])
def test_joined_rows_hold_every_trial_whole(settles):
    task = linear_task(dtype=np.float32)
    policy = Rounds(goal=3, cohort=6, late_rounds=K)
    if settles == "by_round":
        policy = Rounds(goal=3, cohort=6, late_seconds=30.0)
    each = [rows_of(t.schedule, settles, seed=t.seed, teachers=K) for t in trials(task, policy)]
    joint = join(each)
    assert np.all(np.diff(joint.rows.version) >= 0) and joint.trials == len(SEEDS)
    assert len({rows.slots for rows in each}) > 1 or settles != "at_arrival"
    assert joint.rows.slot.max() == joint.rows.slots - 1  # where it is, no bucket is
    for trial, rows in enumerate(each):
        mine = joint.trial == trial
        for name in COLUMNS:
            np.testing.assert_array_equal(getattr(joint.rows, name)[mine], getattr(rows, name))
        late = slice(joint.rows.late_begin[trial, 0], joint.rows.late_begin[trial, -1])
        assert set(joint.late_trial[late]) <= {trial}
        np.testing.assert_array_equal(joint.rows.late_begin[trial] - late.start, rows.late_begin)
        for found, own in (
            (joint.rows.late_slot[late], rows.late_slot),
            (joint.rows.on_time_slot[trial], rows.on_time_slot),
        ):
            np.testing.assert_array_equal(found, np.where(own == rows.slots, joint.rows.slots, own))
        np.testing.assert_array_equal(joint.rows.late_round[late], rows.late_round)


def test_trials_meet_at_every_stop_and_after_a_few_steps():
    assert legs_of([0, 3, 5], trials=1).tolist() == [0, 1, 2, 3, 4, 5]
    legs = legs_of([0, 40, 43], trials=2)
    assert {0, 40, 43} <= set(legs.tolist()) and len(legs) == 5 and 8 < np.diff(legs).max() <= LEG
    assert legs_of([0], trials=2).tolist() == [0]


def test_trials_of_different_lengths_are_refused():
    task = linear_task(dtype=np.float32)
    plans = [plan_for(task, KINDS["fedavg"][1], np.ones(9), seed=0, steps=n) for n in (3, 4)]
    with pytest.raises(BadInput, match=r"trials of \[3, 4\] server steps cannot run together"):
        join([rows_of(plan, "never", seed=0) for plan in plans])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lanes", [1, 4])
def test_together_as_alone(kind, lanes):
    algorithm, policy = KINDS[kind]
    client = Local(learning_rate=0.2, batch_size=4, distillation=0.5, proximal=0.1)
    with jax.enable_x64(True):
        task = linear_task(dtype=np.float64)
        given = trials(task, policy)
        stops = [4, STEPS]
        both = dict(evaluate_at=stops, chunk=5)
        together = simulate_together(task, given, algorithm, client, lanes=lanes, **both)
        for trial, result in zip(given, together):
            alone = simulate(task, trial.schedule, algorithm, client, seed=trial.seed, **both)
            np.testing.assert_allclose(matrix(result.params), matrix(alone.params), atol=1e-10)
            np.testing.assert_allclose(matrix(result.model), matrix(alone.model), atol=1e-10)
            assert result.trained == alone.trained
            for one, other in zip(result.curve, alone.curve, strict=True):
                np.testing.assert_allclose(measured(one), measured(other), atol=1e-10)
                same = dict(metrics=None, wall_s=0.0)
                assert one._replace(**same) == other._replace(**same)
    apart = [matrix(result.params) for result in together]
    assert np.abs(apart[0] - apart[1]).max() > 1e-3 < np.abs(apart[1] - apart[2]).max()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ALIKE)
@pytest.mark.parametrize("count, lanes", [(1, 1), (2, 3)])
def test_models_of_one_training_as_of_their_own(kind, count, lanes):
    """To the bit, where a trial is alone in its program; as near as trials are else."""
    each, policy = ALIKE[kind], KINDS[kind][1]
    client = Local(learning_rate=0.2, batch_size=4, distillation=0.5, proximal=0.1)
    near = 0.0 if count == 1 else 1e-10
    options = dict(evaluate_at=[0, 4, STEPS], chunk=5, lanes=lanes)
    with jax.enable_x64(count > 1):
        task = linear_task(dtype=np.float64 if count > 1 else np.float32)
        given = trials(task, policy)[:count]
        seen = list(Simulation(task, given, all_of(each), client, **options).run())
        together = [event.result for event in seen if isinstance(event, Finished)]
        alone = [simulate_together(task, given, algorithm, client, **options) for algorithm in each]
    in_turn = [one for same in zip(*alone) for one in same]
    assert isinstance(seen[0], Started)
    assert seen[0].start.trials == count and seen[0].start.models == len(each)
    evaluated = [event.trial for event in seen if isinstance(event, Evaluated)]
    assert evaluated == 3 * list(range(count * len(each)))
    for result, own in zip(together, in_turn, strict=True):
        np.testing.assert_allclose(matrix(result.params), matrix(own.params), rtol=0, atol=near)
        np.testing.assert_allclose(matrix(result.model), matrix(own.model), rtol=0, atol=near)
        assert result.trained == own.trained
        for one, other in zip(result.curve, own.curve, strict=True):
            np.testing.assert_allclose(measured(one), measured(other), rtol=near, atol=near)
            same = dict(metrics=None, wall_s=0.0)
            assert one._replace(**same) == other._replace(**same)
    losses = {tuple(point.metrics["total_loss"] for point in result.curve) for result in together}
    assert len(losses) == len(together)


def test_a_trial_that_diverges_leaves_the_others_alone():
    task = linear_task(dtype=np.float32)
    algorithm, policy = KINDS["fedavg"]
    client = Local(learning_rate=0.2, batch_size=4)
    given = trials(task, policy)
    good = simulate_together(task, given, algorithm, client, lanes=4, evaluate_at=[5])

    first_models = prepare.first_models  # of which the second trial's shall be no numbers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            prepare,
            "first_models",
            lambda task, seeds: jax.tree.map(
                lambda w: w.at[1].set(np.nan), first_models(task, seeds)
            ),
        )
        results = simulate_together(task, given, algorithm, client, lanes=4, evaluate_at=[5])
    assert results[1].diverged and not results[1].curve and results[1].dropped > 0
    for which in (0, 2):
        assert results[which].diverged is None and results[which].dropped == 0
        np.testing.assert_array_equal(matrix(results[which].params), matrix(good[which].params))


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_diverges_where_it_does_alone(kind, monkeypatch):
    """The clients of its first steps do, those of the others never; all meet after the last."""
    monkeypatch.setattr("stragglers.simulator.trial_state.HOPELESS", 7)
    task, (algorithm, policy) = linear_task(dtype=np.float32), KINDS[kind]
    task.x[: task.offsets[1]] = np.nan
    good, bad, _ = trials(task, policy)
    for own, first in ((good, 4), (bad, 0)):
        own.schedule.client[:] = np.where(own.schedule.version < 5, first, 4)
        own.schedule.examples[:] = 7
    local = Local(learning_rate=0.2, batch_size=4)
    together = simulate_together(task, [good, bad], algorithm, local, lanes=3)
    alone = simulate(task, bad.schedule, algorithm, local, seed=bad.seed, chunk=1)
    assert alone.diverged and together[0].diverged is None
    assert together[1].diverged == alone.diverged
    assert together[1].trained == together[1].dropped == alone.dropped == alone.trained


@pytest.mark.parametrize("count, lanes", [(1, 1), (1, 3), (3, 1), (3, 4)])
def test_a_history_is_not_copied(count, lanes):
    """Nor any other part of the program's memory as large as it."""
    task, rounds = linear_task(dtype=np.float32), 3000
    some = trials(task, Rounds(goal=3, cohort=5, late_rounds=rounds))[:count]
    server, client = fare_dust(ADAM, k=rounds), Local(0.1, 4, distillation=0.5)
    results = simulate_together(task, some, server, client, lanes=lanes)
    assert results[0].start.memory.program < 0.3 * results[0].start.memory.state
