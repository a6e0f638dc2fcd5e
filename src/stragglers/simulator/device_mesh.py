"""Several devices: clients are split over them, and servers are the same on each.

    clients -> lanes -> devices          each trains its own lanes, in its own loops
    a bucket = sum over devices          of what each has added to its part of it
    server step                          every device makes the same one, from the same sums

A CPU is one device for each of the run's `threads`: a core that trains a whole client keeps it in
its own cache, where cores that share each small product would wait for each other.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from stragglers._core.errors import BadInput

Tree = TypeVar("Tree")

AXIS = "device"
SAME, SPLIT = PartitionSpec(), PartitionSpec(AXIS)


def mesh_of(devices: int | None = None) -> Mesh | None:
    """The first `devices` of this process (default: all, of a CPU one); None if that is one."""
    there = jax.local_devices()
    if devices is None:
        devices = 1 if jax.default_backend() == "cpu" else len(there)
    if devices > len(there):
        raise BadInput(
            f"devices={devices}, but this process has {len(there)}; on a CPU, set "
            f"JAX_NUM_CPU_DEVICES={devices} before jax is loaded"
        )
    chosen = there[:devices]
    return Mesh(np.array(chosen), (AXIS,)) if len(chosen) > 1 else None


def size(mesh: Mesh | None) -> int:
    return mesh.size if mesh else 1


def on_all(mesh: Mesh | None, tree: Any) -> Any:
    """The same arrays on every device; on a CPU without a copy, where their memory allows it."""
    if mesh is None:
        return jax.tree.map(jax.device_put, tree)

    def one(array: Any) -> jax.Array:
        copies = [jax.device_put(array, device) for device in mesh.devices.flat]
        sharding = NamedSharding(mesh, SAME)
        return jax.make_array_from_single_device_arrays(array.shape, sharding, copies)

    return jax.tree.map(one, tree)


def split(mesh: Mesh | None, tree: Any) -> Any:
    """Arrays cut along their first axis, a piece for each device."""
    if mesh is None:
        return jax.tree.map(jax.device_put, tree)
    return jax.device_put(tree, NamedSharding(mesh, SPLIT))


def everywhere(
    mesh: Mesh | None, function: Callable[..., Any], arguments: Any, results: Any
) -> Callable[..., Any]:
    """A function that each device runs on its pieces; specs say which are pieces."""
    if mesh is None:
        return function
    # Loops of different length on different devices are what this is for; nothing to check there.
    return jax.shard_map(
        function, mesh=mesh, in_specs=arguments, out_specs=results, check_vma=False
    )


def total(mesh: Mesh | None, tree: Tree) -> Tree:
    """The sum over devices, on each of them, inside `everywhere`."""
    return tree if mesh is None else jax.lax.psum(tree, AXIS)


def number(mesh: Mesh | None) -> jax.Array | int:
    """Which device this is, inside `everywhere`."""
    return 0 if mesh is None else jax.lax.axis_index(AXIS)
