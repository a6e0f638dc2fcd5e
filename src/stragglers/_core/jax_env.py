"""What must be said before jax is loaded: threads, and where compiled programs are kept.

On a CPU a run's `threads` train clients side by side. Each thread is a device of its own (see
simulator/device_mesh.py) and computes its products alone: XLA splits products by the size of its
thread pool, so results would otherwise depend on the machine and not on a setting of the run.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from stragglers._core.errors import BadInput

POOL, DEVICES = "PJRT_NPROC", "JAX_NUM_CPU_DEVICES"
# How much of an accelerator's memory a process takes, by its new and its old name; for all of them.
FRACTIONS, SHARED = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"), 0.9
ACCELERATORS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "libtpu")


def on_accelerator() -> bool:
    """Without asking jax, which would take the device."""
    return os.environ.get("JAX_PLATFORMS") != "cpu" and any(map(find_spec, ACCELERATORS))


def check(threads: int) -> None:
    """Refuses a number of threads that the environment contradicts."""
    if on_accelerator():
        return
    pool, devices = (os.environ.get(name) for name in (POOL, DEVICES))
    if pool not in (None, "1"):
        raise BadInput(f"the environment says {POOL}={pool}, expected 1 or nothing; unset it")
    if devices is not None and not (devices.isdecimal() and int(devices) >= threads):
        raise BadInput(f"threads={threads}, but the environment says {DEVICES}={devices}; unset it")


def prepare(threads: int, processes: int = 1) -> None:
    """Settles the pool size and turns the persistent compilation cache on.

    An accelerator's memory is shared by so many `processes`, each of which would take most of it.
    What fits alone may then need fewer lanes, or not fit.
    """
    check(threads)
    if processes > 1 and on_accelerator() and not any(map(os.environ.get, FRACTIONS)):
        os.environ[FRACTIONS[0]] = f"{SHARED / processes:.3f}"
    os.environ.setdefault(DEVICES, str(threads))  # of the CPU, if an accelerator is not there
    if not on_accelerator():  # there the pool only compiles, and the more threads the better
        os.environ.setdefault(POOL, "1")
    if "jax" in sys.modules:
        return  # its user has settled both already
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "programs"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


def cache_folder() -> Path:
    """For what can be made again: $STRAGGLERS_CACHE, or stragglers in $XDG_CACHE_HOME, ~/.cache."""
    if given := os.environ.get("STRAGGLERS_CACHE"):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stragglers"
