"""The EMNIST network's second convolution and its pool, in kernels for NVIDIA GPUs (see stem.py).

    y     = dropout(relu(pool(conv(h, w2)) + b2))      3x3 VALID, then the maximum of 2x2
    dw2   = sum over pooled pixels  window(h)^T d at the place that was the maximum

A program loads the 4x4 window of 64 pooled pixels once and uses every piece in up to four products,
which stay in registers until the maximum is taken; which of the four it was is kept in a byte.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from stragglers.tasks.models import pallas
from stragglers.tasks.models.layers import Layer, dropped

TILE = 64  # pixels of one program: the height of a Hopper matrix instruction
# Pixels that a step of the sum for dw2 takes: nine sums and their operands then fit the registers,
# and the next step's loads run ahead. On an H200 0.44 ms for 100 lanes instead of 0.71 with 64.
STRIDE = 32
PLACES = [(a, b) for a in (0, 1) for b in (0, 1)]  # of a 2x2 pool
WINDOW = [(i, j) for i in range(4) for j in range(4)]  # that a pool of 3x3 windows sees
# Programs that share the sum over pixels of one lane: few make less to add up, but a device wants
# some hundred in all (an H200 takes 0.20 ms for 27 lanes with 5 each).
CHUNKS, PROGRAMS = 5, 540


def pooled(
    second: Layer, h: jax.Array, words: jax.Array | None, rate: float
) -> tuple[jax.Array, jax.Array]:
    """y, and which place of each pool was the maximum, as [pixels, channels]; words: of a key."""
    batch, side, _, inputs = h.shape
    half, outputs = side // 2 - 1, second["bias"].size
    count = batch * half * half
    tiles = pl.cdiv(count, TILE)
    out = pl.BlockSpec((TILE, outputs), lambda t: (t, 0))
    kernel = second["kernel"].reshape(9, inputs, outputs).swapaxes(1, 2)
    y, place = pallas.call(
        partial(_pooled, side=side, count=count, rate=rate),
        grid=(tiles,),
        out_specs=[out, out],
        out_shape=[
            jax.ShapeDtypeStruct((tiles * TILE, outputs), h.dtype),
            jax.ShapeDtypeStruct((tiles * TILE, outputs), jnp.int8),
        ],
    )(h.reshape(-1, inputs), kernel, second["bias"], *(() if words is None else (words,)))
    return y[:count].reshape(batch, half, half, outputs), place[:count]


def _pooled(
    h_ref: Any, w_ref: Any, bias_ref: Any, *refs: Any, side: int, count: int, rate: float
) -> None:
    *words_ref, y_ref, place_ref = refs
    outputs, inputs = w_ref.shape[1:]
    corner, _, _ = windows(pl.program_id(0), TILE, side, count)
    sums = [jnp.zeros((TILE, outputs), jnp.float32) for _ in PLACES]
    for i, j in WINDOW:
        seen = triton.load(h_ref.at[rows(corner + (i * side + j), inputs)])
        for which, (a, b) in enumerate(PLACES):
            if is_tap(i - a, j - b):
                sums[which] += dot(seen, w_ref[3 * (i - a) + j - b], trans_b=True)
    best, place = sums[0], jnp.zeros((TILE, outputs), jnp.int32)
    for which in (1, 2, 3):
        place = jnp.where(sums[which] > best, which, place)
        best = jnp.maximum(best, sums[which])
    y = jnp.maximum(best + bias_ref[...][None].astype(jnp.float32), 0)
    if words_ref:
        pixel = pl.program_id(0) * TILE + jnp.arange(TILE)
        at = (pixel[:, None] * outputs + jnp.arange(outputs)[None]).astype(jnp.uint32)
        y = dropped(y, rate, (words_ref[0][0], words_ref[0][1]), at)
    y_ref[...] = y.astype(y_ref.dtype)
    place_ref[...] = place.astype(jnp.int8)


@custom_vmap
def kernel_gradient(h: jax.Array, dy: jax.Array, place: jax.Array) -> jax.Array:
    """dw2."""
    return _in_chunks(h, dy, place, chunks=PROGRAMS)


@kernel_gradient.def_vmap
def _of_lanes(lanes: int, mapped: list[bool], *given: jax.Array) -> tuple[jax.Array, bool]:
    form = partial(_in_chunks, chunks=max(CHUNKS, PROGRAMS // lanes))
    return jax.vmap(form, [0 if each else None for each in mapped])(*given), True


def _in_chunks(h: jax.Array, dy: jax.Array, place: jax.Array, *, chunks: int) -> jax.Array:
    batch, side, _, inputs = h.shape
    half, outputs = side // 2 - 1, dy.shape[-1]
    count = batch * half * half
    tiles = pl.cdiv(pl.cdiv(count, STRIDE), chunks)
    chunks = pl.cdiv(count, STRIDE * tiles)
    parts = pallas.call(
        partial(_kernel_gradient, side=side, count=count, tiles=tiles),
        grid=(chunks,),
        out_specs=pl.BlockSpec((1, 9, outputs, inputs), lambda c: (c, 0, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((chunks, 9, outputs, inputs), jnp.float32),
        stages=2,
    )(h.reshape(-1, inputs), dy.reshape(-1, outputs), place)
    return parts.sum(0).swapaxes(1, 2).reshape(3, 3, inputs, outputs).astype(h.dtype)


def _kernel_gradient(
    h_ref: Any, dy_ref: Any, place_ref: Any, out_ref: Any, *, side: int, count: int, tiles: int
) -> None:
    inputs, outputs = h_ref.shape[1], dy_ref.shape[1]
    chunk = pl.program_id(0)

    def tile(t: jax.Array, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        total = list(sums)
        corner, pixel, real = windows(chunk * tiles + t, STRIDE, side, count)
        dy, place = pulled_back(dy_ref, place_ref, pixel, real)
        at = [jnp.where(place == which, dy, jnp.zeros_like(dy)) for which in range(4)]
        for i, j in WINDOW:
            seen = triton.load(h_ref.at[rows(corner + (i * side + j), inputs)])
            for which, (a, b) in enumerate(PLACES):
                if is_tap(i - a, j - b):
                    total[3 * (i - a) + j - b] += dot(at[which], seen, trans_a=True)
        return tuple(total)

    zeros = tuple(jnp.zeros((outputs, inputs), jnp.float32) for _ in range(9))
    for tap, total in enumerate(jax.lax.fori_loop(0, tiles, tile, zeros)):
        out_ref[0, tap] = total


def windows(tile: Any, size: int, side: int, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Of a tile's pooled pixels: where their windows begin, their numbers, which are real."""
    half = side // 2 - 1
    pixel = tile * size + jnp.arange(size)
    real, pixel = pixel < count, jnp.minimum(pixel, count - 1)
    image, place = pixel // half**2, pixel % half**2
    return (image * side + 2 * (place // half)) * side + 2 * (place % half), pixel, real


def pulled_back(
    dy_ref: Any, place_ref: Any, pixel: jax.Array, real: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """dy of pooled pixels, zero where they are not real, and the place of each maximum."""
    index = rows(pixel, dy_ref.shape[1])
    mask = jnp.broadcast_to(real[:, None], (real.size, dy_ref.shape[1]))
    return triton.load(dy_ref.at[index], mask=mask, other=0), triton.load(
        place_ref.at[index]
    ).astype(jnp.int32)


def rows(row: jax.Array, width: int) -> tuple[jax.Array, jax.Array]:
    return row[:, None], jnp.arange(width)[None]


def is_tap(i: int, j: int) -> bool:
    return 0 <= i < 3 and 0 <= j < 3


def dot(a: jax.Array, b: jax.Array, trans_a: bool = False, trans_b: bool = False) -> jax.Array:
    """TF32 instructions read both operands along the sum: give them so, or they are turned."""
    return triton.dot(a, b, trans_a=trans_a, trans_b=trans_b, allow_tf32=True)
