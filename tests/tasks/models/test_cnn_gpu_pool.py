"""The sum over pixels, run by Pallas's interpreter; values and gradients are in test_stem.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stragglers.tasks.models import cnn_gpu_pool, pallas


@pytest.mark.slow
def test_the_sum_over_pixels_in_any_number_of_chunks(monkeypatch):
    """One lane alone, which has many, and lanes that have as few as there may be."""
    monkeypatch.setattr(pallas, "INTERPRET", True)
    monkeypatch.setattr(cnn_gpu_pool, "STRIDE", 16)
    rng = np.random.default_rng(2)
    h = jnp.asarray(rng.standard_normal((5, 10, 10, 16)), jnp.float32)
    dy = jnp.asarray(rng.standard_normal((5, 4, 4, 16)), jnp.float32)
    place = jnp.asarray(rng.integers(0, 4, (5 * 16, 16)), jnp.int8)
    alone = cnn_gpu_pool.kernel_gradient(h, dy, place)
    for programs in (1, 3, 540):
        monkeypatch.setattr(cnn_gpu_pool, "PROGRAMS", programs)
        monkeypatch.setattr(cnn_gpu_pool, "CHUNKS", 1)
        lanes = jax.vmap(cnn_gpu_pool.kernel_gradient, (0, None, None))(
            jnp.stack([h, 2 * h]), dy, place
        )
        np.testing.assert_allclose(lanes, [alone, 2 * alone], rtol=1e-5, atol=1e-5)
