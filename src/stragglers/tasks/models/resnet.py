"""ResNet-18 with group normalisation, for 24x24 crops of CIFAR-100: 11,227,812 parameters.

    [batch, 24, 24, 3]                       images as the task prepared them
    stem     conv 7x7/2, 64        12x12     GN, ReLU
    max-pool 3x3/2                  6x6
    stages   64, 128, 256, 512      6x6      two blocks each (3x3, 2x2 and 1x1 with stride 2)
             GN, ReLU, mean over the image
    head     512 -> 100                      logits

    block(x) = conv2(relu(GN(conv1(relu(GN(x)))))) + shortcut(x)
    shortcut = x, or GN(1x1 conv(x)) where the number of channels changes

Convolutions are SAME and have no bias. The very first block leaves out its first GN and ReLU. The
published code never hands its strides on to the stages, so all of them stay at 6x6: stride 1 is the
published network, stride 2 the textbook's, both with the same parameters. Its groups were 2 in
2020; later versions of the same library made that 32.
"""

from collections.abc import Sequence
from typing import Literal

import jax
import jax.numpy as jnp

from stragglers.tasks.models import layers, resnet_gpu
from stragglers.tasks.models.base import Model, Params


def resnet(
    groups: int = 2,
    stride: Literal[1, 2] = 1,
    classes: int = 100,
    widths: Sequence[int] = (64, 128, 256, 512),
) -> Model:
    """Builds the network; `stride` is that of the first block of every stage but the first."""
    layout = []  # (inputs, outputs, stride) of each block
    for stage, outputs in enumerate(widths):
        inputs = widths[max(stage - 1, 0)]
        layout += [(inputs, outputs, stride if stage else 1), (outputs, outputs, 1)]

    def init(key: jax.Array) -> Params:
        stem, head, *blocks = jax.random.split(key, 2 + len(layout))
        return {
            "stem": layers.weights(layers.he_normal, stem, 7, 7, 3, widths[0], bias=False),
            "stem_norm": layers.norm_weights(widths[0]),
            "blocks": [
                block_init(key, inputs, outputs, first=key is blocks[0])
                for key, (inputs, outputs, _) in zip(blocks, layout, strict=True)
            ],
            "norm": layers.norm_weights(widths[-1]),
            "head": layers.weights(layers.small_normal, head, widths[-1], classes),
        }

    def apply(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        del key  # nothing is dropped
        x = layers.convolution(params["stem"], x, stride=2, padding="SAME")
        x = norm_relu(params["stem_norm"], x)
        x = layers.max_pool(x, window=3, stride=2, padding="SAME")
        for block, (_, _, stride) in zip(params["blocks"], layout, strict=True):
            x = block_apply(block, x, stride)
        x = norm_relu(params["norm"], x).mean((1, 2))
        return layers.dense(params["head"], x)

    def block_apply(block: Params, x: jax.Array, stride: int) -> jax.Array:
        if "norm1" in block:
            y = resnet_gpu.convolution(block["norm1"], block["conv1"], x, groups, stride)
        else:
            y = layers.convolution(block["conv1"], x, stride=stride, padding="SAME")
        y = resnet_gpu.convolution(block["norm2"], block["conv2"], y, groups, stride=1)
        if "shortcut" in block:
            x = layers.convolution(block["shortcut"], x, stride=stride)
            x = layers.group_norm(block["shortcut_norm"], x, groups)
        return x + y

    def norm_relu(norm: Params, x: jax.Array) -> jax.Array:
        return jax.nn.relu(layers.group_norm(norm, x, groups))

    return Model(init, apply)


def block_init(key: jax.Array, inputs: int, outputs: int, first: bool) -> Params:
    conv1, conv2, shortcut = jax.random.split(key, 3)
    block = {
        "conv1": layers.weights(layers.he_normal, conv1, 3, 3, inputs, outputs, bias=False),
        "norm2": layers.norm_weights(outputs),
        "conv2": layers.weights(layers.he_normal, conv2, 3, 3, outputs, outputs, bias=False),
    }
    if not first:
        block["norm1"] = layers.norm_weights(inputs)
    if inputs != outputs:
        kernel = layers.weights(layers.he_normal, shortcut, 1, 1, inputs, outputs, bias=False)
        block["shortcut"] = kernel
        block["shortcut_norm"] = layers.norm_weights(outputs)
    return block


def l2_penalty(params: Params, weight: float) -> jax.Array:
    """weight * sum of squares of the convolutions and the head (as in Keras, no 1/2)."""
    kernels = [x for x in jax.tree.leaves(params) if x.ndim > 1]  # convolutions, the head's kernel
    squares = [jnp.sum(jnp.square(x)) for x in [*kernels, params["head"]["bias"]]]
    return weight * jnp.sum(jnp.stack(squares))
