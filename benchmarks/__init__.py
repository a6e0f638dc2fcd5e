"""What must be said before jax is loaded is said here: a CPU has a device for each core."""

import os

from stragglers import device

CORES = len(os.sched_getaffinity(0))
device.prepare(CORES)
