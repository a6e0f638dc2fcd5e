"""Bits that do not depend on the machine, with a convolutional model of EMNIST's size."""

import hashlib
import os
import subprocess
import sys

import pytest

CODE = """
import hashlib, os, sys
cores, every = int(sys.argv[1]), int(sys.argv[2])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
import jax, numpy as np, optax
from stragglers.algorithms.base import with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.planning.latency import PER_DOMAIN, latency
from tests.support.plans import over_selected
from stragglers.simulator.local_training import Local
from stragglers.simulator.simulate import simulate
from stragglers.tasks.glyphs import glyphs
from stragglers.tasks.models.cnn import cnn

task = glyphs(writers=8)._replace(model=cnn())
delay = latency(task.population, PER_DOMAIN, seed=0, epochs=0.3)
plan = over_selected(8, delay, seed=0, goal=2, cohort=4, updates=6, late_rounds=2)
server = with_ema(fare_dust(optax.adam(0.01), k=2), 0.5)
result = simulate(task, plan, server, Local(0.05, 20, distillation=0.5), seed=1,
                  devices=2, evaluate_at=range(0, plan.steps + 1, every))
digest = hashlib.sha256()
for leaf in jax.tree.leaves((result.params, result.model)):
    digest.update(np.asarray(leaf).tobytes())
print(digest.hexdigest(), result.curve[-1].metrics["total_loss"])
"""


def run(cores, every, cache):
    environment = {
        **os.environ,
        "PJRT_NPROC": "1",
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(cores), str(every)],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.slow
def test_cores_and_evaluation_change_no_bit(tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores to compare one with two")
    first = run(cores=2, every=3, cache=tmp_path)
    assert run(cores=2, every=1, cache=tmp_path) == first
    assert run(cores=1, every=3, cache=tmp_path) == first
    assert first[0] != hashlib.sha256(b"").hexdigest()
