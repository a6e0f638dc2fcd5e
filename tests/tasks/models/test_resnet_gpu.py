"""The ResNet's kernel for GPUs against the plain form, run by Pallas's interpreter."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models import layers, pallas, resnet_gpu
from stragglers.tasks.models.resnet import resnet
from tests.support.helpers import kernels_for_a_gpu

pytestmark = pytest.mark.usefixtures("hasty_compiler")
LANES, BATCH, SIDE = 2, 3, 6


@pytest.fixture
def on_a_gpu(monkeypatch):
    monkeypatch.setattr(pallas, "INTERPRET", True)
    monkeypatch.setattr(pallas, "run_here", lambda: True)


def drawn(channels=64, side=SIDE, outputs=5):
    rng = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(rng.standard_normal((LANES, *shape)), jnp.float32)

    norm = {"scale": 1 + normal(channels) / 4, "bias": normal(channels) / 4}
    return (
        norm,
        {"kernel": normal(3, 3, channels, outputs)},
        3 * normal(BATCH, side, side, channels),
    )


def plain(norm, layer, x):
    return layers.convolution(layer, jax.nn.relu(layers.group_norm(norm, x, 2)), padding="SAME")


@partial(jax.jit, static_argnums=0)
def both_ways(function, given, dy):
    y, pull = jax.vjp(jax.vmap(function), *given)
    return y, pull(dy)


@pytest.mark.parametrize("side", [4, 6])
def test_values_and_gradients_of_every_lane(on_a_gpu, side):
    given = drawn(side=side)
    dy = jnp.asarray(np.random.default_rng(1).standard_normal((LANES, BATCH, side, side, 5)))
    assert resnet_gpu.serves(given[1] | {"kernel": given[1]["kernel"][0]}, given[2][0], 2, 1)
    found = both_ways(lambda *a: resnet_gpu.convolution(*a, groups=2, stride=1), given, dy)
    expected = both_ways(plain, given, dy)
    assert all(np.abs(leaf).max() > 0.5 for leaf in jax.tree.leaves(expected))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, expected
    )


def test_in_half_precision(on_a_gpu):
    """The normalisation itself is computed in single precision."""
    norm, _, x = jax.tree.map(lambda a: a[0], drawn())
    exact = jax.nn.relu(layers.group_norm(norm, x, 2))
    half = resnet_gpu.patches(
        2, *(a.astype(jnp.bfloat16) for a in (norm["scale"], norm["bias"], x))
    )
    assert half.dtype == jnp.bfloat16
    middle = half.reshape(BATCH, SIDE, SIDE, 9, -1)[..., 4, :].astype(jnp.float32)
    np.testing.assert_allclose(middle, exact, rtol=0.02, atol=0.04)


@pytest.mark.parametrize("case", ["stride", "narrow", "wide", "odd", "7x7", "double"])
def test_what_it_is_not_made_for_takes_the_plain_form(on_a_gpu, case):
    norm, layer, x = jax.tree.map(lambda a: a[0], drawn())
    groups, stride = 2, 1
    if case == "stride":
        stride = 2
    elif case == "narrow":
        groups = 32
    elif case == "wide":
        x = jnp.zeros((1, 24, 24, 64))
    elif case == "odd":
        x = jnp.zeros((1, 6, 6, 96))
    elif case == "7x7":
        layer = {"kernel": jnp.zeros((7, 7, 64, 5))}
    elif case == "double":
        with jax.enable_x64(True):
            assert not resnet_gpu.serves(layer, x.astype(jnp.float64), groups, stride)
            return
    assert not resnet_gpu.serves(layer, x, groups, stride)


def test_the_network_is_the_same_with_the_kernels(monkeypatch):
    model = resnet(widths=(64,), classes=5)
    params = jax.jit(model.init)(jax.random.key(0))
    x = jnp.asarray(np.random.default_rng(0).random((2, 24, 24, 3)), jnp.float32)

    def loss(params):
        return jnp.sum(jnp.square(model.apply(params, x, None)))

    expected = jax.jit(jax.value_and_grad(loss))(params)
    monkeypatch.setattr(pallas, "INTERPRET", True)
    monkeypatch.setattr(pallas, "run_here", lambda: True)
    calls = []
    monkeypatch.setattr(
        resnet_gpu, "patches", lambda *a, real=resnet_gpu.patches: calls.append(1) or real(*a)
    )
    found = jax.jit(jax.value_and_grad(lambda params: loss(params)))(params)  # traced anew
    assert calls
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), found, expected
    )


@pytest.mark.parametrize("channels", [64, 512])
def test_the_kernels_can_be_lowered_for_a_gpu(channels):
    def loss(norm, x):
        patches = jax.vmap(lambda n, x: resnet_gpu.patches(2, n["scale"], n["bias"], x))
        return jnp.sum(jnp.square(patches(norm, x)))

    norm, _, x = drawn(channels)
    assert kernels_for_a_gpu(jax.grad(loss, argnums=(0, 1)), norm, x) == 2
