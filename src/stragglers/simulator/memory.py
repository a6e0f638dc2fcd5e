"""What fits: sizes told before anything is allocated, or before the first step."""

from typing import Any, NamedTuple

import jax

from stragglers._core.errors import BadInput
from stragglers._core.memory_limits import machine_bytes, readable


class Memory(NamedTuple):
    """Bytes that training needs on each device at most, part by part."""

    state: int  # servers: weights, optimizers, histories
    buckets: int  # sums in flight
    data: int  # training and test examples
    schedule: int
    program: int  # temporaries of the larger one, training or evaluation; models to evaluate
    other: int  # in use besides: libraries, what an allocator rounds up, arrays of somebody else
    preparing: int  # the most that was in use so far: compilers try kernels out; 0 if unknown

    @property
    def total(self) -> int:
        return max(self.training, self.preparing)

    @property
    def training(self) -> int:
        return sum(self[:-1])

    def __str__(self) -> str:
        sizes = {name: size for name, size in self._asdict().items() if size}
        parts = ", ".join(f"{name} {readable(size)}" for name, size in sizes.items())
        return f"{readable(self.total)} ({parts})"


def tree_bytes(tree: Any) -> int:
    """Of arrays, or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def in_use() -> tuple[int, int]:
    """Bytes of the first device, now and at most until now; 0 where it does not tell."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("bytes_in_use", 0), stats.get("peak_bytes_in_use", 0)


def device_bytes() -> int:
    """Memory of each device that training runs on; those of a CPU share the machine's."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("bytes_limit") or machine_bytes() // jax.local_device_count()


def check_fits(memory: Memory) -> None:
    """Refuses a run that the device cannot hold."""
    if memory.total > (there := device_bytes()):
        raise BadInput(
            f"training needs {memory}, the device has {readable(there)}; "
            "lower lanes, or the number of trials or models together"
        )


def check_history(rows: int, model: Any) -> None:
    """Refuses a teacher history that cannot fit."""
    _check_models("a history", rows, model, "lower schedule.late_rounds")


def check_buckets(rows: int, model: Any) -> None:
    """Refuses sums in flight that cannot fit, such as the reports that an algorithm remembers."""
    _check_models("sums in flight", rows, model, "lower updates, or the number of trials together")


def _check_models(what: str, rows: int, model: Any, remedy: str) -> None:
    needed, there = rows * tree_bytes(model), device_bytes()
    if needed > 0.8 * there:
        raise BadInput(
            f"{what} of {rows} models of {tree_bytes(model) / 2**20:,.0f} MiB: "
            f"{needed / 2**30:,.1f} GiB, the device has {there / 2**30:,.1f}; {remedy}"
        )
