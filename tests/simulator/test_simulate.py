"""The simulator as a machine: repeatable, compiled once, and clear about what it cannot do."""

import gc
import logging

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.algorithms.remembering import ca2fl
from stragglers.planning.faults import Fault
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.schedule import Fate
from stragglers.simulator import memory, prepare
from stragglers.simulator import simulate as simulating
from stragglers.simulator.events import (
    ChunkEnded,
    Diverged,
    Evaluated,
    Finished,
    Progressed,
    Started,
)
from stragglers.simulator.local_training import Local, on_own_data
from stragglers.simulator.prepare import Trial, default_lanes
from stragglers.simulator.simulate import Simulation, simulate, simulate_events
from stragglers.tasks.base import check
from tests.support.helpers import linear_task, load_of, matrix, plan_for, traced

STEPS, K = 12, 3
TASK = linear_task(dtype=np.float32)
TABLE = np.random.default_rng(1).lognormal(1, 1, 60)
CLIENT = Local(learning_rate=0.2, batch_size=4, distillation=0.5)
ADAM = optax.adam(0.05, eps=1e-3)
FEDAVG = with_ema(fedavg(ADAM), 0.8)
FARE_DUST = fare_dust(ADAM, k=K)
ROUNDS = Rounds(goal=3, cohort=5)
REMEMBERS = Rounds(goal=3, cohort=5, late_rounds=K)


def plan(policy=ROUNDS, *, seed=0, steps=STEPS):
    return plan_for(TASK, policy, np.roll(TABLE, seed), seed=seed, steps=steps)


def run(algorithm=FEDAVG, policy=ROUNDS, *, task=TASK, client=CLIENT, seed=0, **options):
    return simulate(task, plan(policy, seed=seed), algorithm, client, seed=seed, **options)


def events(algorithm=FEDAVG, policy=ROUNDS, *, task=TASK, client=CLIENT, seed=0, **options):
    return simulate_events(task, plan(policy, seed=seed), algorithm, client, seed=seed, **options)


def happened(kind, *arguments, **options):
    return [event for event in events(*arguments, **options) if isinstance(event, kind)]


def story(result):
    """All of a result but the wall clock."""
    curve = [point._replace(wall_s=0.0) for point in result.curve]
    return curve, jax.tree.map(np.asarray, result._replace(curve=()))


def assert_same(a, b):
    assert story(a)[0] == story(b)[0]
    jax.tree.map(np.testing.assert_array_equal, story(a)[1], story(b)[1])


KINDS = {"fedavg": (FEDAVG, ROUNDS), "fare-dust": (FARE_DUST, REMEMBERS)}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_run_gives_the_same_bits_in_chunks_of_any_length(kind):
    once = run(*KINDS[kind])
    assert np.isfinite(matrix(once.model)).all() and once.diverged is None
    for options in ({}, dict(chunk=1), dict(chunk=5), dict(chunk=100)):
        assert_same(once, run(*KINDS[kind], **options))
    other = run(*KINDS[kind], seed=1)
    assert not np.array_equal(matrix(once.params), matrix(other.params))


@pytest.mark.parametrize("kind", KINDS)
def test_evaluating_at_every_step_changes_nothing_but_the_curve(kind):
    once, always = run(*KINDS[kind]), run(*KINDS[kind], evaluate_at=range(STEPS + 1), chunk=7)
    assert [point.step for point in always.curve] == list(range(STEPS + 1))
    assert once.curve == (always.curve[-1]._replace(wall_s=once.curve[0].wall_s),)
    assert_same(once, always._replace(curve=once.curve))
    assert len({point.metrics["total_loss"] for point in always.curve}) > STEPS / 2


