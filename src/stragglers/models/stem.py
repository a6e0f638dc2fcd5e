"""The EMNIST network up to its pooled image, in kernels for NVIDIA GPUs that write no patches.

    h     = relu(conv(x, w1) + b1)          3x3 VALID, images [batch, side, side, 1]
    y     = pool(conv(h, w2))               3x3 VALID, then the maximum of 2x2
    dw2   = sum over pooled pixels  window(h)^T dy at the place that was the maximum
    dh    = sum over taps           dy w2^T
    dw1   = sum over pixels         window(x)^T (dh where h > 0)

A convolution as patches and a matrix product writes each pixel nine times, and on an H200 that is
where two thirds of a training step go. Here a program loads the 4x4 window of 64 pooled pixels once
and uses every piece in up to four products, which stay in registers until the maximum is taken;
which of the four it was is kept in a byte. dh is used where it is made and never written.

Under `vmap` every lane has its own weights: the lane becomes an axis of the grid.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from stragglers import kernels
from stragglers.models.layers import Layer, convolution

TILE = 64  # pixels of one program: the height of a Hopper matrix instruction
# Pixels that a step of the sum for dw2 takes: nine sums and their operands then fit the registers,
# and the next step's loads run ahead. On an H200 0.44 ms for 100 lanes instead of 0.71 with 64.
STRIDE = 32
PLACES = [(a, b) for a in (0, 1) for b in (0, 1)]  # of a 2x2 pool
WINDOW = [(i, j) for i in range(4) for j in range(4)]  # that a pool of 3x3 windows sees
# Programs that share the sum over pixels of one lane: few make less to add up, but a device wants
# some hundred in all (an H200 takes 0.20 ms for 27 lanes with 5 each).
CHUNKS, PROGRAMS = 5, 540


def serves(x: jax.Array) -> bool:
    """Whether images are for these kernels: not in precisions that have no matrix instructions."""
    return (
        kernels.run_here() and x.dtype != jnp.float64 and _precision() not in ("float32", "highest")
    )


def _precision() -> str | None:
    return jax.config.jax_default_matmul_precision  # pyright: ignore


@jax.custom_vjp
def stem(first: Layer, kernel: jax.Array, x: jax.Array) -> jax.Array:
    """pool(conv(relu(conv(x, first)), kernel)); no gradient flows into the images."""
    return _forward(first, kernel, x)[0]


def _forward(first: Layer, kernel: jax.Array, x: jax.Array) -> tuple[jax.Array, tuple[Any, ...]]:
    h = jax.nn.relu(convolution(first, x))
    y, place = pooled(kernel, h)
    return y, (x, h, kernel, place)


def _backward(kept: tuple[Any, ...], dy: jax.Array) -> tuple[Layer, jax.Array, jax.Array]:
    x, h, kernel, place = kept
    first, bias = first_gradient(x, h, kernel, dy, place)
    return (
        {"kernel": first, "bias": bias},
        kernel_gradient(h, dy, place),
        jnp.zeros_like(x),
    )


stem.defvjp(_forward, _backward)


def pooled(w: jax.Array, h: jax.Array) -> tuple[jax.Array, jax.Array]:
    """pool(conv(h, w)), and which place of each pool was the maximum, as [pixels, channels]."""
    batch, side, _, inputs = h.shape
    half, outputs = side // 2 - 1, w.shape[-1]
    count = batch * half * half
    tiles = pl.cdiv(count, TILE)
    out = pl.BlockSpec((TILE, outputs), lambda t: (t, 0))
    y, place = kernels.call(
        partial(_pooled, side=side, count=count),
        grid=(tiles,),
        out_specs=[out, out],
        out_shape=[
            jax.ShapeDtypeStruct((tiles * TILE, outputs), h.dtype),
            jax.ShapeDtypeStruct((tiles * TILE, outputs), jnp.int8),
        ],
    )(h.reshape(-1, inputs), w.reshape(9, inputs, outputs).swapaxes(1, 2))
    return y[:count].reshape(batch, half, half, outputs), place[:count]


def _pooled(h_ref: Any, w_ref: Any, y_ref: Any, place_ref: Any, *, side: int, count: int) -> None:
    outputs, inputs = w_ref.shape[1:]
    corner, _, _ = _windows(pl.program_id(0), TILE, side, count)
    sums = [jnp.zeros((TILE, outputs), jnp.float32) for _ in PLACES]
    for i, j in WINDOW:
        seen = triton.load(h_ref.at[_rows(corner + (i * side + j), inputs)])
        for which, (a, b) in enumerate(PLACES):
            if _tap(i - a, j - b):
                sums[which] += _dot(seen, w_ref[3 * (i - a) + j - b], trans_b=True)
    best, place = sums[0], jnp.zeros((TILE, outputs), jnp.int32)
    for which in (1, 2, 3):
        place = jnp.where(sums[which] > best, which, place)
        best = jnp.maximum(best, sums[which])
    y_ref[...] = best.astype(y_ref.dtype)
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
    parts = kernels.call(
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
        corner, pixel, real = _windows(chunk * tiles + t, STRIDE, side, count)
        dy, place = _pulled_back(dy_ref, place_ref, pixel, real)
        at = [jnp.where(place == which, dy, jnp.zeros_like(dy)) for which in range(4)]
        for i, j in WINDOW:
            seen = triton.load(h_ref.at[_rows(corner + (i * side + j), inputs)])
            for which, (a, b) in enumerate(PLACES):
                if _tap(i - a, j - b):
                    total[3 * (i - a) + j - b] += _dot(at[which], seen, trans_a=True)
        return tuple(total)

    zeros = tuple(jnp.zeros((outputs, inputs), jnp.float32) for _ in range(9))
    for tap, total in enumerate(jax.lax.fori_loop(0, tiles, tile, zeros)):
        out_ref[0, tap] = total


def first_gradient(
    x: jax.Array, h: jax.Array, w: jax.Array, dy: jax.Array, place: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """dw1 and db1: the bias is a tenth tap that sees ones."""
    batch, side, _, inputs = h.shape
    outputs = w.shape[-1]
    count = batch * (side // 2) ** 2
    tiles = pl.cdiv(count, TILE)
    parts = kernels.call(
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
    x_ref: Any, h_ref: Any, w_ref: Any, dy_ref: Any, place_ref: Any, out_ref: Any,
    *, side: int, count: int,
) -> None:  # fmt: skip
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
            dy, place = _pulled_back(dy_ref, place_ref, pixel, there)
            for which, (a, b) in enumerate(PLACES):
                at = jnp.where(place == which, dy, jnp.zeros_like(dy))
                for mine, (c, d) in enumerate(PLACES):
                    i, j = c + 2 * du - a, d + 2 * dv - b
                    if _tap(i, j):
                        sums[mine] += _dot(at, w_ref[3 * i + j], trans_b=True)
    total = jnp.zeros((16, inputs), jnp.float32)
    tap = jnp.arange(16)
    for mine, (c, d) in enumerate(PLACES):
        row, column = 2 * u + c, 2 * v + d
        h = triton.load(h_ref.at[_rows((image * side + row) * side + column, inputs)])
        dh = jnp.where(h > 0, sums[mine], 0).astype(h.dtype)
        corner = (image * (side + 2) + row) * (side + 2) + column
        seen = corner[:, None] + jnp.where(tap < 9, tap // 3 * (side + 2) + tap % 3, 0)[None]
        x = triton.load(x_ref.at[seen])
        x = jnp.where(tap[None] < 9, x, jnp.where(tap[None] == 9, 1.0, 0.0).astype(x.dtype))
        x = jnp.where(real[:, None], x, jnp.zeros_like(x))
        total += _dot(x, dh, trans_a=True)
    out_ref[0] = total


def _windows(tile: Any, size: int, side: int, count: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Of a tile's pooled pixels: where their windows begin, their numbers, which are real."""
    half = side // 2 - 1
    pixel = tile * size + jnp.arange(size)
    real, pixel = pixel < count, jnp.minimum(pixel, count - 1)
    image, place = pixel // half**2, pixel % half**2
    return (image * side + 2 * (place // half)) * side + 2 * (place % half), pixel, real


def _pulled_back(
    dy_ref: Any, place_ref: Any, pixel: jax.Array, real: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """dy of pooled pixels, zero where they are not real, and the place of each maximum."""
    index = _rows(pixel, dy_ref.shape[1])
    mask = jnp.broadcast_to(real[:, None], (real.size, dy_ref.shape[1]))
    return triton.load(dy_ref.at[index], mask=mask, other=0), triton.load(
        place_ref.at[index]
    ).astype(jnp.int32)


def _rows(row: jax.Array, width: int) -> tuple[jax.Array, jax.Array]:
    return row[:, None], jnp.arange(width)[None]


def _tap(i: int, j: int) -> bool:
    return 0 <= i < 3 and 0 <= j < 3


def _dot(a: jax.Array, b: jax.Array, trans_a: bool = False, trans_b: bool = False) -> jax.Array:
    """TF32 instructions read both operands along the sum: give them so, or they are turned."""
    return triton.dot(a, b, trans_a=trans_a, trans_b=trans_b, allow_tf32=True)
