import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models.lstm import lstm
from tests.support.numerics import check_gradient, close, drawn, output, parameters
from tests.tasks.models.test_layers import numpy_lstm

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
SMALL = {"vocabulary": 11, "embedding": 4, "units": 6}
SENTENCES = np.array([[1, 5, 7, 3, 10, 2], [1, 9, 2, 0, 0, 0]], np.int32)


@pytest.mark.parametrize("profile", ["fedjax", "afo"])
def test_parameters_and_shape(profile):
    model = lstm(profile)
    assert parameters(model) == 4_050_748
    assert output(model, jax.ShapeDtypeStruct((3, 20), np.int32)) == (3, 20, 10_004)
    shapes = jax.eval_shape(model.init, KEY)["lstm"]
    assert {name: leaf.shape for name, leaf in shapes.items()} == {
        "input": (96, 2680),
        "recurrent": (670, 2680),
        "bias": (2680,),
    }


@pytest.mark.parametrize("profile", ["fedjax", "afo"])
def test_step_by_step(profile):
    model = lstm(profile, **SMALL)
    params = drawn(model)
    weights = jax.tree.map(lambda p: np.asarray(p, np.float64), params)
    embedded = weights["embedding"][SENTENCES]
    if profile == "fedjax":
        states = np.tanh(numpy_lstm(weights["lstm"], embedded, forget_bias=1.0))
    else:
        states = numpy_lstm(weights["lstm"], embedded, mask=SENTENCES != 0)
        assert (states[1, 2:] == states[1, 2]).all()  # padding leaves the state as it was
    expected = states @ weights["project"]["kernel"] + weights["project"]["bias"]
    expected = expected @ weights["predict"]["kernel"] + weights["predict"]["bias"]
    close(jax.jit(model.apply, static_argnums=2)(params, jnp.asarray(SENTENCES), None), expected)


@pytest.mark.parametrize("profile", ["fedjax", "afo"])
def test_gradient(profile):
    check_gradient(lstm(profile, **SMALL), SENTENCES, RNG.integers(11, size=SENTENCES.shape))


def test_weights_as_published():
    smaller = {"vocabulary": 1000, "embedding": 96, "units": 160}
    fedjax, afo = (jax.jit(lstm(p, **smaller).init)(KEY) for p in ("fedjax", "afo"))
    assert fedjax["embedding"].std() == pytest.approx(0.8796, rel=0.01)
    for name in ("input", "recurrent"):  # one matrix on [x, h]
        assert fedjax["lstm"][name].std() == pytest.approx(0.8796 / 256**0.5, rel=0.01)
    assert not fedjax["lstm"]["bias"].any()
    assert abs(afo["embedding"]).max() <= 0.05
    recurrent = afo["lstm"]["recurrent"]
    close(recurrent @ recurrent.T, np.eye(160))
    i, g, f, o = np.split(afo["lstm"]["bias"], 4)
    assert (f == 1).all() and not (i.any() or g.any() or o.any())
