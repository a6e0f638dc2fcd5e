"""From settings to optimizers: any of optax's, for clients and for the server."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stragglers as st
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.runs import train

PRESET = "glyphs/per-domain/fedadam"
W = {"w": jnp.array([1.0, -2.0])}
G = {"w": jnp.array([3.0, 4.0])}


def settings(*sets):
    return documents.settings_from(documents.override_all(catalog.read(PRESET), sets))


def steps(optimizer):
    """What three updates make of the weights."""
    params, state = W, optimizer.init(W)
    for _ in range(3):
        updates, state = optimizer.update(G, state, params)
        params = optax.apply_updates(params, updates)
    return params["w"]


def client(*sets):
    return train.local(settings("client.learning_rate=0.1", *sets).client)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["client.optimizer=adam"], optax.adam(0.1)),
        (["optimizer_arguments.momentum=0.9"], optax.sgd(0.1, momentum=0.9)),
        (["clip_norm=1.0"], optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))),
        (
            ["rate_schedule=cosine_decay_schedule", "rate_arguments.decay_steps=4"],
            optax.sgd(optax.cosine_decay_schedule(0.1, 4)),
        ),
    ],
)
def test_a_client_has_any_optimizer(sets, expected):
    local = client(*sets)
    assert local.learning_rate is None and local is client(*sets)  # and so one program
    np.testing.assert_array_equal(steps(local.optimizer), steps(expected))


def test_plain_sgd_keeps_its_own_form():
    local = client()
    assert local.optimizer is None and local.learning_rate == 0.1


def test_a_server_has_any_optimizer():
    given = settings(
        "server.optimizer=optax", "server.function=lion", "server.arguments.b1=0.8", "ema=0"
    )
    made = train._server_optimizer(given.server)
    np.testing.assert_array_equal(
        steps(made), steps(optax.lion(given.server.learning_rate, b1=0.8))
    )
    assert train.algorithm(given.server, given.algorithm, "weight", 1)


def test_what_is_not_given_is_absent_from_the_document():
    given = settings().document["client"]
    assert not given.keys() & {"optimizer", "optimizer_arguments", "rate_schedule", "clip_norm"}
    assert settings("client.optimizer=adam").hash != settings().hash


@pytest.mark.parametrize(
    ("sets", "line"),
    [
        (["client.optimizer=adamm"], "client: optax has no optimizer 'adamm'; did you mean 'adam"),
        (["clip_norm=0.0"], "client.clip_norm: 0.0 given, expected a number above 0"),
        (["rate_arguments.decay_steps=4"], "Name one in client.rate_schedule"),
        (
            ["server.optimizer=optax", "server.function=lions"],
            "server: optax has no optimizer 'lions'; did you mean 'lion'",
        ),
    ],
)
def test_a_mistake_is_one_line_before_training(sets, line):
    with pytest.raises(BadInput, match=line) as error:
        train.prepare(settings("writers=4", "goal=2", "updates=8", *sets))
    assert "\n" not in str(error.value)


def test_it_trains_with_them(tmp_path):
    small = ["writers=4", "goal=2", "updates=8", "evaluations=1", "threads=1"]
    given = settings(
        *small,
        "client.optimizer=adam",
        "client.learning_rate=0.001",
        "server.optimizer=optax",
        "server.function=lion",
        "server.learning_rate=0.001",
    )
    (record,) = st.run([given], out=tmp_path)
    assert record.status == "finished" and record.settings["client"]["optimizer"] == "adam"
    jax.tree.map(np.testing.assert_array_equal, record.document["server"], given.document["server"])
