"""A tiny smooth task, random schedules, and the three ways to train on them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers._core import random_streams
from stragglers._core.shuffle import seed_word
from stragglers.planning.latency import Draw
from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.policy import Buffer, Rounds
from stragglers.planning.population import Population
from stragglers.planning.report_weights import Reports
from stragglers.simulator import device_table, metrics, prepare, server_step
from stragglers.simulator import simulate as simulate_module
from stragglers.simulator.coordinator import Coordinator
from stragglers.simulator.device_table import power_of_two
from stragglers.simulator.interpreter import interpret
from stragglers.simulator.label_skew import Balanced, acting
from stragglers.simulator.local_training import Data, LocalJob, local_steps, local_training
from stragglers.simulator.packing import Load
from stragglers.simulator.simulate import simulate
from stragglers.tasks.base import Task
from stragglers.tasks.models.base import Model
from tests.support import plans

FEATURES, CLASSES = 4, 3


def _init(key):
    return {"w": 0.3 * jax.random.normal(key, (FEATURES, CLASSES), float), "b": jnp.zeros(CLASSES)}


def _apply(params, x, key):
    del key
    return x @ params["w"] + params["b"]


LINEAR = Model(_init, _apply)


def _prepare(x, key):
    del key
    return x


def _loss(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y)


def _score(logits, y):
    right = (jnp.argmax(logits, -1) == y).astype(logits.dtype)
    return right, jnp.ones_like(right)


def linear_task(sizes=(5, 12, 0, 3, 20, 7, 9, 1, 16), seed=0, dtype=np.float64, model=LINEAR):
    rng = np.random.default_rng(seed)
    sizes = np.asarray(sizes)
    total = int(sizes.sum())
    truth = rng.normal(size=(FEATURES, CLASSES))
    x = rng.normal(size=(total + 60, FEATURES)).astype(dtype)
    y = (x @ truth + 0.5 * rng.normal(size=(total + 60, CLASSES))).argmax(1).astype(np.int32)
    group = (np.arange(len(sizes)) % 3 == 0).astype(np.int16)
    return Task(
        "linear",
        Population(sizes, group, PAPER_GROUPS, "a test"),
        x[:total],
        y[:total],
        np.concatenate([[0], np.cumsum(sizes)]),
        x[total:],
        y[total:],
        y[total:] == 0,
        model,
        _prepare,
        _loss,
        _score,
        straggler_classes=(0,),
    )


def table_latency(table, sizes, epochs=1):
    """Latencies by dispatch number from a table that repeats, with the work of `epochs`."""
    table = np.asarray(table, float)

    def latency(first, clients):
        rows = np.arange(first, first + len(clients))
        return Draw(table[rows % len(table)], (epochs * sizes[clients]).astype(np.int64))

    return latency


def plan_for(task, policy, table, *, seed, steps, epochs=1, there=None):
    """The schedule of a policy over tabled latencies, for clients online at the hours `there`."""
    latency = table_latency(table, task.population.examples, epochs)
    each = policy.size if isinstance(policy, Buffer) else policy.goal
    who = task.population
    return plans.under(policy, who, latency, seed=seed, updates=steps * each, there=there)


@cache
def trainer(model, client):
    """One compiled client for all tests that train alike."""
    return jax.jit(local_training(linear_task(model=model).lesson, client))


@contextmanager
def traced(clients) -> Iterator[None]:
    """Clients start in this order, over and over, whatever the policy draws."""
    order, ahead = np.asarray(clients, np.int32), 0

    def cohorts(seed, purpose, population, size, first, last, weights=None):
        nonlocal ahead
        if purpose == random_streams.Purpose.FIRST_CLIENTS:
            ahead = size
            return order[None, :size]
        places = ahead + np.arange(first * size, last * size)
        return order.take(places, mode="wrap").reshape(-1, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_streams, "cohorts", cohorts)
        yield


class Path(NamedTuple):
    """A run of the simulator, before its first server step and after each."""

    states: list
    w: np.ndarray  # [steps + 1, features + 1, classes]
    model: np.ndarray  # the same, of what is evaluated
    dropped: list


@cache
def _watched(algorithm):
    return algorithm._replace(model=lambda state: state)


@contextmanager
def padded_alike() -> Iterator[None]:
    """Tables and buckets have one size, so that runs of one algorithm share a compiled program."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (device_table, server_step):
            patch.setattr(module, "power_of_two", lambda size: max(128, power_of_two(size)))
            patch.setattr(module, "rounded", lambda slots: max(8, power_of_two(slots)))
        yield


def path(task, plan, algorithm, client, evaluate_at=None, **options) -> Path:
    """Trains by the simulator and keeps the state before the first server step and after each."""
    states = []

    def keep(task, state, data, mesh):
        states.append(jax.tree.map(np.array, state))

    with pytest.MonkeyPatch.context() as patch, padded_alike():
        patch.setattr(metrics, "evaluate", keep)
        # The state stands for the model, and no report need be late.
        patch.setattr(prepare, "check_contract", lambda task, algorithm: None)
        patch.setattr(simulate_module, "check_taught", lambda algorithm, late: None)
        stops = range(plan.steps + 1) if evaluate_at is None else evaluate_at
        result = simulate(task, plan, _watched(algorithm), client, evaluate_at=stops, **options)
    return Path(
        states,
        np.array([matrix(algorithm.params(state)) for state in states]),
        np.array([matrix(algorithm.model(state)) for state in states]),
        [point.dropped for point in result.curve],
    )


