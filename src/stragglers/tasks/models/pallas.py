"""What our Pallas kernels for NVIDIA GPUs share: where they run, and how they are called."""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

INTERPRET = False  # tests set it, and need no GPU


@cache
def run_here() -> bool:
    """Whether the device can run them: an NVIDIA GPU from Ampere on."""
    device = jax.devices()[0]
    capability = getattr(device, "compute_capability", "0")
    return device.platform == "gpu" and "NVIDIA" in device.device_kind and float(capability) >= 8


def call(
    kernel: Any,
    *,
    grid: tuple[int, ...],
    out_specs: Any,
    out_shape: Any,
    warps: int = 4,
    stages: int = 1,
    in_place: Mapping[int, int] | None = None,
) -> Any:
    """A kernel that sees its arguments whole; `in_place`: which argument becomes which result."""

    def called(*arrays: jax.Array) -> Any:
        return pl.pallas_call(
            kernel,
            grid=grid,
            in_specs=[whole(a.shape) for a in arrays],
            out_specs=out_specs,
            out_shape=out_shape,
            input_output_aliases=dict(in_place or {}),
            compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
            interpret=INTERPRET,
        )(*arrays)

    return called


def whole(shape: tuple[int, ...]) -> pl.BlockSpec:
    return pl.BlockSpec(shape, partial(lambda n, *_: (0,) * n, len(shape)))
