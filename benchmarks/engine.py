"""The engine against the bare loop that it cannot beat, and where the time goes, on this device.

    python -m benchmarks.engine                      what this kind of device should be measured on
    python -m benchmarks.engine --model cnn|mlp|resnet|lstm [--clients N] [--mean N] [--trials N]
                                [--rounds N] [--lanes N] [--bfloat16]
                                [--sizes equal|log-normal|heavy-tailed]

CPU: examples/s of the engine (FedAvg, whole server steps) over those of one jitted SGD loop over
the same number of batches, on one core. Accelerator: time of the bare `vmap`ped step at that width,
times the fewest ticks that any packing needs, over the engine's time. Equal and log-normal
(sigma = 1) sizes; only real examples are counted. Interleaved and repeated, medians.

The second line says what a whole run spends where, for one server step: its share of the schedule,
of packing and of moving data to the device, its training, what the engine adds to that (handing
over, averaging, the server's step), and an evaluation of 2,000 examples. The third compares the
arithmetic of training with what the device reaches in one large matrix product.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.work import TAILS, TESTED, WORK, made_up_task, sizes_of
from stragglers.algorithms.base import Download
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning.latency import Draw
from stragglers.planning.training_rows import rows_of
from stragglers.simulator import engine, metrics, server_step
from stragglers.simulator.device_table import Jobs, table_of
from stragglers.simulator.local_training import (
    Data,
    Local,
    LocalJob,
    LocalSteps,
    Trained,
    local_steps,
    local_steps_of,
    on_device,
)
from stragglers.simulator.packing import Load, pack
from stragglers.simulator.prepare import default_lanes
from stragglers.simulator.together import join, legs_of
from tests.support.plans import over_selected


class Case(NamedTuple):
    model: str
    clients: int  # a server step
    mean: int  # examples a client
    trials: int = 1  # in one program
    sizes: str | None = None  # one of them alone
    bfloat16: bool = False


CPU = [Case("cnn", 10, 100)]
ACCELERATOR = [
    Case("cnn", 50, 200),
    Case("cnn", 200, 200),
    Case("cnn", 50, 200, 10),
    Case("cnn", 200, 200, 1, "equal", True),
    Case("resnet", 20, 100, 1, "equal"),
    Case("resnet", 20, 100, 2, "equal"),
    Case("resnet", 20, 100, 1, "equal", True),
    Case("lstm", 50, 300),
    Case("lstm", 50, 300, 1, "heavy-tailed"),
    Case("lstm", 50, 300, 10, "heavy-tailed"),
]


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = jax.block_until_ready(run())
    return result, time.perf_counter() - began


def measure(case: Case, sizes: np.ndarray, options: argparse.Namespace) -> None:
    batch = WORK[case.model].batch
    client, algorithm = Local(0.05, batch, bfloat16=case.bfloat16), fedavg(optax.sgd(1.0))
    task = made_up_task(sizes, case.model)
    rounds = options.rounds or (5 if jax.default_backend() == "cpu" else 20)

    def draw(first: Any, who: Any) -> Draw:
        return Draw(np.ones(len(who)), sizes[who])

    plans, schedule_s = timed(
        lambda: [
            over_selected(
                len(sizes),
                draw,
                seed=trial,
                goal=case.clients,
                cohort=case.clients,
                updates=case.clients * rounds,
            )
            for trial in range(case.trials)
        ]
    )
    began = time.perf_counter()
    joint = join([rows_of(plan, "never", seed=trial) for trial, plan in enumerate(plans)])
    rows = joint.rows
    mine, steps = sizes[rows.client], local_steps(rows.examples, client, rows.cut)
    legs = legs_of([rounds], case.trials)
    load = Load(joint.trial, rows.version, np.maximum(steps, 1), legs, case.trials)
    lanes = options.lanes or default_lanes(load)
    packing = pack(load, lanes)
    packing_s = time.perf_counter() - began
    jobs = Jobs(mine, task.offsets[rows.client], steps, np.ones(len(steps), np.float32))
    seeds = np.arange(case.trials, dtype=np.uint32)
    feed, moving_s = timed(
        lambda: engine.Feed(table_of(joint, packing, jobs), on_device(task), jnp.asarray(seeds))
    )
    params = jax.jit(task.model.init)(jax.random.key(0))
    bare = bare_loop(local_steps_of(task.lesson, client), lanes, len(task.x))
    # As many ticks as the best packing could do: on a CPU, all batches one after another.
    ticks = int(packing.bound.sum())

    def start() -> server_step.Carry:
        each = jax.tree.map(lambda w: jnp.stack([w] * case.trials), params)
        return server_step.start(algorithm, each, rows.slots, rounds)

    program, compile_s = timed(lambda: engine.program(task, algorithm, client, start(), feed))

    def whole() -> Any:  # a run starts once: what that takes is no part of a server step
        carry = jax.block_until_ready(start())
        return timed(lambda: program(carry, feed, np.int32(0), np.int32(len(legs) - 1)))

    def loop() -> Any:
        return bare(feed.data, params, ticks)

    test = metrics.test_data(task)
    for warm_up in (whole, loop, lambda: metrics.evaluate(task, params, test)):
        timed(warm_up)  # compiles
    times = [(timed(loop)[1], whole()[1]) for _ in range(options.repeats)]
    evaluation_s = min(timed(lambda: metrics.evaluate(task, params, test))[1] for _ in range(3))
    floor, ours = median(t[0] for t in times), median(t[1] for t in times)
    ratios = sorted(b / w for b, w in times)
    rate, limit = mine.sum() * WORK[case.model].flop / ours, product_rate(case.bfloat16)
    ms = {
        "schedule": schedule_s,
        "packing": packing_s,
        "moving data": moving_s,
        "training": min(floor, ours),
        "aggregation": max(ours - floor, 0.0),
    }
    print(
        f"  {lanes} lanes, {len(steps):,} clients, {int(mine.sum()):,} examples, "
        f"{int(steps.sum()):,} local steps, packing {packing.efficiency:.1%} of its bound\n"
        f"  engine {ours:.2f} s = {len(steps) / ours:,.0f} clients/s, "
        f"{mine.sum() / ours:,.0f} examples/s; bare loop {floor:.2f} s; "
        f"share of the bound: {floor / ours:.1%} ({ratios[0]:.1%} to {ratios[-1]:.1%})\n"
        f"  ms a server step: {', '.join(f'{k} {1e3 * v / rounds:.2f}' for k, v in ms.items())}; "
        f"an evaluation of {TESTED:,} examples {1e3 * evaluation_s:.1f}; compiled in "
        f"{compile_s:.1f} s\n"
        f"  {rate / 1e12:.2f} TFLOP/s, {rate / limit:.1%} of a large matrix product's "
        f"{limit / 1e12:.2f}",
        flush=True,
    )


def bare_loop(local: LocalSteps, lanes: int, examples: int) -> Callable[..., Any]:
    """Local steps and nothing else: (data, params, ticks) -> what every lane has trained."""

    def alone(t: jax.Array, w: Any, batch: Any, job: LocalJob, params: Any, data: Data) -> Any:
        sent = Download(params, params)
        w = local.step(data, jnp.uint32(0), sent, job, t, w, batch)
        return w, local.batch(jnp.uint32(0), job, t + 1)

    @jax.jit
    def bare(data: Data, params: Any, ticks: jax.Array) -> Any:
        job = LocalJob(*(jnp.int32(n) for n in (1, 0, examples, 0, 0)))
        w, batch, step = (
            Trained(params, local.begin(params)),
            local.batch(jnp.uint32(0), job, jnp.int32(0)),
            alone,
        )
        if lanes > 1:
            w, batch, job = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf, (lanes, *leaf.shape)), (w, batch, job)
            )
            job = job._replace(dispatch=jnp.arange(lanes))  # each draws for itself
            step = jax.vmap(alone, in_axes=(None, 0, 0, 0, None, None))
        return jax.lax.fori_loop(
            0, ticks, lambda t, carry: step(t, carry[0], carry[1], job, params, data), (w, batch)
        )[0]

    return bare


def product_rate(bfloat16: bool) -> float:
    """FLOP/s of one large matrix product, at the precision of training."""
    side = 1024 if jax.default_backend() == "cpu" else 8192
    x = jnp.ones((side, side), jnp.bfloat16 if bfloat16 else jnp.float32)
    product = jax.jit(jnp.matmul)
    timed(lambda: product(x, x))
    return 2 * side**3 / min(timed(lambda: product(x, x))[1] for _ in range(10))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=list(WORK))
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--mean", type=int, default=100)
    parser.add_argument("--trials", type=int, default=1, help="in one program")
    parser.add_argument("--sizes", choices=("equal", *TAILS), help="one of them alone")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--rounds", type=int, help="server steps; 5 on a CPU, else 20")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lanes", type=int)
    options = parser.parse_args()
    cases = CPU if jax.default_backend() == "cpu" else ACCELERATOR
    if options.model:
        cases = [Case(*(getattr(options, name) for name in Case._fields))]
    print(jax.devices()[0].device_kind)
    for case in cases:
        for name in (case.sizes,) if case.sizes else ("equal", "log-normal"):
            print(
                f"{case.model}{' in bfloat16' if case.bfloat16 else ''}, {case.clients} "
                f"clients a step x {case.trials} trials, {case.mean} examples a client, "
                f"{name} sizes"
            )
            measure(case, sizes_of(20 * case.clients, case.mean, name), options)


if __name__ == "__main__":
    main()
