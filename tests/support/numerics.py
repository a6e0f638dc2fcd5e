"""What the tests of the models share."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stragglers.tasks.models.base import Model


def parameters(model: Model) -> int:
    """How many numbers the model has, without drawing them."""
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def output(model: Model, x: jax.ShapeDtypeStruct) -> tuple[int, ...]:
    """The shape of the logits, without computing them."""
    params = jax.eval_shape(model.init, jax.random.key(0))
    return jax.eval_shape(lambda p, x: model.apply(p, x, None), params, x).shape


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Trees of arrays agree to `tolerance`, relative to the largest value of each leaf."""
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True)
    for a, b in pairs:
        scale = max(1e-30, float(np.abs(b).max()))
        np.testing.assert_allclose(np.asarray(a) / scale, np.asarray(b) / scale, atol=tolerance)


def drawn(model: Model, dtype: Any = np.float32) -> Any:
    """Weights by NumPy (compiling `init` takes longer), none of them zero, so that all count."""
    rng = np.random.default_rng(1)

    def leaf(shape: tuple[int, ...]) -> np.ndarray:
        deviation = math.prod(shape[:-1]) ** -0.5 if len(shape) > 1 else 0.5
        return (deviation * rng.normal(size=shape)).astype(dtype)

    shapes = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda p: leaf(p.shape), shapes)


def check_gradient(model: Model, x: np.ndarray, labels: np.ndarray, key: Any = None) -> None:
    """The gradient of the mean cross-entropy is its slope along random directions, in float64."""
    params = drawn(model, np.float64)

    def loss(params, x):
        logits = jax.nn.log_softmax(model.apply(params, x, key))
        return -jnp.take_along_axis(logits, jnp.asarray(labels)[..., None], axis=-1).mean()

    with jax.enable_x64(True):
        evaluate = jax.jit(jax.value_and_grad(loss))  # compiled once, for the differences too
        gradient = jax.tree.map(np.asarray, evaluate(params, x)[1])
        rng = np.random.default_rng(2)
        step = 1e-8  # short: a ReLU that switches on the way is an error in proportion to it
        for _ in range(3):
            # A direction of each parameter's own size, so that small layers count too.
            direction = jax.tree.map(
                lambda p: (np.std(p) + 0.01) * rng.normal(size=p.shape), params
            )
            ahead = jax.tree.map(lambda p, d: p + step * d, params, direction)
            behind = jax.tree.map(lambda p, d: p - step * d, params, direction)
            difference = float(evaluate(ahead, x)[0]) - float(evaluate(behind, x)[0])
            computed = sum(jax.tree.leaves(jax.tree.map(np.vdot, gradient, direction)))
            np.testing.assert_allclose(computed, difference / (2 * step), rtol=1e-5, atol=1e-6)
