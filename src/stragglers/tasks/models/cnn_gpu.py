"""The EMNIST network up to its pooled image, in kernels for NVIDIA GPUs that write no patches.

    h     = relu(conv(x, w1) + b1)                     3x3 VALID, images [batch, side, side, 1]
    y     = dropout(relu(pool(conv(h, w2)) + b2))      3x3 VALID, then the maximum of 2x2
    d     = dy / (1 - rate) where y > 0                neither dropped nor negative
    dw2   = sum over pooled pixels  window(h)^T d at the place that was the maximum
    dh    = sum over taps           d w2^T
    dw1   = sum over pixels         window(x)^T (dh where h > 0)

A convolution as patches and a matrix product writes each pixel nine times, and on an H200 that is
where two thirds of a training step go. `pooling.py` has y and dw2, this file the rest: dh is used
where it is made and never written.

Under `vmap` every lane has its own weights: the lane becomes an axis of the grid.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from stragglers.tasks.models import pallas
from stragglers.tasks.models.cnn_gpu_pool import (
    PLACES,
    TILE,
    dot,
    is_tap,
    kernel_gradient,
    pooled,
    pulled_back,
    rows,
)
from stragglers.tasks.models.layers import Layer

WIDE = 128  # where it only reads nine and writes


def serves(x: jax.Array) -> bool:
    """Whether images are for these kernels: not in precisions that have no matrix instructions."""
    return (
        pallas.run_here() and x.dtype != jnp.float64 and _precision() not in ("float32", "highest")
    )


def _precision() -> str | None:
    return jax.config.jax_default_matmul_precision  # pyright: ignore


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def stem(
    rate: float, first: Layer, second: Layer, words: jax.Array | None, x: jax.Array
) -> jax.Array:
    """y; without a key's words nothing is dropped. No gradient flows into the images."""
    return _forward(rate, first, second, words, x)[0]


def _forward(
    rate: float, first: Layer, second: Layer, words: jax.Array | None, x: jax.Array
) -> tuple[jax.Array, tuple[Any, ...]]:
    h = activated(first, x)
    y, place = pooled(second, h, words, rate)
    return y, (x, h, second["kernel"], words, place, y)


def _backward(
    rate: float, kept: tuple[Any, ...], dy: jax.Array
) -> tuple[Layer, Layer, None, jax.Array]:
    x, h, kernel, words, place, y = kept
    d = jnp.where(y > 0, dy if words is None else dy / (1 - rate), jnp.zeros_like(dy))
    first, bias = first_gradient(x, h, kernel, d, place)
    return (
        {"kernel": first, "bias": bias},
        {"kernel": kernel_gradient(h, d, place), "bias": d.sum((0, 1, 2))},
        None,
        jnp.zeros_like(x),
    )


stem.defvjp(_forward, _backward)


def activated(first: Layer, x: jax.Array) -> jax.Array:
    """h."""
    batch, size = x.shape[:2]
    side, channels = size - 2, first["bias"].size
    shape = (batch * side**2, channels)
    taps = jnp.pad(first["kernel"].reshape(9, channels), ((0, 7), (0, 0)))  # up to a power of two
    h = pallas.call(
        partial(_activated, side=side),
        grid=(pl.cdiv(shape[0], WIDE),),
        out_specs=pallas.whole(shape),
        out_shape=jax.ShapeDtypeStruct(shape, x.dtype),
    )(x.reshape(-1), taps.T, first["bias"])
    return h.reshape(batch, side, side, channels)


def _activated(x_ref: Any, w_ref: Any, bias_ref: Any, h_ref: Any, *, side: int) -> None:
    count, channels = h_ref.shape
    place = pl.program_id(0) * WIDE + jnp.arange(WIDE)
    pixel = jnp.minimum(place, count - 1)
    image, row, column = pixel // side**2, pixel % side**2 // side, pixel % side
    seen = _seen(x_ref, (image * (side + 2) + row) * (side + 2) + column, side)
    h = dot(seen, w_ref[...], trans_b=True) + bias_ref[...][None].astype(jnp.float32)
    mask = jnp.broadcast_to((place < count)[:, None], (WIDE, channels))
    triton.store(h_ref.at[rows(place, channels)], jnp.maximum(h, 0).astype(h_ref.dtype), mask=mask)


def first_gradient(
    x: jax.Array, h: jax.Array, w: jax.Array, dy: jax.Array, place: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """dw1 and db1: the bias is a tenth tap that sees ones."""
    batch, side, _, inputs = h.shape
    outputs = w.shape[-1]
    count = batch * (side // 2) ** 2
    tiles = pl.cdiv(count, TILE)
    parts = pallas.call(
        partial(_first_gradient, side=side, count=count),
        grid=(tiles,),
        out_specs=pl.BlockSpec((1, 16, inputs), lambda t: (t, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((tiles, 16, inputs), jnp.float32),
    )(
        x.reshape(-1),
        h.reshape(-1, inputs),
        w.reshape(9, inputs, outputs),
        dy.reshape(-1, outputs),
        place,
    )
    total = parts.sum(0).astype(h.dtype)
    return total[:9].reshape(3, 3, 1, inputs), total[9]


def _first_gradient(
    x_ref: Any,
    h_ref: Any,
    w_ref: Any,
    dy_ref: Any,
    place_ref: Any,
    out_ref: Any,
    *,
    side: int,
    count: int,
) -> None:
    inputs = h_ref.shape[1]
    half, blocks = side // 2 - 1, side // 2  # a program takes 64 blocks of 2x2 pixels of h
    block = pl.program_id(0) * TILE + jnp.arange(TILE)
    real, block = block < count, jnp.minimum(block, count - 1)
    image, u, v = block // blocks**2, block % blocks**2 // blocks, block % blocks
    sums = [jnp.zeros((TILE, inputs), jnp.float32) for _ in PLACES]
    for du in (0, 1):
        for dv in (0, 1):  # the pools whose windows reach this block
            there = real & (u >= du) & (u - du < half) & (v >= dv) & (v - dv < half)
            pixel = jnp.where(there, (image * half + u - du) * half + v - dv, 0)
            dy, place = pulled_back(dy_ref, place_ref, pixel, there)
            for which, (a, b) in enumerate(PLACES):
                at = jnp.where(place == which, dy, jnp.zeros_like(dy))
                for mine, (c, d) in enumerate(PLACES):
                    i, j = c + 2 * du - a, d + 2 * dv - b
                    if is_tap(i, j):
                        sums[mine] += dot(at, w_ref[3 * i + j], trans_b=True)
    total = jnp.zeros((16, inputs), jnp.float32)
    for mine, (c, d) in enumerate(PLACES):
        row, column = 2 * u + c, 2 * v + d
        h = triton.load(h_ref.at[rows((image * side + row) * side + column, inputs)])
        dh = jnp.where(h > 0, sums[mine], 0).astype(h.dtype)
        x = _seen(x_ref, (image * (side + 2) + row) * (side + 2) + column, side)
        x = jnp.where(real[:, None], x, jnp.zeros_like(x))
        total += dot(x, dh, trans_a=True)
    out_ref[0] = total


def _seen(x_ref: Any, corner: jax.Array, side: int) -> jax.Array:
    """[pixels, 16]: the nine pixels of x from a corner on, a one for the bias, zeros."""
    tap = jnp.arange(16)
    place = corner[:, None] + jnp.where(tap < 9, tap // 3 * (side + 2) + tap % 3, 0)[None]
    x = triton.load(x_ref.at[place])
    return jnp.where(tap[None] < 9, x, jnp.where(tap[None] == 9, 1.0, 0.0).astype(x.dtype))
