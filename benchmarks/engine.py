"""The engine against the bare loop that it cannot beat, on this machine's device.

    python -m benchmarks.engine [--clients N] [--rounds N] [--lanes N] [--trials N] [--mean N]
                                [--model cnn|mlp|resnet] [--bfloat16]

CPU: examples/s of the engine (FedAvg, whole server steps) over those of one jitted SGD loop over
the same number of batches. Accelerator: time of the bare `vmap`ped step at that width, times the
fewest ticks that any packing needs, over the engine's time. Equal and log-normal (sigma = 1) sizes;
only whole batches of real examples are counted. Interleaved and repeated, medians.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from stragglers import engine
from stragglers.algorithms.base import Download
from stragglers.algorithms.fedavg import fedavg
from stragglers.client import Client, Data, Job, local_sgd, local_steps
from stragglers.lanes import pack
from stragglers.latency import Draw
from stragglers.models.cnn import cnn
from stragglers.models.mlp import mlp
from stragglers.models.resnet import resnet
from stragglers.population import PAPER_GROUPS, Population
from stragglers.rows import rows_of
from stragglers.schedule import over_selected
from stragglers.setup import default_lanes
from stragglers.table import table_of
from stragglers.tasks.base import Task
from stragglers.tasks.glyphs import cross_entropy, ink, is_right
from stragglers.together import join

BATCH = 20
MODELS = {"cnn": (cnn(), (28, 28), 62), "mlp": (mlp(), (28, 28), 62),
          "resnet": (resnet(), (24, 24, 3), 100)}  # fmt: skip


def made_up_task(sizes: np.ndarray, model: str) -> Task:
    rng = np.random.default_rng(0)
    total = int(sizes.sum())
    network, shape, classes = MODELS[model]
    x = rng.integers(0, 255, (total, *shape), dtype=np.uint8)
    y = rng.integers(0, classes, total, dtype=np.int32)
    who = Population(sizes, np.zeros(len(sizes), np.int16), PAPER_GROUPS, "a benchmark")
    return Task("bench", who, x, y, np.concatenate([[0], np.cumsum(sizes)]), x[:1], y[:1],
                y[:1] < 5, network, ink, cross_entropy, is_right)  # fmt: skip


def timed(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - began


def measure(options: argparse.Namespace, sizes: np.ndarray) -> None:
    task = made_up_task(sizes, options.model)
    client = Client(0.05, BATCH, bfloat16=options.bfloat16)
    algorithm = fedavg(optax.sgd(1.0))
    plans = [
        over_selected(
            len(sizes), lambda first, who: Draw(np.ones(len(who)), sizes[who]), seed=trial,
            goal=options.clients, cohort=options.clients, updates=options.clients * options.rounds,
        )
        for trial in range(options.trials)
    ]  # fmt: skip
    rows = join([rows_of(plan, "never", seed=trial) for trial, plan in enumerate(plans)])
    mine = sizes[rows.client]
    steps = local_steps(rows.examples, client, time_limited=False)
    lanes = options.lanes or default_lanes(rows.begin, steps)
    packing = pack(rows.begin, steps, lanes)
    table = table_of(rows, packing, mine, task.offsets[rows.client], steps,
                            np.ones(len(steps), np.float32))  # fmt: skip
    params = jax.jit(task.model.init)(jax.random.key(0))
    data = Data(jnp.asarray(task.x), jnp.asarray(task.y))
    feed = engine.Feed(table, data, jnp.arange(options.trials, dtype=jnp.uint32))
    local = local_sgd(task.lesson, client)
    # As many ticks as the best packing could do: on a CPU, all batches one after another.
    ticks = int(packing.bound.sum())

    def alone(t: jax.Array, w: Any, batch: Any, job: Job, params: Any, data: Data) -> Any:
        sent = Download(params, params)
        w = local.sgd(data, jnp.uint32(0), sent, job, t, w, batch)
        return w, local.batch(jnp.uint32(0), job, t + 1)

    @jax.jit
    def bare(data: Data, params: Any, ticks: jax.Array) -> Any:
        job = Job(*(jnp.int32(n) for n in (1, 0, len(task.x), 0, 0)))
        w, batch, step = params, local.batch(jnp.uint32(0), job, jnp.int32(0)), alone
        if lanes > 1:
            w, batch = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf, (lanes, *leaf.shape)), (w, batch)
            )
            step = jax.vmap(alone, in_axes=(None, 0, 0, None, None, None))
        return jax.lax.fori_loop(
            0, ticks, lambda t, carry: step(t, carry[0], carry[1], job, params, data), (w, batch)
        )[0]

    def whole() -> Any:
        each = jax.tree.map(lambda w: jnp.stack([w] * options.trials), params)
        carry = engine.start(algorithm, each, rows.slots)
        advance = engine.program(task, algorithm, client, carry, feed)
        return advance(carry, feed, np.int32(0), np.int32(options.rounds))

    for warm_up in (whole, lambda: bare(data, params, ticks)):
        timed(warm_up)  # compiles
    times = [(timed(lambda: bare(data, params, ticks)), timed(whole))
             for _ in range(options.repeats)]  # fmt: skip
    floor, ours = median(t[0] for t in times), median(t[1] for t in times)
    ratios = sorted(b / w for b, w in times)
    print(
        f"  {lanes} lanes, {len(steps):,} clients, {int(mine.sum()):,} examples, "
        f"{int(steps.sum()):,} local steps, packing {packing.efficiency:.1%} of its bound\n"
        f"  engine {ours:.2f} s = {len(steps) / ours:,.0f} clients/s, "
        f"{mine.sum() / ours:,.0f} examples/s; bare loop {floor:.2f} s\n"
        f"  share of the bound: {floor / ours:.1%} ({ratios[0]:.1%} to {ratios[-1]:.1%})"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--trials", type=int, default=1, help="in one program")
    parser.add_argument("--mean", type=int, default=100)
    parser.add_argument("--model", choices=list(MODELS), default="cnn")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--sizes", choices=("equal", "log-normal"), help="one of them alone")
    options = parser.parse_args()
    print(f"{jax.devices()[0].device_kind}, {options.model}")
    people = 20 * options.clients
    tail = np.random.default_rng(1).lognormal(0, 1, people)
    for name, sizes in {
        "equal": np.full(people, options.mean),
        "log-normal": np.maximum(1, np.rint(options.mean * tail / tail.mean())).astype(int),
    }.items():
        if options.sizes in (None, name):
            print(f"{name} sizes")
            measure(options, sizes)


if __name__ == "__main__":
    main()
