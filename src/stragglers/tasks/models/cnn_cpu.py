"""The EMNIST network up to its pooled image, in the form that a CPU runs fastest.

    h     = relu(conv(x, w1) + b1)                 3x3 VALID, images [batch, side, side, 1]
    y     = pool(conv(h, w2))                      3x3 VALID, then the maximum of 2x2

The second convolution is Winograd's F(2x2, 3x3): a 4x4 tile d of h gives the outputs of one pool,

    Y     = A (K * D) A'            D = B d B',  K = G w2 G';  ' is the transpose, * goes entry by
    dK    = sum over tiles D' P     entry and in each is a product over channels
    dD    = P K'                    P = A' dY A;  dY is dy at the place of the maximum, else 0

with 16 products over the channels where the plain form has 36; the pool is the maximum of Y's four
entries. Patches would be 9 values for each pixel of h; tiles are 4.

Two images at a time stay in a core's own cache from the first convolution to the last sum, so the
backward pass makes D again instead of reading it from memory; of Y it needs the places alone. Even
and odd rows and columns of h make four images of their own, in which a tile is 2x2 neighbours:
no sum reads or writes with a stride. On one core that takes 11 ms for 20 images and back where the
plain form takes 28. Rounding errors are about those of the plain form.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import chain
from typing import Any

import jax
import jax.numpy as jnp

from stragglers.algorithms import trees
from stragglers.tasks.models.layers import Layer, dense

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
    return _forward(first, kernel, x)[0]


def _forward(
    first: Layer, kernel: jax.Array, x: jax.Array
) -> tuple[jax.Array, tuple[Layer, jax.Array, jax.Array, jax.Array]]:
    factors = _factors(kernel)

    def few(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        tiles = _tiles(first, x)
        products = [[tiles[i][j] @ factors[i][j] for j in range(4)] for i in range(4)]
        return _largest(list(chain(*_sandwich(OUTPUT, products))))

    y, place = jax.lax.map(few, _in_parts(x))
    half = x.shape[1] // 2 - 2
    return y.reshape(len(x), half, half, -1), (first, kernel, x, place)


def _backward(
    kept: tuple[Layer, jax.Array, jax.Array, jax.Array], dy: jax.Array
) -> tuple[Layer, jax.Array, jax.Array]:
    first, kernel, x, place = kept
    factors, to_kernel = jax.vjp(_factors, kernel)

    def add(total: tuple[Layer, Grid], part: tuple[jax.Array, ...]) -> Any:
        x, dy, place = part
        tiles, to_first = jax.vjp(lambda first: _tiles(first, x), first)
        corner = [jnp.where(place == at, dy, jnp.zeros_like(dy)) for at in range(4)]
        pulled = _sandwich(_transposed(OUTPUT), [corner[:2], corner[2:]])
        dfactors = [[tiles[i][j].T @ pulled[i][j] for j in range(4)] for i in range(4)]
        dtiles = [[pulled[i][j] @ factors[i][j].T for j in range(4)] for i in range(4)]
        return trees.add(total, (*to_first(dtiles), dfactors)), None

    start = trees.zeros_like((first, factors))
    parts = _in_parts(x), dy.reshape(place.shape), place
    (dfirst, dfactors), _ = jax.lax.scan(add, start, parts)
    return dfirst, *to_kernel(dfactors), jnp.zeros_like(x)


stem.defvjp(_forward, _backward)


def _factors(kernel: jax.Array) -> Grid:
    """K: 4x4 of [in, out]."""
    return _sandwich(KERNEL, [[kernel[i, j] for j in range(3)] for i in range(3)])


def _tiles(first: Layer, x: jax.Array) -> Grid:
    """D of a few images: 4x4 of [pools, channels]."""
    half = x.shape[1] // 2 - 1  # pixels of h with rows and columns of one parity
    w = first | {"kernel": first["kernel"].reshape(9, -1)}

    def pixels(row: int, column: int) -> jax.Array:
        seen = [
            x[:, i : i + 2 * half : 2, j : j + 2 * half : 2]
            for i in range(row, row + 3)
            for j in range(column, column + 3)
        ]
        return jax.nn.relu(dense(w, jnp.concatenate(seen, axis=-1)))

    h = [[pixels(row, column) for column in range(2)] for row in range(2)]
    tile = [
        [h[i % 2][j % 2][:, i // 2 :, j // 2 :][:, : half - 1, : half - 1] for j in range(4)]
        for i in range(4)
    ]
    return [[d.reshape(-1, d.shape[-1]) for d in row] for row in _sandwich(INPUT, tile)]


def _largest(arrays: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
    """The maximum, entry by entry, and which of the arrays has it; of several the first."""
    best, place = arrays[0], jnp.zeros(arrays[0].shape, jnp.int8)
    for number, array in enumerate(arrays[1:], 1):
        place = jnp.where(array > best, jnp.int8(number), place)
        best = jnp.maximum(best, array)
    return best, place


def _sandwich(matrix: Matrix, grid: Grid) -> Grid:
    """matrix @ grid @ matrix', over arrays as entries."""
    half = [[_combined(row, column) for column in zip(*grid, strict=True)] for row in matrix]
    return [[_combined(row, entries) for row in matrix] for entries in half]


def _transposed(matrix: Matrix) -> Matrix:
    return list(zip(*matrix, strict=True))


def _combined(weights: Sequence[float], arrays: Sequence[jax.Array]) -> jax.Array:
    terms = [w * a for w, a in zip(weights, arrays, strict=True) if w]
    return reduce(jnp.add, terms)


def _in_parts(x: jax.Array) -> jax.Array:
    images = IMAGES if x.shape[0] % IMAGES == 0 else 1
    return x.reshape(-1, images, *x.shape[1:])
