"""Three witnesses: the simulator, the interpreter and a NumPy reference tell the same story."""

from functools import cache

import jax
import numpy as np
import optax
import pytest
from msgspec import structs

from stragglers._core.shuffle import seed_word
from stragglers.algorithms.base import Mean, with_ema
from stragglers.algorithms.fadas import amsgrad, fadas
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg, semi_async
from stragglers.algorithms.remembering import ca2fl, mifa
from stragglers.planning import availability, report_weights
from stragglers.planning.faults import Fault
from stragglers.planning.latency import PER_DOMAIN, latency
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.schedule import Fate
from stragglers.planning.summary import waited
from stragglers.simulator import handover, label_skew
from stragglers.simulator.local_training import Local
from stragglers.simulator.prepare import Trial
from stragglers.simulator.simulate import Simulation, results, simulate
from stragglers.tasks.glyphs import glyphs
from stragglers.tasks.models import pallas
from stragglers.tasks.models.cnn import cnn
from tests.support import reference
from tests.support.helpers import (
    by_interpreter,
    linear_task,
    matrix,
    padded_alike,
    plan_for,
    traced,
)
from tests.support.plans import over_selected

STEPS, K = 12, 3
SGD, ADAM = optax.sgd(0.7), optax.adam(0.05, b2=0.99, eps=1e-3)
SMALL_SGD, AMSGRAD = optax.sgd(0.02), amsgrad(0.05, eps=1e-3)
REFERENCE = {
    id(SGD): reference.sgd(0.7),
    id(ADAM): reference.adam(0.05),
    id(SMALL_SGD): reference.sgd(0.02),
    id(AMSGRAD): reference.amsgrad(0.05),
}

POLICIES = {
    "wait for all": Rounds(goal=5, cohort=5),
    "over-selected": Rounds(goal=3, cohort=5),
    "late in seconds": Rounds(goal=3, cohort=6, late_seconds=6.0),
    "late in rounds": Rounds(goal=2, cohort=5, late_rounds=K),
    "buffered": Buffer(size=3, concurrency=6),
    "buffered, refilled at once": Buffer(size=3, concurrency=6, refill="at_once"),
}
# Clients never come back, and nobody waits for them forever.
GIVEN_UP = {
    "over-selected": Rounds(goal=3, cohort=4, round_timeout=4.0, minimum=2),
    "late in seconds": Rounds(goal=3, cohort=4, late_seconds=9.0, round_timeout=4.0, minimum=2),
    "late in rounds": Rounds(goal=3, cohort=4, late_rounds=K, round_timeout=4.0, minimum=2),
    "buffered": Buffer(size=3, concurrency=6, client_timeout=4.0, minimum=2),
    "buffered, refilled at once": Buffer(3, 6, "at_once", client_timeout=4.0, minimum=2),
}
ALGORITHMS = {
    "fedavg": (lambda s, m: fedavg(s, m), dict(algorithm="fedavg")),
    "fadas": (
        lambda s, m: fadas(s, learning_rate=0.7, threshold=1, mean=m),
        dict(algorithm="fedavg", rate=0.7, threshold=1),
    ),
    "fadas, late ones join": (
        lambda s, m: fadas(s, learning_rate=0.7, threshold=0, mean=m)._replace(settles="next_step"),
        dict(algorithm="semi_async", rate=0.7),
    ),
    "ca2fl": (
        lambda s, m: ca2fl(s, clients=9, mean=m),
        dict(algorithm="ca2fl", clients=9),
    ),
    "mifa": (lambda s, m: mifa(s, clients=9), dict(algorithm="mifa", clients=9)),
    "semi-async": (lambda s, m: semi_async(s, m), dict(algorithm="semi_async")),
    "fare-dust": (lambda s, m: fare_dust(s, k=K, mean=m), dict(algorithm="fare_dust", k=K)),
    "fare-dust, all": (
        lambda s, m: fare_dust(s, k=K, history="all", teacher_lr=0.4, mean=m),
        dict(algorithm="fare_dust", k=K, history="all", teacher_lr=0.4),
    ),
    "fare-dust, server": (
        lambda s, m: fare_dust(s, k=K, teacher_step="server", mean=m),
        dict(algorithm="fare_dust", k=K, teacher_step="server"),
    ),
    "fare-dust, corrected": (
        lambda s, m: fare_dust(s, k=K, teacher_lr=0.6, average="corrected", mean=m),
        dict(algorithm="fare_dust", k=K, teacher_lr=0.6, corrects=True),
    ),
    "feast": (
        lambda s, m: feast(s, beta=0.9, kappa=0.3, mean=m),
        dict(algorithm="feast", beta=0.9, kappa=0.3),
    ),
}
OPTIONS = {
    "sgd": {},
    "adam, ema, kl, temperature": dict(
        server=ADAM, ema=0.8, client=dict(rho=0.5, psi="kl", temperature=2.0)
    ),
    "logit mse, proximal, keep, examples": dict(
        client=dict(rho=0.3, psi="logit_mse", nu=0.4, last_batch="keep"), weigh=dict(by="examples")
    ),
    "drop, staleness by count": dict(
        client=dict(last_batch="drop", rho=0.2), weigh=dict(discount="inverse_sqrt"), by="count"
    ),
    "polynomial, two epochs, sum": dict(
        weigh=dict(by="examples", discount="polynomial", exponent=0.8),
        epochs=2,
        by="sum",
        server=SMALL_SGD,
        client=dict(rho=0.4),
    ),
    "amsgrad": dict(server=AMSGRAD, client=dict(rho=0.3)),
    "directions, rare ones weighed up": dict(
        weigh=dict(by="examples", local_steps="normalised", participation="corrected"),
        client=dict(last_batch="drop"),
        epochs=2,
    ),
}


