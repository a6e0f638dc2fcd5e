"""What must be said before jax is loaded: threads, and where compiled programs are kept.

XLA splits long matrix products by the size of its thread pool, so on a CPU that size is a setting
of the run, not of the machine: with it equal, one core and two give the same bits.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from stragglers.errors import BadInput

ACCELERATORS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "libtpu")


def on_accelerator() -> bool:
    """Without asking jax, which would take the device."""
    return os.environ.get("JAX_PLATFORMS") != "cpu" and any(map(find_spec, ACCELERATORS))


def check(threads: int) -> None:
    """Refuses a number of threads that the environment contradicts."""
    given = os.environ.get("PJRT_NPROC", str(threads))
    if given != str(threads) and not on_accelerator():
        raise BadInput(
            f"threads={threads}, but the environment says PJRT_NPROC={given}; make them equal"
        )


def prepare(threads: int) -> None:
    """Settles the pool size and turns the persistent compilation cache on."""
    check(threads)
    if not on_accelerator():  # there the pool only compiles, and the more threads the better
        os.environ["PJRT_NPROC"] = str(threads)
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
