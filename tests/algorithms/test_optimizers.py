"""Optimizers of optax by name."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers.algorithms import optimizers


def update(made):
    params = {"w": jnp.array([1.0, -2.0])}
    return made.update({"w": jnp.array([0.3, 0.1])}, made.init(params), params)[0]["w"]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("sgd", {"momentum": 0.9, "nesterov": True}, optax.sgd(0.1, 0.9, nesterov=True)),
        ("adam", {}, optax.adam(0.1)),
        ("lamb", {"weight_decay": 0.5}, optax.lamb(0.1, weight_decay=0.5)),
        ("lion", {"b1": 0.8}, optax.lion(0.1, b1=0.8)),
    ],
)
def test_it_is_the_one_of_optax(name, arguments, expected):
    made = optimizers.optimizer(name, 0.1, arguments, "client")
    np.testing.assert_array_equal(update(made), update(expected))


def test_a_schedule_begins_with_the_learning_rate():
    made = optimizers.rate("exponential_decay", 0.4, {"transition_steps": 1, "decay_rate": 0.5}, "")
    assert [float(made(step)) for step in range(3)] == pytest.approx([0.4, 0.2, 0.1])


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda: optimizers.optimizer("adan2", 0.1, {}, "client"),
            "client: optax has no optimizer 'adan2'; did you mean 'adan'",
        ),
        (
            lambda: optimizers.optimizer("sgd", 0.1, {"momentun": 1}, "server"),
            "server: optax.sgd has no argument 'momentun'; did you mean 'momentum'",
        ),
        (lambda: optimizers.optimizer("chain", 0.1, {}, "client"), "no optimizer 'chain'"),
        (
            lambda: optimizers.rate("cosine_decay_schedule", 0.1, {}, "client"),
            "client: optax.cosine_decay_schedule refuses its arguments",
        ),
        (lambda: optimizers.rate("cosine", 0.1, {}, "client"), "optax has no schedule 'cosine'"),
    ],
)
def test_a_mistake_is_one_line(call, line):
    with pytest.raises(BadInput, match=line):
        call()
