import fcntl
import gc
import hashlib
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

# As `stragglers run` has it, with a second device for those who ask for it.
os.environ.setdefault("PJRT_NPROC", "1")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")

from tests.support import command, kept_programs

os.environ.update(kept_programs.environment())

import jax
import pytest
from hypothesis import Phase, settings

from stragglers._core import jax_env
from stragglers.simulator import programs

pytest.register_assert_rewrite(
    "tests.support.timetables", "tests.support.every"
)  # they compare, and say how

# The same examples on every machine: a failure in one place is a failure everywhere.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.load_profile("ci")
# For benchmarks/mutants.py: that a test fails is enough, the smallest example is not looked for.
settings.register_profile(
    "hasty", derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate]
)


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # once, not in each process of pytest-xdist
        kept_programs.tidy(kept_programs.folder())


MAPS = Path("/proc/self/maps")  # a compiled program has several; Linux allows some 65,000
MOST_MAPS, EVERY = 25_000, 20  # tests, between two looks
_ended = itertools.count(1)


@pytest.fixture(autouse=True)
def room_for_programs():
    """Lets go of compiled programs before there are so many that the compiler crashes."""
    yield
    if next(_ended) % EVERY == 0 and MAPS.exists():
        with MAPS.open("rb") as maps:
            many = sum(1 for _ in maps) > MOST_MAPS
        if many:
            programs.forget()
            gc.collect()


@pytest.fixture
def interruptible():
    """Ctrl-C ends this process and its children, also where `nohup make test &` ignores it."""
    with command.sigint(signal.default_int_handler):
        yield


@pytest.fixture
def on_cpu(monkeypatch):
    """As where no accelerator's plugin is installed, whether one is or not."""
    monkeypatch.setattr(jax_env, "find_spec", lambda name: None)


@pytest.fixture
def hasty_compiler():
    """For tests that compile much and run it for a few steps."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """A folder with real files in their public layouts; skips where there are none.

    They are unpacked once, outside the repository, from shared/data beside it (or from
    $STRAGGLERS_SHARED/data).
    """
    beside = Path(__file__).resolve().parents[2] / "shared"
    source = Path(os.environ.get("STRAGGLERS_SHARED") or beside) / "data"
    if not (source / "unpack.py").exists():
        pytest.skip(f"no real data: {source} has no unpack.py (STRAGGLERS_SHARED may name another)")
    files = sorted((path.name, path.stat().st_size) for path in source.iterdir())
    version = hashlib.sha256(repr(files).encode()).hexdigest()[:16]
    folder = kept_programs.caches() / version
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:  # tests may run side by side
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = folder.with_suffix(".part")
            subprocess.run([sys.executable, source / "unpack.py", part], check=True)
            part.rename(folder)
    return folder
