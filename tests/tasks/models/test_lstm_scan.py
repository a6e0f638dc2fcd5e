"""States and gradients against what jax makes of the same loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models import lstm_scan

LANES, TIME, BATCH, UNITS = 2, 7, 3, 5


def plainly(forget_bias, inputs, recurrent, moving):
    def step(state, now):
        h, c = state
        given, moves = now
        i, g, f, o = jnp.split(given + h @ recurrent, 4, axis=-1)
        new_c = jax.nn.sigmoid(f + forget_bias) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        new_h = jax.nn.sigmoid(o) * jnp.tanh(new_c)
        if moves is not None:
            new_h, new_c = (jnp.where(moves[:, None], *pair) for pair in ((new_h, h), (new_c, c)))
        return (new_h, new_c), new_h

    zeros = jnp.zeros((BATCH, UNITS), inputs.dtype)
    return jax.lax.scan(step, (zeros, zeros), (inputs, moving))[1]


@pytest.mark.parametrize("forget_bias", [0.0, 1.0])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])  # time in pieces of 5 and 2 there
def test_states_and_gradients_of_every_lane(forget_bias, masked, backend, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        inputs = jnp.asarray(rng.standard_normal((LANES, TIME, BATCH, 4 * UNITS)))
        recurrent = jnp.asarray(rng.standard_normal((LANES, UNITS, 4 * UNITS)))
        moving = jnp.asarray(rng.random((LANES, TIME, BATCH)) < 0.6) if masked else None
        d = jnp.asarray(rng.standard_normal((LANES, TIME, BATCH, UNITS)))

        def both_ways(function):
            def lanes(inputs, recurrent):
                return jax.vmap(lambda *given: function(forget_bias, *given))(
                    inputs, recurrent, moving
                )

            h, pull = jax.vjp(lanes, inputs, recurrent)
            return lanes(inputs, recurrent), h, pull(d)

        expected, found = (
            jax.jit(both_ways, static_argnums=0)(f) for f in (plainly, lstm_scan.states)
        )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert np.abs(b).max() > 0.1
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_the_matrix_of_the_weights_is_not_in_the_loop():
    """What the file is for: no carry of the loop back is as large as the recurrent weights."""
    inputs, recurrent = jnp.ones((TIME, BATCH, 4 * UNITS)), jnp.ones((UNITS, 4 * UNITS))

    def carried(function):
        def loss(inputs, recurrent):
            return jnp.sum(function(0.0, inputs, recurrent, None))

        jaxpr = jax.make_jaxpr(jax.grad(loss, argnums=(0, 1)))(inputs, recurrent)
        loops = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
        shapes = [v.aval.shape for e in loops for v in e.outvars]
        return [shape for shape in shapes if shape[0] != TIME]  # the others are stacked

    assert recurrent.shape in carried(plainly)
    assert set(carried(lstm_scan.states)) == {(BATCH, UNITS)}
