"""The EMNIST network up to its pooled image, in the form that a CPU runs fastest.

    h     = relu(conv(x, w1) + b1)                 3x3 VALID, images [batch, side, side, 1]
    y     = pool(conv(h, w2))                      3x3 VALID, then the maximum of 2x2

The second convolution is Winograd's F(2x2, 3x3): a 4x4 tile d of h gives the outputs of one pool,

    Y     = A ((G w G') * (B d B')) A'             ' is the transpose, * goes entry by entry

with 16 products over the channels where the plain form has 36; the pool is the maximum of Y's four
entries. Patches would be 9 values for each pixel of h; tiles are 4.

Two images at a time stay in a core's own cache from the first convolution to the last sum, so the
backward pass makes them again instead of reading them from memory. On one core that takes 14 ms for
20 images and back where the plain form takes 32. Rounding errors are about those of the plain form.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import chain

import jax
import jax.numpy as jnp

from stragglers import trees
from stragglers.models.layers import Layer, convolution

IMAGES = 2  # at a time

Matrix = Sequence[Sequence[float]]
Grid = list[list[jax.Array]]

INPUT: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))  # B
KERNEL: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))  # G
OUTPUT: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))  # A


def serves(x: jax.Array) -> bool:
    """Whether images are for this form: on a CPU, and with digits to spare for sums of tiles."""
    return jax.default_backend() == "cpu" and x.dtype != jnp.bfloat16


@jax.custom_vjp
def stem(first: Layer, kernel: jax.Array, x: jax.Array) -> jax.Array:
    """pool(conv(relu(conv(x, first)), kernel)); no gradient flows into the images."""
    pooled = jax.lax.map(lambda some: _few(first, kernel, some), _in_parts(x))
    return pooled.reshape(-1, *pooled.shape[2:])


def _forward(
    first: Layer, kernel: jax.Array, x: jax.Array
) -> tuple[jax.Array, tuple[Layer, jax.Array, jax.Array]]:
    return stem(first, kernel, x), (first, kernel, x)


def _backward(
    kept: tuple[Layer, jax.Array, jax.Array], dy: jax.Array
) -> tuple[Layer, jax.Array, jax.Array]:
    first, kernel, x = kept

    def add(
        total: tuple[Layer, jax.Array], part: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[Layer, jax.Array], None]:
        some, dy = part
        _, pull_back = jax.vjp(lambda first, kernel: _few(first, kernel, some), first, kernel)
        return trees.add(total, pull_back(dy)), None

    start = trees.zeros_like((first, kernel))
    total, _ = jax.lax.scan(add, start, (_in_parts(x), _in_parts(dy)))
    return *total, jnp.zeros_like(x)


stem.defvjp(_forward, _backward)


def _few(first: Layer, kernel: jax.Array, x: jax.Array) -> jax.Array:
    """The stem of a few images."""
    h = jax.nn.relu(convolution(first, x))
    images, side, _, inputs = h.shape
    half, outputs = side // 2 - 1, kernel.shape[-1]
    tile = [
        [h[:, i : i + 2 * half : 2, j : j + 2 * half : 2].reshape(-1, inputs) for j in range(4)]
        for i in range(4)
    ]
    taps = [[kernel[i, j] for j in range(3)] for i in range(3)]
    left, right = _sandwich(INPUT, tile), _sandwich(KERNEL, taps)
    products = [[left[i][j] @ right[i][j] for j in range(4)] for i in range(4)]
    corners = _sandwich(OUTPUT, products)
    return reduce(jnp.maximum, chain(*corners)).reshape(images, half, half, outputs)


def _sandwich(matrix: Matrix, grid: Grid) -> Grid:
    """matrix @ grid @ matrix', over arrays as entries."""
    half = [[_combined(row, column) for column in zip(*grid, strict=True)] for row in matrix]
    return [[_combined(row, entries) for row in matrix] for entries in half]


def _combined(weights: Sequence[float], arrays: Sequence[jax.Array]) -> jax.Array:
    terms = [w * a for w, a in zip(weights, arrays, strict=True) if w]
    return reduce(jnp.add, terms)


def _in_parts(x: jax.Array) -> jax.Array:
    images = IMAGES if x.shape[0] % IMAGES == 0 else 1
    return x.reshape(-1, images, *x.shape[1:])
