import jax
import jax.numpy as jnp
import numpy as np

from stragglers.algorithms import trees
from stragglers.algorithms.trees import Shelf


def states():
    """Of three trials: a weight, and a shelf of four rows."""
    rows = {"a": jnp.arange(24.0).reshape(3, 4, 2), "b": jnp.arange(12).reshape(3, 4)}
    return {"w": jnp.arange(3.0), "shelf": Shelf(rows)}


def test_a_trial_sees_its_own_rows():
    for trial in range(3):
        mine = trees.of_trial(states(), jnp.int32(trial))
        alone = trees.row(states(), trial)  # a copy
        assert mine["w"] == alone["w"] == trial
        for index in range(4):
            jax.tree.map(
                np.testing.assert_array_equal,
                trees.row(mine["shelf"], index),
                trees.row(alone["shelf"], index),
            )


@jax.jit
def changed(everyone, trial):
    own = trees.of_trial(everyone, trial)
    row = jax.tree.map(lambda x: -x, trees.row(own["shelf"], 2))
    return trees.set_trial(
        everyone, trial, {"w": own["w"] + 10, "shelf": trees.set_row(own["shelf"], 2, row)}
    )


def test_what_it_changes_is_its_own():
    before, after = states(), changed(states(), 1)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert after["w"].tolist() == [0, 11, 2]
    for name, rows in before["shelf"].rows.items():
        expected = np.array(rows)
        expected[1, 2] *= -1
        np.testing.assert_array_equal(after["shelf"].rows[name], expected)


def test_nothing_is_copied_for_it():
    """Of one trial's shelf no program makes a whole copy: it is large."""
    rows, size = 50, 1000
    everyone = {"w": jnp.zeros(2), "shelf": Shelf(jnp.zeros((2, rows, size)))}

    def step(everyone, trial):
        own = trees.of_trial(everyone, trial)
        taken = trees.row(own["shelf"], 3) + 1
        return trees.set_trial(
            everyone, trial, own | {"shelf": trees.set_row(own["shelf"], 4, taken)}
        )

    needs = jax.jit(step, donate_argnums=0).lower(everyone, 1).compile().memory_analysis()
    assert needs.temp_size_in_bytes < rows * size * 4 / 2
