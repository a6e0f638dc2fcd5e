"""A disk that fails at its n-th call, and a run that keeps it busy without training anything.

Calls are those that change something, or that are needed to: os.open, mkdir, rename, fsync and so
on, writes to files that Python or safetensors has open. A write that fails leaves half of what it
should have written, as a full disk does.
"""

import errno
import io
import os
import shutil
from contextlib import contextmanager
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from stragglers.runs import curve, recorder
from stragglers.runs.train import Prepared
from stragglers.simulator.events import ChunkEnded, Evaluated, Finished, Snapshot
from stragglers.simulator.memory import Memory
from stragglers.simulator.prepare import Start
from stragglers.simulator.trial_state import Point, Result, TrialState

CODES = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "EACCES": errno.EACCES, "killed": None}
METRICS = [name for name in curve.COLUMNS if name not in Point._fields]
OS_CALLS = ("open", "mkdir", "chmod", "rename", "replace", "fsync", "unlink", "rmdir")


class Killed(BaseException):
    """The process is gone; whatever it would do to clean up does nothing."""


class Disk:
    def __init__(self, failing: int, code: int | None) -> None:
        self.failing, self.code = failing, code
        self.calls = 0

    @property
    def failed(self) -> bool:
        return self.calls >= self.failing

    def call(self, half=lambda: None) -> None:
        """Fails here if it is time, after `half` of the work."""
        self.calls += 1
        if self.code is None and self.calls > self.failing:
            raise Killed
        if self.calls == self.failing:
            half()
            raise Killed if self.code is None else OSError(self.code, os.strerror(self.code))


class _Written:
    """A file whose writes go to a disk that may fail."""

    def __init__(self, file, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, content):
        self._disk.call(lambda: self._file.write(content[: len(content) // 2]))
        return self._file.write(content)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()


@contextmanager
def failing(call: int, code: int | None):
    """The disk fails at this call: with an error, or because the process is killed there.

    Nothing waits for a real disk: fsync is counted, not made.
    """
    disk = Disk(call, code)

    def counted(function):
        def wrapped(*arguments, **options):
            disk.call()
            return function(*arguments, **options)

        return wrapped

    def opened(file, mode="r", *arguments, **options):
        if mode.strip("bt") == "r":
            return io_open(file, mode, *arguments, **options)
        disk.call()
        return _Written(io_open(file, mode, *arguments, **options), disk)

    def save_file(arrays, path):
        content = safetensors.numpy.save(arrays)
        with io_open(path, "wb") as file:
            try:
                disk.call(lambda: file.write(content[: len(content) // 2]))
            except OSError as error:
                raise safetensors.SafetensorError(f"I/O error: {error.strerror}") from None
            file.write(content)

    io_open = io.open
    with pytest.MonkeyPatch.context() as patch:
        for name in OS_CALLS:
            patch.setattr(os, name, counted(_no_sync if name == "fsync" else getattr(os, name)))
        patch.setattr(io, "open", opened)
        patch.setattr(safetensors.numpy, "save_file", save_file)
        yield disk


def _no_sync(handle) -> None:
    del handle


def spoil(how, newest, before, rng):
    """Damages the newest checkpoint; `before` is the one before."""
    names = sorted(path.name for path in newest.iterdir())
    path = newest / rng.choice(names)
    match how:
        case "flipped":
            content = bytearray(path.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            path.write_bytes(content)
        case "truncated":
            path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])
        case "missing":
            path.unlink()
        case "extra":
            (newest / "more.safetensors").write_bytes(path.read_bytes())
        case "from another":  # the same file of the checkpoint before
            path.write_bytes((before / path.name).read_bytes())
        case "swapped":  # two files of one checkpoint
            other = newest / rng.choice([name for name in names if name != path.name])
            mine, theirs = path.read_bytes(), other.read_bytes()
            path.write_bytes(theirs)
            other.write_bytes(mine)
        case "named as another":
            shutil.rmtree(newest)
            before.rename(newest)


# A run that is all checkpoints and evaluations.

STEPS = 4
W = {"w": jnp.ones(50, jnp.float32)}  # made here: compiling it calls the disk, too
START = Start("cpu", 1, 1, 1, 1, 1.0, Memory(1, 1, 1, 1, 1, 0, 0))
FACTS = {
    "versions": {"stragglers": "0", "jax": "0", "jaxlib": "0"},
    "device": {"platform": "cpu", "kind": "cpu", "threads": 1},
    "data": {"task": "glyphs", "origin": "a test", "checksum": "0" * 64},
    "schedule": {"server_steps": STEPS},
}


class _Simulation:
    start, steps = START, STEPS

    def first(self):
        return Snapshot(0, 0.0, W, (TrialState(W),))

    def events(self, snapshot):
        step, wall_s, carry, (state,) = snapshot
        for stop in range(2, STEPS + 1, 2)[len(state.curve) :]:
            while step < stop:
                carry = {"w": 1.5 * np.asarray(carry["w"]) + step + 1}
                step, wall_s, state = step + 1, wall_s + 1, state._replace(trained=step + 1)
                yield ChunkEnded(Snapshot(step, wall_s, carry, (state,)))
            metrics = dict.fromkeys(METRICS, 1 / float(carry["w"][0]))  # w > 1
            point = Point(step, float(step), step, step, step, wall_s, 0, 0, 1, metrics)
            state = state._replace(model=carry, curve=(*state.curve, point))
            yield Evaluated(point)
        yield Finished(Result(state.curve, carry, state.model, step, 0, None, START))


@contextmanager
def untrained():
    """Recording writes all that it writes, of a run that takes no time."""
    fingerprint = {"format": 1, "seeds": [0], "jax": "0"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            recorder,
            "prepare",
            lambda experiment, together: Prepared(experiment, None, SimpleNamespace(steps=STEPS)),
        )
        patch.setattr(recorder, "_facts", lambda trial: FACTS)
        patch.setattr(recorder, "_fingerprint", lambda *_: fingerprint)
        patch.setattr(recorder.train, "simulation", lambda trials: _Simulation())
        yield
