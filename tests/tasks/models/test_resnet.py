import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from stragglers.tasks.models.resnet import l2_penalty, resnet
from tests.support.numerics import check_gradient, close, drawn, output, parameters

RNG = np.random.default_rng(0)
NARROW = (4, 8, 12, 16)
SHALLOW = (4, 8)  # two narrow stages


def reference(params, x, groups, stride):
    """The network by the library's convolution, with every padding written out."""

    def convolution(layer, x, stride=1, pads=((1, 1), (1, 1))):
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(
            x, layer["kernel"], (stride, stride), pads, dimension_numbers=numbers
        )

    def norm(layer, x):
        parts = []
        for part in jnp.split(x, groups, axis=-1):
            mean, variance = part.mean((1, 2, 3)), part.var((1, 2, 3))
            shaped = (-1, 1, 1, 1)
            parts.append((part - mean.reshape(shaped)) / jnp.sqrt(variance + 1e-3).reshape(shaped))
        return jnp.concatenate(parts, -1) * layer["scale"] + layer["bias"]

    x = convolution(params["stem"], x, 2, ((2, 3), (2, 3)))
    x = jax.nn.relu(norm(params["stem_norm"], x))
    x = lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (0, 1), (0, 1), (0, 0))
    )
    for index, block in enumerate(params["blocks"]):
        step = stride if index in (2, 4, 6) else 1
        same = "SAME" if step == 2 else ((1, 1), (1, 1))
        y = x if index == 0 else jax.nn.relu(norm(block["norm1"], x))
        y = convolution(block["conv1"], y, step, same)
        y = convolution(block["conv2"], jax.nn.relu(norm(block["norm2"], y)))
        if index in (2, 4, 6):
            x = norm(block["shortcut_norm"], convolution(block["shortcut"], x, step, "VALID"))
        x = x + y
    x = jax.nn.relu(norm(params["norm"], x)).mean((1, 2))
    return x @ params["head"]["kernel"] + params["head"]["bias"]


@pytest.mark.parametrize("groups", [2, 32])
@pytest.mark.parametrize("stride", [1, 2])
def test_parameters_and_shape(groups, stride):
    model = resnet(groups, stride)
    assert parameters(model) == 11_227_812
    assert output(model, jax.ShapeDtypeStruct((5, 24, 24, 3), np.float32)) == (5, 100)


@pytest.mark.parametrize(("groups", "stride"), [(2, 1), (4, 2)])
def test_is_the_library_network(groups, stride):
    model = resnet(groups, stride, classes=10, widths=NARROW)
    params = drawn(model)
    x = jnp.asarray(RNG.normal(size=(3, 24, 24, 3)), jnp.float32)
    ours = jax.jit(model.apply, static_argnums=2)(params, x, None)
    close(ours, jax.jit(reference, static_argnums=(2, 3))(params, x, groups, stride))


def test_gradient():
    model = resnet(2, stride=2, classes=10, widths=SHALLOW)
    check_gradient(model, RNG.normal(size=(2, 24, 24, 3)), np.array([3, 9]))


def test_blocks_as_published():
    params = jax.eval_shape(resnet(widths=SHALLOW).init, jax.random.key(0))
    assert ["norm1" in block for block in params["blocks"]] == [False, True, True, True]
    assert ["shortcut" in block for block in params["blocks"]] == [False, False, True, False]


def test_l2_penalty_leaves_the_norms_alone():
    params = drawn(resnet(widths=SHALLOW))
    squares = np.square(params["head"]["bias"]).sum()
    for layer in [params["stem"], params["head"]]:
        squares += np.square(layer["kernel"]).sum()
    for block in params["blocks"]:
        for name in block.keys() & {"conv1", "conv2", "shortcut"}:
            squares += np.square(block[name]["kernel"]).sum()
    assert l2_penalty(params, 1e-4) == pytest.approx(1e-4 * squares, rel=1e-5)
