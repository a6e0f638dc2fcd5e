"""A run before its first step: the rows of every trial, packed, on the device, and the program.

    schedules -> rows -> joined over trials -> lanes -> table -> program, compiled

Here the run's width is chosen and its memory is known.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers._core.shuffle import seed_word
from stragglers.algorithms.base import Algorithm, Params
from stragglers.planning.report_weights import Reports, Weigh
from stragglers.planning.schedule import Schedule
from stragglers.planning.training_rows import Rows, rows_of
from stragglers.simulator import device_mesh as meshes
from stragglers.simulator import engine, metrics, server_step
from stragglers.simulator.contract import check_contract
from stragglers.simulator.device_table import Jobs, table_of
from stragglers.simulator.engine import Feed
from stragglers.simulator.local_training import Local, check_local, local_steps, on_device
from stragglers.simulator.memory import Memory, check_fits, device_bytes, in_use, tree_bytes
from stragglers.simulator.metrics import TestData
from stragglers.simulator.packing import Load, lengths, pack
from stragglers.simulator.programs import temporaries
from stragglers.simulator.server_step import Carry
from stragglers.simulator.together import join, legs_of
from stragglers.tasks.base import Task, check

MOST_LANES = 512  # the widest that was measured
TICK_COST = 10  # of a tick besides its lanes, in lanes: launches, and what small products waste


class Trial(NamedTuple):
    """One of the trials that train together."""

    schedule: Schedule
    seed: int = 0


class Work(NamedTuple):
    """What a trial has done after each server step."""

    trained: NDArray[np.int64]  # [steps + 1]: clients
    sound: NDArray[np.int64]  # [steps + 1]: of them, those whose report no fault corrupts
    local_steps: NDArray[np.int64]  # [steps + 1]
    late: NDArray[np.int64]  # [steps + 1]: reports of closed rounds that were used


class Start(NamedTuple):
    """What is known before the first step."""

    device: str
    devices: int
    trials: int  # in one program
    models: int  # of each
    lanes: int  # clients trained at once, on all devices together
    packing: float  # ticks of the best packing there could be, over those of this one
    memory: Memory  # of each device


class Setup(NamedTuple):
    mesh: Mesh | None
    legs: NDArray[np.int64]  # server steps between which nothing is seen of the run
    carry: Carry
    feed: Feed
    advance: jax.stages.Compiled
    works: list[Work]
    every: TestData
    some: TestData  # for the points on the way
    start: Start


def set_up(
    task: Task,
    trials: Sequence[Trial],
    algorithm: Algorithm,
    local: Local,
    *,
    stops: Sequence[int],
    weigh: Weigh,
    lanes: int | None,
    devices: int | None,
    curve_examples: int | None,
) -> Setup:
    check(task)
    check_local(local)
    check_contract(task, algorithm)
    for trial in trials:
        _check_clients(task, trial.schedule)
    mesh = meshes.mesh_of(devices)
    each = [
        rows_of(trial.schedule, algorithm.settles, seed=trial.seed, teachers=algorithm.teachers)
        for trial in trials
    ]
    joint = join(each)
    jobs = _jobs(task, joint.rows, local, weigh)
    seeds = np.array([seed_word(trial.seed) for trial in trials])
    params = first_models(task, seeds)
    jobs = jobs._replace(weight=jobs.weight.astype(jnp.result_type(*jax.tree.leaves(params))))
    legs = legs_of(stops, len(trials))
    load = Load(joint.trial, joint.rows.version, np.maximum(jobs.steps, 1), legs, len(trials))
    carry = server_step.start(algorithm, params, joint.rows.slots, int(legs[-1]), mesh)
    data = on_device(task, mesh, local.label_skew)
    if data.counts is not None and data.counts.ndim == 2:
        jobs = jobs._replace(client=joint.rows.client)
    seeds = meshes.on_all(mesh, seeds)
    every = metrics.test_data(task, mesh=mesh)
    some = every if curve_examples is None else metrics.test_data(task, curve_examples, mesh)
    works = [_work(rows, jobs.steps[joint.trial == trial]) for trial, rows in enumerate(each)]

    def built(width: int) -> Setup:
        packing = pack(load, width)
        feed = Feed(meshes.on_all(mesh, table_of(joint, packing, jobs)), data, seeds)
        advance = engine.program(task, algorithm, local, carry, feed, mesh)
        models = 1 + len(algorithm.others)
        start = Start(
            device=jax.devices()[0].device_kind,
            devices=meshes.size(mesh),
            trials=len(trials),
            models=models,
            lanes=width,
            packing=packing.efficiency,
            memory=_memory(task, carry, feed, advance, every, some, mesh, models),
        )
        return Setup(mesh, legs, carry, feed, advance, works, every, some, start)

    setup = built(_width(lanes, load, mesh))
    while not lanes and (width := _narrower(setup.start)) < setup.start.lanes:
        del setup  # its table would count as memory that others use
        setup = built(width)
    check_fits(setup.start.memory)
    return setup


def _jobs(task: Task, rows: Rows, local: Local, weigh: Weigh) -> Jobs:
    """What each row trains on, and the weight of its report."""
    size = task.population.examples[rows.client]
    steps = np.where(size > 0, local_steps(rows.examples, local, rows.cut), 0)
    weight = weigh(Reports(rows.staleness, size, steps, rows.step, rows.before))
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise BadInput("weights of reports must be finite and not negative")
    return Jobs(size, task.offsets[rows.client], steps, weight)


def _width(lanes: int | None, load: Load, mesh: Mesh | None) -> int:
    devices = meshes.size(mesh)
    width = lanes or default_lanes(load, devices)
    if width % devices:
        raise BadInput(f"lanes={width}; expected a multiple of the {devices} devices")
    return width


def _check_clients(task: Task, schedule: Schedule) -> None:
    if schedule.clients != task.population.clients:
        raise BadInput(
            f"a schedule of {schedule.clients} clients, but task {task.name} has "
            f"{task.population.clients}; make it with the task's own population"
        )


def first_models(task: Task, seeds: NDArray[np.uint32]) -> Params:
    """w0 of every trial; one by one, since `vmap` would change its last bits."""
    init = jax.jit(task.model.init)
    models = [init(jax.random.key(seed)) for seed in seeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *models)


def default_lanes(load: Load, devices: int = 1) -> int:
    """One lane a core on a CPU, where nested loops are fastest; else what makes the run shortest.

    More lanes than a leg's total over its longest way only wait, and a tick costs in proportion to
    a device's lanes + a constant.
    """
    if jax.default_backend() == "cpu" or not len(load.cost):
        return devices
    cohorts = np.zeros((load.trials, int(load.legs[-1])), np.int64)
    np.add.at(cohorts, (load.trial, load.version), 1)
    at_once = int(cohorts.max(axis=1).sum())
    each = np.arange(1, min(-(-at_once // devices), MOST_LANES) + 1)
    lanes, (total, way) = devices * each, lengths(load)
    ticks = np.array([np.maximum(-(-total // width), way).sum() for width in lanes])
    return int(lanes[np.argmin(ticks * (each + TICK_COST))])


def _narrower(start: Start) -> int:
    """As many as the device has memory for, if a program takes so much for each; one at least."""
    lanes, memory = start.lanes, start.memory
    room = device_bytes() - memory.training + memory.program
    if memory.program <= room:
        return lanes
    each = min(lanes // start.devices - 1, lanes * room // memory.program // start.devices)
    return start.devices * max(each, 1)


def _work(rows: Rows, steps: NDArray[np.int64]) -> Work:
    done = np.concatenate([[0], np.cumsum(steps)])
    sound = np.concatenate([[0], np.cumsum(rows.corrupt == 0)])
    late = np.concatenate([[0], rows.late])
    return Work(rows.begin.astype(np.int64), sound[rows.begin], done[rows.begin], late)


def _memory(
    task: Task,
    carry: Carry,
    feed: Feed,
    advance: jax.stages.Compiled,
    every: TestData,
    some: TestData,
    mesh: Mesh | None,
    models: int,
) -> Memory:
    devices = meshes.size(mesh)
    params = jax.eval_shape(task.model.init, jax.random.key(0))
    tests = {id(test): test for test in (every, some)}.values()
    model = jax.tree.map(lambda leaf: _placed_like(carry.finite, leaf), params)
    evaluation = max(temporaries(metrics.program(task, model, test, mesh)) for test in tests)
    known = {
        "state": tree_bytes(carry.server),
        "buckets": tree_bytes(carry.buckets) // devices,
        "data": tree_bytes(feed.data) + sum(map(tree_bytes, tests)) // devices,
        "schedule": tree_bytes(feed.table),
    }
    now, most = in_use()
    return Memory(
        **known,
        # What is evaluated is a copy, and the last one of each is kept until the next is there.
        program=feed.seed.size * models * tree_bytes(params)
        + max(temporaries(advance), evaluation + tree_bytes(params)),
        other=max(now - sum(known.values()), 0),
        preparing=most,
    )


def _placed_like(array: jax.Array, leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=array.sharding)
