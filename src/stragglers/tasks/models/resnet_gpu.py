"""GroupNorm, ReLU and a 3x3 convolution's patches in one kernel, there and back, on NVIDIA GPUs.

    n         = (x - mean) / sqrt(variance + epsilon)      per image and group of channels
    h         = relu(scale * n + bias)
    patch[q]  = h[q + tap] for each of nine taps           zero outside the image (SAME, stride 1)

    dn        = where(h > 0, sum over taps of dpatch, 0)
    dscale    = sum dn n,   dbias = sum dn                 over pixels, then over images
    g         = scale * dn
    dx        = (g - mean(g) - n * mean(g n)) / sqrt(variance + epsilon)

A convolution of the ResNet is these patches and one large matrix product. In the plain form what
is around the products takes 3.0 of a training step's 7.3 ms on an H200, a third of that the writing
of patches, at half the memory's speed. Here a program keeps all pixels of one image and group in
its registers: every patch is written once, and on the way back read once.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from stragglers.tasks.models import layers, pallas
from stragglers.tasks.models.layers import EPSILON, Layer

TAPS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
# Of one image's group: below a row of 128 bytes memory is read in vain, above a program is full.
NARROWEST, LARGEST = 32, 2**14


def convolution(norm: Layer, layer: Layer, x: jax.Array, groups: int, stride: int) -> jax.Array:
    """conv(relu(group_norm(x))), SAME, by these kernels where they serve."""
    if not serves(layer, x, groups, stride):
        x = jax.nn.relu(layers.group_norm(norm, x, groups))
        return layers.convolution(layer, x, stride=stride, padding="SAME")
    seen: Any = patches(groups, norm["scale"], norm["bias"], x)
    return layers.dense({"kernel": layer["kernel"].reshape(seen.shape[-1], -1)}, seen)


def serves(layer: Layer, x: jax.Array, groups: int, stride: int) -> bool:
    """Whether an image and group is of a size for these kernels."""
    width = x.shape[-1] // groups
    fits = width >= NARROWEST and _pixels(x) * width <= LARGEST and width & (width - 1) == 0
    return (
        pallas.run_here()
        and fits
        and stride == 1
        and layer["kernel"].shape[:2] == (3, 3)
        and x.shape[1] == x.shape[2]
        and x.dtype != jnp.float64
    )


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def patches(groups: int, scale: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
    """[batch, side, side, channels] -> [batch, side, side, 9 * channels]."""
    batch, side, _, channels = x.shape
    shape = (batch * side * side, 9 * channels)
    out = pallas.call(
        partial(_patches, side=side, groups=groups, pixels=_pixels(x)),
        grid=(batch, groups),
        out_specs=pallas.whole(shape),
        out_shape=jax.ShapeDtypeStruct(shape, x.dtype),
        warps=_warps(x, groups),
    )(scale, bias, x.reshape(-1, channels))
    return out.reshape(batch, side, side, 9 * channels)


def _there(
    groups: int, scale: jax.Array, bias: jax.Array, x: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return patches(groups, scale, bias, x), (scale, bias, x)


def _back(
    groups: int, kept: tuple[jax.Array, ...], d: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    scale, bias, x = kept
    batch, side, _, channels = x.shape
    shapes = [(batch * side * side, channels), (batch, channels), (batch, channels)]
    dtypes = [x.dtype, jnp.float32, jnp.float32]
    dx, dscale, dbias = pallas.call(
        partial(_pulled_back, side=side, groups=groups, pixels=_pixels(x)),
        grid=(batch, groups),
        out_specs=[pallas.whole(shape) for shape in shapes],
        warps=_warps(x, groups),
        out_shape=[jax.ShapeDtypeStruct(*each) for each in zip(shapes, dtypes, strict=True)],
    )(scale, bias, x.reshape(-1, channels), d.reshape(-1, 9 * channels))
    return dscale.sum(0).astype(scale.dtype), dbias.sum(0).astype(bias.dtype), dx.reshape(x.shape)


patches.defvjp(_there, _back)


def _patches(
    scale_ref: Any, bias_ref: Any, x_ref: Any, out_ref: Any, *, side: int, groups: int, pixels: int
) -> None:
    normal, _, row, channel, real = _normal(x_ref, side, groups, pixels)
    scale, bias = (_load(ref, channel) for ref in (scale_ref, bias_ref))
    h = jnp.maximum(normal * scale[None] + bias[None], 0)
    for tap, (i, j) in enumerate(TAPS):
        sees, inside = _seen_from(row, side, i, j)
        value = jnp.where(inside[:, None], h, 0).astype(out_ref.dtype)
        place = out_ref.at[_place(sees, tap * x_ref.shape[1] + channel)]
        triton.store(place, value, mask=real)


def _pulled_back(
    scale_ref: Any,
    bias_ref: Any,
    x_ref: Any,
    d_ref: Any,
    dx_ref: Any,
    dscale_ref: Any,
    dbias_ref: Any,
    *,
    side: int,
    groups: int,
    pixels: int,
) -> None:
    normal, deviation, row, channel, real = _normal(x_ref, side, groups, pixels)
    scale, bias = (_load(ref, channel) for ref in (scale_ref, bias_ref))
    dn = jnp.zeros(normal.shape, jnp.float32)
    for tap, (i, j) in enumerate(TAPS):
        sees, inside = _seen_from(row, side, i, j)
        place = d_ref.at[_place(sees, tap * x_ref.shape[1] + channel)]
        dn += triton.load(place, mask=real & inside[:, None], other=0).astype(jnp.float32)
    dn = jnp.where(normal * scale[None] + bias[None] > 0, dn, 0)
    image = pl.program_id(0)
    triton.store(dscale_ref.at[image, channel], jnp.sum(dn * normal, axis=0))
    triton.store(dbias_ref.at[image, channel], jnp.sum(dn, axis=0))
    g, size = dn * scale[None], side * side * channel.size
    dx = g - jnp.sum(g) / size - normal * (jnp.sum(g * normal) / size)
    triton.store(dx_ref.at[_place(row, channel)], (dx * deviation).astype(dx_ref.dtype), mask=real)


def _normal(
    x_ref: Any, side: int, groups: int, pixels: int
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """n of this program's image and group, 1 / deviation, its rows and channels, which are real."""
    width = x_ref.shape[1] // groups
    pixel = jnp.arange(pixels)
    row = pl.program_id(0) * side * side + pixel
    channel = pl.program_id(1) * width + jnp.arange(width)
    real = jnp.broadcast_to((pixel < side * side)[:, None], (pixels, width))
    x = triton.load(x_ref.at[_place(row, channel)], mask=real, other=0).astype(jnp.float32)
    size = side * side * width
    centred = jnp.where(real, x - jnp.sum(x) / size, 0)
    deviation = jax.lax.rsqrt(jnp.sum(jnp.square(centred)) / size + EPSILON)
    return centred * deviation, deviation, row, channel, real