def test_points_of_the_curve_say_where_they_are():
    given, points = plan(), run(evaluate_at=[0, 4, 4, 9]).curve
    assert [point.step for point in points] == [0, 4, 9, 12]
    assert [point.time_s for point in points] == [0.0, *given.time[[3, 8, 11]]]
    assert [point.updates for point in points] == [0, 12, 27, 36]
    used = given.client[given.fate == 0]
    batches = -(-TASK.population.examples[used] // 4)
    assert [point.local_steps for point in points] == [batches[: p.updates].sum() for p in points]
    assert [point.examples for point in points] == [4 * point.local_steps for point in points]
    assert np.all(np.diff([point.wall_s for point in points]) > 0)


def test_of_whoever_a_time_limit_cuts_a_batch_that_is_not_done_is_not_done():
    given = plan()
    cut = np.arange(len(given.client)) % 3 == 0
    work, used = given.examples, given.fate == Fate.ON_TIME
    assert np.any(work[used & cut] % 4) and np.any(work[used & ~cut] % 4)
    batches = np.where(cut, work // 4, -(-work // 4))[used].sum()
    result = simulate(TASK, given._replace(cut=cut), FEDAVG, CLIENT)
    assert result.curve[-1].local_steps == batches


@pytest.mark.parametrize(
    "change, complaint",
    [
        (dict(batch_size=0), "batch_size=0, expected a whole number >= 1"),
        (dict(batch_size=2.5), "batch_size=2.5, expected a whole number >= 1"),
        (dict(learning_rate=-0.05), "learning_rate=-0.05, expected a finite number > 0"),
        (dict(learning_rate=0.0), "learning_rate=0.0, expected"),
        (dict(learning_rate=np.nan), "learning_rate=nan, expected"),
        (dict(temperature=np.inf), "temperature=inf, expected"),
        (dict(distillation=-1.0), "distillation=-1.0, expected a finite number >= 0"),
        (dict(proximal=np.nan), "proximal=nan, expected a finite number >= 0"),
        (dict(last_batch="foo"), "last_batch='foo', expected one of: 'fill', 'keep', 'drop'"),
        (dict(distillation_loss="l2"), "distillation_loss='l2', expected one of: 'cross_entropy'"),
        (dict(distillation_term="all"), "distillation_term='all', expected one of: 'mean', 'sum'"),
    ],
)
def test_a_client_that_could_not_train_is_one_line(change, complaint):
    wrong = CLIENT._replace(**change)
    for train in (lambda: run(client=wrong), lambda: on_own_data(TASK.lesson, wrong)):
        with pytest.raises(BadInput, match=f"Local: {complaint}") as error:
            train()
        assert "\n" not in str(error.value)


def test_a_schedule_of_other_clients_is_one_line():
    for sizes in ((5, 12, 0, 3), (4,) * 10):
        with pytest.raises(BadInput, match=f"a schedule of 9 clients, .* has {len(sizes)}; make"):
            run(task=linear_task(sizes, dtype=np.float32))


def test_a_small_test_set_on_the_way_leaves_the_last_point_alone():
    few, all_of_them = (run(evaluate_at=[4], curve_examples=limit) for limit in (7, None))
    assert few.curve[0].metrics != all_of_them.curve[0].metrics
    assert few.curve[1].metrics == all_of_them.curve[1].metrics


@pytest.mark.parametrize("every", [False, True])
def test_which_test_examples_are_for_validation_changes_nothing_else(monkeypatch, every):
    before = run(evaluate_at=[4], curve_examples=20)
    monkeypatch.setattr(
        "stragglers.simulator.metrics.parts", lambda straggler: np.full(60, every, np.int8)
    )
    after = run(evaluate_at=[4], curve_examples=20)
    for name in ("params", "model"):
        assert np.array_equal(matrix(getattr(before, name)), matrix(getattr(after, name)))
    for one, other in zip(before.curve, after.curve, strict=True):
        whole = {name: one.metrics[name] for name in list(one.metrics)[:6]}
        assert whole == {name: other.metrics[name] for name in whole}
        assert np.isfinite(list(one.metrics.values())).all()
        validation, held_out = (
            [other.metrics[f"{half}_{name}"] for name in ("straggler_accuracy", "total_accuracy")]
            for half in ("validation", "held_out")
        )
        known = [whole["straggler_accuracy"], whole["total_accuracy"]]
        assert known == (validation if every else held_out)
        assert np.isnan(held_out if every else validation).all()


def test_progress_is_told_in_order():
    told = happened(Progressed, evaluate_at=[6], chunk=4)
    assert [p.step for p in told] == [4, 6, 10, 12] and {p.steps for p in told} == {STEPS}
    assert [p.trained for p in told] == [3 * p.step for p in told]
    assert told[0].metrics is None and told[2].metrics is not None


def test_points_are_told_as_they_come():
    options = dict(evaluate_at=[0, 6, 9])
    told = [event.point for event in happened(Evaluated, *KINDS["fare-dust"], **options)]
    (result,) = (event.result for event in happened(Finished, *KINDS["fare-dust"], **options))
    assert len(told) == len(result.curve) and [point.step for point in told] == [0, 6, 9, 12]
    late = [point.late for point in told]
    assert late[0] == 0 < late[-1] and late == sorted(late)
    assert 3 * STEPS + late[-1] == result.trained


def test_what_happens_is_yielded_in_order(monkeypatch):
    seen = list(events(evaluate_at=[6], chunk=4))
    chunk, end = [Progressed, ChunkEnded], [Finished]
    expected = [Started, *2 * chunk, Evaluated, *2 * chunk, Evaluated, *end]
    assert [type(event) for event in seen] == expected
    assert seen[0].start.lanes == 1 and {event.trial for event in seen[-2:]} == {0}
    assert_same(seen[-1].result, run(evaluate_at=[6]))
    monkeypatch.setattr("stragglers.simulator.trial_state.HOPELESS", 9)
    with traced([0, 1, 3, 4, 8]):
        wild = events(task=spoiled(TASK, np.nan), evaluate_at=[0, 6], chunk=100)
    *seen, finished = wild
    assert [type(event) for event in seen] == [Started, Evaluated, Progressed, Diverged, ChunkEnded]
    assert finished.result.diverged == seen[3].reason and "every client" in seen[3].reason


def test_a_chunk_is_valid_until_the_next_event_is_asked_for():
    happening = events(chunk=5)
    chunk = next(event for event in happening if isinstance(event, ChunkEnded))
    leaves = jax.tree.leaves(chunk.snapshot.carry)
    assert chunk.snapshot.step == 5 and not any(leaf.is_deleted() for leaf in leaves)
    next(happening)
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(chunk.snapshot.carry.server))


def test_a_run_that_is_closed_on_the_way_frees_the_device():
    whole = run()  # compiled, and what stays with a task is on the device
    before = in_use()
    happening = events(chunk=5)
    next(event for event in happening if isinstance(event, ChunkEnded))
    assert in_use() > before
    happening.close()
    assert in_use() == before and list(happening) == []
    assert_same(run(), whole)


def in_use():
    gc.collect()
    return sum(array.nbytes for array in jax.live_arrays())


def test_what_comes_after_a_snapshot_is_told_once():
    whole = run(evaluate_at=[4, 8], chunk=3)
    simulation = Simulation(TASK, [Trial(plan())], FEDAVG, CLIENT, evaluate_at=[4, 8], chunk=3)
    seen = []
    for event in simulation.events(simulation.first()):
        seen.append(type(event))
        if isinstance(event, ChunkEnded) and event.snapshot.step == 7:
            kept = jax.tree.map(jnp.copy, event.snapshot.carry)
            kept = event.snapshot._replace(carry=kept)
            break
    (result,) = simulating.results(simulation.events(kept))
    assert seen.count(Evaluated) == 1 and len(result.curve) == 3
    assert_same(result, whole)


def test_another_trial_compiles_nothing(caplog):
    def compiled():
        return [r.getMessage() for r in caplog.records if "XLA compilation" in r.getMessage()]

    for algorithm, policy in KINDS.values():
        run(algorithm, policy)
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        for algorithm, policy in KINDS.values():
            other = run(algorithm, policy, seed=5, evaluate_at=[3])
        assert compiled() == [] and other.trained != run(*KINDS["fare-dust"]).trained
        run(client=CLIENT._replace(learning_rate=0.25))  # which is another program
        assert any("jit(_advance)" in message for message in compiled())


def test_a_client_without_examples_counts_as_one_that_stood_still():
    lazy = fedavg(optax.sgd(0.5))
    moved = []
    for order in ([4], [4, 2]):  # client 2 has no examples
        with traced(order):
            given = plan(Rounds(len(order), len(order)), steps=1)
        result = simulate(TASK, given, lazy, CLIENT)
        start = simulate(TASK, given, lazy, CLIENT, weigh=lambda reports: 0.0 * reports.examples)
        assert result.trained == len(order) and result.dropped == 0
        moved.append(matrix(result.params) - matrix(start.params))
    np.testing.assert_allclose(moved[1], moved[0] / 2, rtol=1e-5, atol=1e-7)
    assert np.abs(moved[0]).max() > 1e-3


# Training that goes wrong.


def spoiled(task, value):
    return task._replace(x=np.full_like(task.x, value))


@pytest.mark.parametrize("evaluate_at", [None, range(STEPS)])
@pytest.mark.parametrize(
    "task, client",
    [(spoiled(TASK, np.nan), CLIENT), (TASK, CLIENT._replace(learning_rate=1e30))],
)
def test_clients_that_all_diverge_end_a_run_with_a_finite_model(task, client, evaluate_at):
    # Client 2 has no examples and cannot diverge: not in this trace.
    with traced([0, 1, 3, 4, 8]):
        given = plan()
    start = simulate(TASK, given, FEDAVG, CLIENT, weigh=lambda reports: 0.0 * reports.examples)
    result = simulate(task, given, FEDAVG, client, evaluate_at=evaluate_at)
    assert "every client diverged" in result.diverged and "\n" not in result.diverged
    assert result.dropped == result.trained == 3 * STEPS
    assert result.params is None
    np.testing.assert_array_equal(matrix(result.model), matrix(start.params))


WAYS = {
    "one by one": {},
    "lanes": dict(lanes=4),
    "devices": dict(devices=2),
    "lanes of devices": dict(devices=2, lanes=4),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("policy", [ROUNDS, Buffer(size=3, concurrency=5)])
def test_where_clients_have_all_diverged_does_not_go_by_the_clock(policy, way, monkeypatch):
    """Nor does what is told of it: those of the first four server steps do, later ones do not."""
    monkeypatch.setattr("stragglers.simulator.trial_state.HOPELESS", 9)
    given = plan(policy)
    task, early = TASK._replace(x=TASK.x.copy()), given.version < 4
    task.x[TASK.offsets[0] : TASK.offsets[1]] = np.nan
    given = given._replace(client=np.where(early, 0, 4), examples=np.full_like(given.examples, 7))
    bad = np.cumsum(np.bincount(given.version[given.fate == Fate.ON_TIME])[:4])
    step = int(np.argmax(bad >= 9))
    for chunk in (1, 2, 5, 100):
        result = simulate(task, given, FEDAVG, CLIENT, chunk=chunk, **WAYS[way])
        assert f"the last {bad[step]} reports up to server step {step + 1} " in result.diverged
        assert result.trained == result.dropped == bad[step] and result.curve == ()
        assert result.params is None


@pytest.mark.parametrize("chunk", [1, 5, 100])
@pytest.mark.parametrize("evaluate_at", [None, range(STEPS)])
def test_weights_that_overflow_end_a_run_with_the_last_finite_model(evaluate_at, chunk):
    client, violent = CLIENT._replace(learning_rate=1e15), fedavg(optax.sgd(1e30))
    start = run(FEDAVG, weigh=lambda reports: 0.0 * reports.examples)
    result = run(violent, client=client, evaluate_at=evaluate_at, chunk=chunk)
    assert "not finite after server step 1;" in result.diverged and "\n" not in result.diverged
    assert [point.step for point in result.curve] == ([] if evaluate_at is None else [0])
    np.testing.assert_array_equal(matrix(result.model), matrix(start.params))


def test_a_run_in_which_some_report_is_not_a_diverged_one():
    task = TASK._replace(x=TASK.x.copy())
    task.x[: TASK.offsets[4]] = np.nan
    result = run(task=task)
    assert result.diverged is None and 0 < result.dropped < result.trained
    assert np.isfinite(matrix(result.model)).all()


def test_reports_that_faults_corrupt_are_no_sign_of_divergence(monkeypatch):
    """However many come in a row; that all others diverge still is."""
    monkeypatch.setattr("stragglers.simulator.trial_state.HOPELESS", 6)
    with traced([0, 1, 3, 4, 8]):
        given = plan()
    used = np.flatnonzero(given.fate == Fate.ON_TIME)

    def struck(dispatches):
        fault = given.fault.copy()
        fault[dispatches] = Fault.NAN
        return given._replace(fault=fault)

    for bad in (used, used[:-1], used[3:]):
        result = simulate(TASK, struck(bad), FEDAVG, CLIENT)
        assert result.diverged is None and result.dropped == len(bad)
        assert result.trained == 3 * STEPS and np.isfinite(matrix(result.model)).all()
    wild = CLIENT._replace(learning_rate=1e30)
    result = simulate(TASK, struck(used[::3]), FEDAVG, wild)
    assert (
        result.diverged
        and "every client diverged: the last 6 reports up to server step 3 " in result.diverged
    )


# Bad input.


def refused(complaint, call, *arguments, **options):
    with pytest.raises(BadInput, match=complaint) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("steps", [[-1], [STEPS + 1], [3, 99]])
def test_a_server_step_that_is_not_made_cannot_be_evaluated(steps):
    refused(f"evaluate_at=.* from 0 to {STEPS}", run, evaluate_at=steps)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_that_are_no_weights_are_refused(weight):
    def weigh(reports):
        return np.where(np.arange(len(reports.examples)) == 5, weight, 1.0)

    refused("weights of reports must be finite and not negative", run, weigh=weigh)


def test_a_task_that_nobody_can_train_on_is_refused():
    assert check(TASK) is TASK
    nobody = TASK._replace(offsets=np.array([0]))
    empty = linear_task([0, 0, 0])
    short = TASK._replace(y=TASK.y[:-1])
    crossed = TASK._replace(offsets=TASK.offsets[[0, 2, 1, *range(3, 10)]])
    others = TASK._replace(
        population=TASK.population._replace(examples=TASK.population.examples[::-1])
    )
    refused("no clients", check, nobody)
    refused("no client has examples", check, empty)
    refused("73 examples, 72 labels", check, short)
    for task in (crossed, others):
        refused("sizes are not those of its examples", check, task)
    refused("no client has examples", simulate, empty, plan(), FEDAVG, CLIENT)


@pytest.mark.parametrize("kappa", [-0.1, 1.1, np.nan])
def test_a_bad_kappa_is_refused(kappa):
    refused(f"kappa={kappa}, expected a number from 0 to 1", feast, ADAM, beta=0.9, kappa=kappa)


@pytest.mark.parametrize("beta", [-0.1, 1.0, 1.5, np.nan])
def test_a_bad_beta_is_refused(beta):
    refused(f"beta={beta}, expected", feast, ADAM, beta=beta, kappa=0.5)


@pytest.mark.parametrize("k", [0, -2])
def test_a_history_without_rounds_is_refused(k):
    refused(f"k={k} historical teachers", fare_dust, ADAM, k=k)


@pytest.mark.parametrize("decay", [-0.5, 1.0, 2.0, np.nan])
def test_an_average_that_forgets_nothing_is_refused(decay):
    refused(f"ema decay={decay}, expected", with_ema, FEDAVG, decay)


def test_the_ends_of_every_range_are_allowed():
    feast(ADAM, beta=0.0, kappa=0.0)
    feast(ADAM, beta=0.999, kappa=1.0)
    fare_dust(ADAM, k=1)
    assert with_ema(FEDAVG, 0.0) is FEDAVG and with_ema(FEDAVG, 0.999) is not FEDAVG


def test_what_else_is_in_use_is_announced(monkeypatch):
    alone = run().start.memory
    known = alone.state + alone.buckets + alone.data + alone.schedule
    monkeypatch.setattr(prepare, "in_use", lambda: (known + 1000, known + 2000))
    shared = run().start.memory
    assert shared == alone._replace(other=1000, preparing=known + 2000)
    assert shared.training == alone.training + 1000


def test_lanes_are_as_many_as_there_is_memory_for(monkeypatch):
    monkeypatch.setattr(prepare, "default_lanes", lambda load, devices: 8)
    wide = run()
    assert wide.start.lanes == 8
    memory = wide.start.memory
    monkeypatch.setattr(prepare, "device_bytes", lambda: memory.total - 1)
    fewer = run()
    assert fewer.start.lanes == 7 and fewer.start.memory.total < memory.total
    np.testing.assert_allclose(matrix(fewer.params), matrix(wide.params), rtol=1e-5, atol=1e-6)
    assert run(lanes=8).start.lanes == 8  # who asks for them gets them, or is refused
    monkeypatch.setattr(prepare, "device_bytes", lambda: 1)
    assert run().start.lanes == 1


def test_lanes_follow_the_sizes_and_the_device(monkeypatch):
    equal = load_of(np.full((2, 50), 10))
    assert default_lanes(equal) == 1  # a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert default_lanes(equal) == 50
    assert default_lanes(load_of([[10] * 99 + [1000]])) == 2
    assert default_lanes(load_of([[], [1]])) == 1 == default_lanes(load_of([[]]))


def test_reports_to_remember_that_do_not_fit_are_refused_before_training(monkeypatch):
    task, again = linear_task(), [0, 1, 2, 3]
    with traced(again):
        given = plan_for(task, Rounds(goal=1), [1.0], seed=0, steps=40)
    algorithm, room = ca2fl(optax.sgd(1.0), clients=9), 8 * 4 * 15  # eight models
    monkeypatch.setattr(memory, "device_bytes", lambda: room)
    with pytest.raises(BadInput, match=r"sums in flight of 9 models .* lower updates"):
        simulate(task, given, algorithm, Local(0.1, 4))