# Local optimizers: as optax has them, and as the reference does.
LOCAL = {
    "momentum": (optax.sgd(0.1, momentum=0.8), reference.momentum(0.1, 0.8)),
    "adam": (optax.adam(0.02, b2=0.99, eps=1e-3), reference.adam(0.02)),
    "clipped, decays": (
        # optax.exponential_decay computes in float32.
        optax.chain(
            optax.clip_by_global_norm(0.5), optax.sgd(lambda t: 0.3 * 0.7 ** t.astype(float))
        ),
        reference.clipped_with_decay(0.3, 0.5, 0.7),
    ),
}


def latencies(seed):
    """Ties, zeros and a long tail."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(60) < 0.5, rng.integers(0, 5, 60), rng.lognormal(1, 1, 60))


def never_comes(seed):
    """Latencies of which many are infinite."""
    return np.where(np.random.default_rng(seed).random(60) < 0.35, np.inf, latencies(seed))


def settings(option):
    given = {"batch": 4, "lr": 0.2, **option.get("client", {})}
    skew = dict(given.get("skew") or {})
    name = given.pop("local", None)
    optimizer, given["optimizer"] = LOCAL[name] if name else (None, None)
    client = Local(
        learning_rate=None if optimizer else given["lr"],
        optimizer=optimizer,
        batch_size=given["batch"],
        last_batch=given.get("last_batch", "fill"),
        distillation=given.get("rho", 0.0),
        distillation_loss=given.get("psi", "cross_entropy"),
        temperature=given.get("temperature", 1.0),
        proximal=given.get("nu", 0.0),
        label_skew=label_skew.KINDS[skew.pop("kind")](**skew) if skew else None,
    )
    return client, given


def spoiled(fault, delta):
    """What a fault makes of a report."""
    value = {Fault.NAN: np.nan, Fault.INF: np.inf, Fault.HUGE: 1e38}.get(fault)
    return delta if value is None else jax.tree.map(lambda x: np.full_like(x, value), delta)


@cache
def built(algorithm, server, by, ema):
    """One object, and so one program, for all tests of the same algorithm."""
    optimizer = next(s for s in (SGD, ADAM, SMALL_SGD, AMSGRAD) if id(s) == server)
    return with_ema(ALGORITHMS[algorithm][0](optimizer, Mean(by)), ema)


def witnesses(
    policy, algorithm, option, seed=3, dtype=np.float64, table=None, there=None, fault=None
):
    task, table = linear_task(dtype=dtype), latencies(seed) if table is None else table
    expected = ALGORITHMS[algorithm][1]
    server, by, ema = option.get("server", SGD), option.get("by", "weight"), option.get("ema", 0.0)
    epochs = option.get("epochs", 1)
    client, given = settings(option)
    chosen = built(algorithm, id(server), by, ema)

    sizes = task.population.examples

    def weigh(reports):
        return report_weights.report_weights(reports, **option.get("weigh", {}))

    def weight(staleness, who, positions, step, before):
        batches = positions / given["batch"]
        made = np.floor(batches) if client.last_batch == "drop" else np.ceil(batches)
        columns = staleness, sizes[who], made * (sizes[who] > 0), step, before
        return float(weigh(report_weights.Reports(*(np.array([column]) for column in columns)))[0])

    plan = plan_for(task, policy, table, seed=seed, steps=STEPS, epochs=epochs, there=there)
    if fault is not None:
        plan = plan._replace(fault=fault)
    with padded_alike():  # not `simulate`, which refuses teachers where no report is late
        simulation = Simulation(
            task, [Trial(plan, seed)], chosen, client, weigh=weigh, lanes=option.get("lanes", 1)
        )
        (simulated,) = results(simulation.run())
    interpreted = by_interpreter(
        task,
        policy,
        table,
        chosen,
        client,
        seed=seed,
        steps=STEPS,
        weigh=weigh,
        epochs=epochs,
        plan=plan if there is not None or policy.busy == "skip" else None,
        spoil=None if fault is None else lambda dispatch, delta: spoiled(fault[dispatch], delta),
    )
    w0 = matrix(task.model.init(jax.random.key(seed_word(seed))))
    referred = reference.run(
        plan,
        task.x,
        task.y,
        task.offsets,
        w0,
        server=REFERENCE[id(server)],
        client=given,
        seed=seed,
        seed_word=seed_word(seed),
        by=by,
        ema=ema,
        **expected,
        weight=weight,
    )
    assert np.abs(referred[0] - w0).max() > 1e-3  # the weights did move
    return (
        (matrix(simulated.params), matrix(simulated.model)),
        (matrix(chosen.params(interpreted.state)), matrix(chosen.model(interpreted.state))),
        referred,
    )


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_on_every_schedule(policy, algorithm):
    option = dict(client=dict(rho=0.5), ema=0.6, server=ADAM)
    with jax.enable_x64(True):
        simulated, interpreted, referred = witnesses(POLICIES[policy], algorithm, option)
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("policy", GIVEN_UP)
@pytest.mark.parametrize(
    "algorithm",
    ["fedavg", "fadas, late ones join", "ca2fl", "mifa", "semi-async", "fare-dust, all", "feast"],
)
def test_steps_that_are_given_up(policy, algorithm):
    option = dict(client=dict(rho=0.5), ema=0.6, server=ADAM, weigh=dict(participation="corrected"))
    task, table = linear_task(), never_comes(3)
    plan = plan_for(task, GIVEN_UP[policy], table, seed=3, steps=STEPS)
    reports = np.bincount(plan.step[plan.fate == Fate.ON_TIME], minlength=STEPS)
    assert 0 in reports and len({*reports}) > 2  # some abandoned, some on fewer than their goal
    with jax.enable_x64(True):
        simulated, interpreted, referred = witnesses(
            GIVEN_UP[policy], algorithm, option, table=table
        )
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


# Five of nine clients come with a cycle of twelve seconds, four in the middle of it.
THERE = availability.intervals(
    np.arange(9),
    np.array([0, 0, 0, 0, 0, 6, 6, 6, 6]) / 3600,
    np.array([3, 2, 4, 3, 5, 2, 3, 4, 3]) / 3600,
    clients=9,
    cycle=12 / 3600,
    leaving="pause",
)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "algorithm", ["fedavg", "fadas", "ca2fl", "mifa", "semi-async", "fare-dust", "feast"]
)
@pytest.mark.parametrize(
    "hours, busy",
    [(THERE, "again"), (THERE, "skip"), (None, "skip"), (THERE._replace(leaving="lose"), "again")],
)
def test_groups_that_wait_for_their_clients(policy, algorithm, hours, busy):
    """Whole seconds, so that reports tie with one another, with starts and with server steps."""
    chosen, table = POLICIES[policy], np.random.default_rng(4).integers(0, 7, 60)
    size, busy = 4 if hours else 9, dict(busy=busy)
    if isinstance(chosen, Buffer):
        chosen = structs.replace(chosen, concurrency=size, client_timeout=5.0, **busy)
    else:
        goal = min(chosen.goal, 3)
        chosen = structs.replace(chosen, cohort=size, goal=goal, round_timeout=5.0, **busy)
    plan = plan_for(linear_task(), chosen, table, seed=3, steps=STEPS, there=hours)
    assert waited(plan) > 0 or (isinstance(chosen, Buffer) and hours is None)
    option = dict(
        client=dict(rho=0.5),
        ema=0.6,
        server=ADAM,
        weigh=dict(discount="inverse_sqrt", participation="corrected"),
    )
    with jax.enable_x64(True):
        simulated, interpreted, referred = witnesses(
            chosen, algorithm, option, table=table, there=hours
        )
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("algorithm", ["semi-async", "fadas, late ones join"])
def test_late_reports_that_come_during_a_step_that_is_abandoned(algorithm):
    """They join the next one that is not, in all three; weighed as they came."""
    policy = Rounds(goal=2, cohort=3, late_rounds=K, round_timeout=4.0, minimum=2)
    table = [1.0, 2, 5, 1, 9, 9, 1, 1, 1] * 7
    plan = plan_for(linear_task(), policy, table, seed=3, steps=STEPS)
    reports = np.bincount(plan.step[plan.fate == Fate.ON_TIME], minlength=STEPS)
    assert np.any(reports[plan.step[plan.fate == Fate.LATE]] == 0)
    option = dict(weigh=dict(discount="inverse_sqrt", participation="corrected"), server=ADAM)
    with jax.enable_x64(True):
        simulated, interpreted, referred = witnesses(policy, algorithm, option, table=table)
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


def test_reports_at_the_very_end_of_their_time():
    """A delay is longer than is waited for, but late in a run it rounds to the same time."""
    policy, table = Rounds(goal=1, cohort=2, late_seconds=0.3), [1e6, 1e6, *[0.2, 0.1 + 0.2] * 29]
    late = plan_for(linear_task(), policy, table, seed=3, steps=STEPS).fate == Fate.LATE
    assert late.tolist() == [False, False, *[False, True] * (STEPS - 1)]
    with jax.enable_x64(True):
        simulated, interpreted, _ = witnesses(policy, "feast", {}, table=table)
    np.testing.assert_allclose(simulated, interpreted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("algorithm", ["ca2fl", "mifa"])
def test_clients_that_report_twice_in_a_step_and_reports_that_are_not_finite(algorithm, lanes):
    """The later report replaces the earlier one; one that is not finite is remembered as zero."""
    policy = Buffer(size=3, concurrency=6, refill="at_once")
    with traced([0, 4, 0, 1, 4, 4, 8, 0, 3, 4]):
        plan = plan_for(linear_task(), policy, latencies(3), seed=3, steps=STEPS)
        used = np.flatnonzero(plan.fate == Fate.ON_TIME)
        places = list(zip(plan.step[used], plan.client[used]))
        assert len({*places}) < len(places)
        bad = used[[1, 5, 6, 12, *np.flatnonzero(plan.step[used] == 8)]]
        fault = plan.fault.copy()
        fault[bad] = np.resize([Fault.NAN, Fault.INF, Fault.HUGE], len(bad))
        option = dict(server=ADAM, ema=0.6, lanes=lanes)
        with jax.enable_x64(True):
            simulated, interpreted, referred = witnesses(policy, algorithm, option, fault=fault)
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_option_of_every_algorithm(algorithm, option):
    policy = POLICIES["late in seconds" if algorithm == "feast" else "late in rounds"]
    with jax.enable_x64(True):
        simulated, interpreted, referred = witnesses(policy, algorithm, OPTIONS[option], seed=5)
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("local", LOCAL)
@pytest.mark.parametrize("lanes", [1, 3])
def test_every_local_optimizer(local, lanes):
    """Its state begins anew with every client, also where a lane starts one after another."""
    option = dict(client=dict(local=local, rho=0.5, nu=0.1), epochs=2, lanes=lanes)
    with jax.enable_x64(True):
        simulated, interpreted, referred = witnesses(
            POLICIES["late in rounds"], "fare-dust", option
        )
    for other in (interpreted, referred):
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_lanes_change_nothing(algorithm, lanes):
    policy = POLICIES["late in seconds" if algorithm == "feast" else "late in rounds"]
    option = dict(client=dict(rho=0.5, last_batch="keep"), ema=0.6, server=ADAM, lanes=lanes)
    with jax.enable_x64(True):
        simulated, _, referred = witnesses(policy, algorithm, option, seed=7)
    np.testing.assert_allclose(simulated, referred, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_single_precision_stays_near(algorithm, lanes):
    policy = POLICIES["late in seconds" if algorithm == "feast" else "late in rounds"]
    option = dict(client=dict(rho=0.5), server=ADAM, lanes=lanes)
    simulated, interpreted, _ = witnesses(policy, algorithm, option, dtype=np.float32)
    np.testing.assert_allclose(simulated, interpreted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["fedavg", "fare-dust", "feast"])
def test_kernels_change_nothing(monkeypatch, algorithm):
    monkeypatch.setattr(pallas, "INTERPRET", True)
    monkeypatch.setattr(pallas, "run_here", lambda: True)
    used = []
    monkeypatch.setattr(
        handover, "in_place", lambda *a, real=handover.in_place: used.append(1) or real(*a)
    )
    test_single_precision_stays_near(algorithm, lanes=3)
    assert used


@pytest.mark.slow
def test_the_convolutional_model_in_lanes_in_single_precision():
    """Of EMNIST's size; clients of six local steps at most, since ReLU's kinks tell bits apart."""
    task = glyphs(writers=6)._replace(model=cnn())
    steps = -(-task.population.examples // 20)
    epochs = 6 / steps.max()
    delay = latency(task.population, PER_DOMAIN, seed=0, epochs=float(epochs))
    plan = over_selected(6, delay, seed=0, goal=5, cohort=5, updates=5)
    server, client = fedavg(optax.sgd(1.0)), Local(0.05, 20)
    one, *others = (
        simulate(task, plan, server, client, lanes=lanes, evaluate_at=[0]) for lanes in (1, 4, 16)
    )
    assert 12 < one.curve[-1].local_steps <= 30
    assert one.curve[-1].metrics["total_loss"] < one.curve[0].metrics["total_loss"] - 0.01
    for other in others:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6),
            one.params,
            other.params,
        )
