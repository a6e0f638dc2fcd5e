"""A model of two functions."""

import functools

import jax
import jax.numpy as jnp
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.models.base import Model, model


def init(key):
    return jax.random.normal(key, (3, 2))


def two(params, x):
    return x @ params


def three(params, x, key):
    return x @ params if key is None else -x @ params


def test_equal_functions_give_equal_models():
    assert model(init, two) == model(init, two) and model(init, three) == Model(init, three)


def test_a_key_reaches_who_asks_for_it():
    params, x = jnp.ones((3, 2)), jnp.ones((1, 3))
    key = jax.random.key(0)
    assert (model(init, three).apply(params, x, key) == -3).all()
    assert (model(init, two).apply(params, x, key) == 3).all()
    scaled = functools.partial(lambda scale, params, x: scale * x @ params, 2.0)
    assert (model(init, scaled).apply(params, x, None) == 6).all()


@pytest.mark.parametrize(
    ("apply", "line"),
    [(3, "apply = 3: expected a function"), (lambda x: x, r"apply\(x\): expected arguments")],
)
def test_a_mistake_is_one_line(apply, line):
    with pytest.raises(BadInput, match=line):
        model(init, apply)