def _seen_from(row: jax.Array, side: int, i: int, j: int) -> tuple[jax.Array, jax.Array]:
    """The row whose tap (i, j) sees this one, and whether it does.

    Rows at the border see a neighbour on the other side instead, and find zero there: so for each
    tap every row is named once.
    """
    pixel = row % (side * side)
    up, left = pixel // side - i, pixel % side - j
    inside = (up >= 0) & (up < side) & (left >= 0) & (left < side)
    up = jnp.where(up < 0, up + side, jnp.where(up >= side, up - side, up))
    left = jnp.where(left < 0, left + side, jnp.where(left >= side, left - side, left))
    return row - pixel + up * side + left, inside


def _load(ref: Any, channel: jax.Array) -> jax.Array:
    return triton.load(ref.at[channel]).astype(jnp.float32)


def _place(row: jax.Array, column: jax.Array) -> tuple[jax.Array, jax.Array]:
    return row[:, None], column[None]


def _pixels(x: jax.Array) -> int:
    """Of an image, up to a power of two: what a program can hold."""
    return pl.next_power_of_2(x.shape[1] * x.shape[2])


def _warps(x: jax.Array, groups: int) -> int:
    """Enough that a thread has 16 to 32 values in registers: on an H200 the fastest, or next to."""
    return 4 if _pixels(x) * x.shape[-1] // groups <= 2**12 else 16