@cache
def _compiled(algorithm):
    """The same functions, which the interpreter calls some hundred times."""
    teach = algorithm.teach and jax.jit(algorithm.teach)
    step, settle = jax.jit(algorithm.step), jax.jit(algorithm.settle)
    return algorithm._replace(step=step, settle=settle, teach=teach)


def by_interpreter(
    task,
    policy,
    table,
    algorithm,
    client,
    *,
    seed,
    steps,
    weigh=None,
    epochs=1,
    spoil=None,
    coordinator=Coordinator,
    plan=None,
):
    """Event by event; `spoil(dispatch, delta)` may damage reports.

    A `plan` says who starts when, and when each reports; else all that can be drawn may start.
    """
    sizes = task.population.examples
    clients = task.population.clients
    train = trainer(task.model, client)
    data = Data(jnp.asarray(task.x), jnp.asarray(task.y))
    delay = table_latency(table, sizes, epochs)

    def members(group):
        if isinstance(policy, Rounds):
            return slice(group * policy.cohort_size, (group + 1) * policy.cohort_size)
        size = policy.size if policy.refill == "at_update" else 1
        first = policy.concurrency + (group - 1) * size
        return slice(first, first + size) if group else slice(0, policy.concurrency)

    def starts(group, now):
        if plan is None:
            return now
        (start,) = {*plan.start[members(group)]} or {np.inf}
        assert start >= now
        return start

    def seconds(dispatch, client):
        if plan is not None:
            return plan.report[dispatch] - plan.start[dispatch]
        return float(delay(dispatch, np.array([client])).seconds[0])

    def choose(group):
        if plan is not None:
            return plan.client[members(group)].tolist()
        if isinstance(policy, Buffer):
            if group == 0:
                return random_streams.cohorts(
                    seed, random_streams.Purpose.FIRST_CLIENTS, clients, policy.concurrency, 0, 1
                )[0].tolist()
            size = policy.size if policy.refill == "at_update" else 1
            return random_streams.cohorts(
                seed, random_streams.Purpose.CLIENTS, clients, size, group - 1, group
            )[0].tolist()
        return random_streams.cohorts(
            seed, random_streams.Purpose.CLIENTS, clients, policy.cohort_size, group, group + 1
        )[0].tolist()

    def teacher(dispatch, version):
        u = random_streams.uniforms(seed, random_streams.Purpose.TEACHER, dispatch, dispatch + 1)[0]
        return version - 1 - int(u * min(version, max(1, algorithm.teachers)))

    def do(order):
        _, positions, cut = delay(order.dispatch, np.array([order.client]))
        steps = local_steps(positions, client, cut) * (sizes[order.client] > 0)
        job = LocalJob(
            order.dispatch,
            int(task.offsets[order.client]),
            int(sizes[order.client]),
            int(positions[0]),
            int(steps[0]),
        )
        labels = task.y[slice(*task.offsets[order.client : order.client + 2])]
        if isinstance(client.label_skew, Balanced):
            labels = task.y
        own = data
        if acting(client.label_skew):  # as a client counts its own labels
            own = data._replace(counts=jnp.asarray(np.bincount(labels, minlength=CLASSES)))
        delta = train(own, seed_word(seed), order.download, jax.tree.map(jnp.int32, job))
        return spoil(order.dispatch, delta) if spoil else delta

    def weight(arrival):
        steps = local_steps((epochs * sizes[[arrival.client]]).astype(int), client, False)
        staleness, step, before = ([v] for v in (arrival.staleness, arrival.step, arrival.before))
        columns = staleness, sizes[[arrival.client]], steps, step, before
        return float(weigh(Reports(*map(np.array, columns)))[0]) if weigh else 1.0

    server = coordinator(
        _compiled(algorithm),
        policy,
        task.model.init(jax.random.key(seed_word(seed))),
        choose,
        weight,
        teacher,
    )
    return interpret(server, do, seconds, steps, starts)


def measured(point):
    """An evaluation's metrics, in their order."""
    return list(point.metrics.values())


def matrix(params):
    """Linear weights as the reference's one matrix."""
    return np.vstack([np.asarray(params["w"]), np.asarray(params["b"])])


def kernels_for_a_gpu(function, *given):
    """How many Triton kernels a function becomes on an H200, found without one."""
    device = jax.sharding.AbstractDevice("NVIDIA H200", None, "cuda")
    mesh = jax.sharding.AbstractMesh((), (), abstract_device=device)
    with jax.sharding.use_abstract_mesh(mesh):
        # Wrapped: what the interpreter has traced is not found again.
        traced = jax.jit(lambda *arrays: function(*arrays)).trace(*given)
        return traced.lower(lowering_platforms=("cuda",)).as_text().count("xla.gpu.triton")


def load_of(cohorts):
    """One trial's clients: local steps of each, by version."""
    sizes = [len(cohort) for cohort in cohorts]
    version = np.repeat(np.arange(len(sizes)), sizes)
    cost = np.concatenate([np.asarray(cohort, np.int64) for cohort in cohorts])
    return Load(np.zeros_like(version), version, cost, np.arange(len(sizes) + 1), 1)
