"""What fits: sizes told before anything is allocated."""

import os
from typing import Any

import jax

from stragglers.errors import BadInput


def tree_bytes(tree: Any) -> int:
    """Of arrays, or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def device_bytes() -> int:
    """Memory of the device that training runs on."""
    stats = jax.devices()[0].memory_stats() or {}
    return stats.get("bytes_limit") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_history(rows: int, model: Any) -> None:
    """Refuses a teacher history that cannot fit."""
    needed, there = rows * tree_bytes(model), device_bytes()
    if needed > 0.8 * there:
        raise BadInput(
            f"a history of {rows} models of {tree_bytes(model) / 2**20:,.0f} MiB needs "
            f"{needed / 2**30:,.1f} GiB, the device has {there / 2**30:,.1f}; "
            "lower schedule.late_rounds"
        )
