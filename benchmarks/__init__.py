"""What must be said before jax is loaded is said here: a CPU has a device for each core."""

import os

from stragglers._core import jax_env

CORES = len(os.sched_getaffinity(0))
jax_env.prepare(CORES)
