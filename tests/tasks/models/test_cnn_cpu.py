"""Winograd's form against the plain one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models import cnn, cnn_cpu
from stragglers.tasks.models.cnn import plain

pytestmark = pytest.mark.usefixtures("hasty_compiler")
LANES, SIDE = 2, 10


def drawn(batch, dtype):
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal((LANES, *shape)), dtype)

    first = {"kernel": normal(3, 3, 1, 16), "bias": normal(16)}
    dy = normal(batch, SIDE // 2 - 1, SIDE // 2 - 1, 32)
    return (first, normal(3, 3, 16, 32) / 12, normal(batch, SIDE + 2, SIDE + 2, 1)), dy


@pytest.mark.parametrize("batch", [1, 3, 20])
def test_values_and_gradients_of_every_lane(batch):
    given, dy = drawn(batch, jnp.float32)

    def both_ways(function):
        y, pull = jax.vjp(jax.vmap(function), *given)
        return y, pull(dy)

    expected, wanted = jax.jit(both_ways, static_argnums=0)(plain)
    found, gradients = jax.jit(both_ways, static_argnums=0)(cnn_cpu.stem)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(jax.tree.leaves(gradients[:2]), jax.tree.leaves(wanted[:2]), strict=True):
        assert np.abs(b).max() > 0.1
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    assert not np.any(gradients[2])  # the images get none


def test_where_pixels_are_alike_a_pool_learns_once():
    given, dy = drawn(2, jnp.float32)
    first, kernel, x = jax.tree.map(lambda leaf: leaf[0], given)
    blank = jnp.zeros_like(x)  # nothing is drawn: all four entries of a pool are the same

    def gradient(form):
        return jax.vjp(lambda kernel: form(first, kernel, blank), kernel)[1](dy[0])[0]

    h = jnp.maximum(first["bias"], 0)
    expected = h[:, None] * dy[0].sum((0, 1, 2))  # at every tap
    for form in (plain, cnn_cpu.stem):
        np.testing.assert_allclose(
            jax.jit(gradient, static_argnums=0)(form),
            jnp.broadcast_to(expected, kernel.shape),
            rtol=1e-4,
            atol=1e-4,
        )


def test_rounding_errors_are_about_those_of_the_plain_form():
    (first, kernel, x), _ = drawn(20, jnp.float32)
    with jax.enable_x64(True):
        precise = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), (first, kernel, x))
        exact = np.asarray(jax.jit(jax.vmap(plain))(*precise))

    def error(form):
        return np.abs(np.asarray(jax.jit(jax.vmap(form))(first, kernel, x), float) - exact).max()

    assert 0 < error(cnn_cpu.stem) < 4 * error(plain) < 1e-4


def test_who_takes_it(monkeypatch):
    taken = []
    first = {"kernel": jnp.ones((3, 3, 1, 2)), "bias": jnp.zeros(2)}
    second = {"kernel": jnp.ones((3, 3, 2, 3)), "bias": jnp.zeros(3)}
    for where, name in ((cnn_cpu, "stem"), (cnn, "plain")):
        real = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, r=real, n=name: taken.append(n) or r(*a))
    images = jnp.zeros((2, 28, 28, 1))
    assert cnn.pooled(first, second, images, None).shape == (2, 12, 12, 3)
    cnn.pooled(*jax.tree.map(lambda a: a.astype(jnp.bfloat16), (first, second, images)), None)
    assert taken == ["stem", "plain"]
