import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import Download
from stragglers.algorithms.fedavg import fedavg
from stragglers.planning import paper_populations
from stragglers.planning.latency import Draw
from stragglers.simulator.local_training import Local, LocalJob, local_training, on_device
from stragglers.simulator.simulate import simulate
from stragglers.tasks.models.base import Model
from stragglers.tasks.models.lstm import lstm
from stragglers.tasks.stackoverflow import LOSSES, POSITION_WEIGHTS, SCORES, origin, stackoverflow
from tests.support import plans
from tests.tasks.datasets.test_stackoverflow import hdf5

RNG = np.random.default_rng(0)
VOCABULARY, OOV = 9, 8  # pad, bos, eos, five words, oov
SENTENCES = np.zeros((40, 21), np.uint16)
for row in SENTENCES:
    words = RNG.integers(3, VOCABULARY, RNG.integers(0, 21))
    line = [1, *words, 2][:21]
    row[: len(line)] = line
LOGITS = RNG.normal(size=(40, 20, VOCABULARY))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    stackoverflow.cache_clear()


def by_hand(kind):
    """Token by token, as each definition reads."""
    right, counted = np.zeros(40), np.zeros(40)
    for i, sentence in enumerate(SENTENCES):
        for t, target in enumerate(sentence[1:]):
            values = LOGITS[i, t].copy()
            if kind == "fedjax":
                values[[0, 1, 2, OOV]] = -np.inf
                counts = target not in (0, 2)
            else:
                counts = target not in (0, 2, OOV)
            counted[i] += counts
            right[i] += counts and values.argmax() == target
    return right, counted


@pytest.mark.parametrize("kind", ["fedjax", "tff"])
def test_accuracies_are_the_published_ones(kind):
    right, counted = SCORES[kind](jnp.asarray(LOGITS), jnp.asarray(SENTENCES))
    for found, expected in zip((right, counted), by_hand(kind)):
        np.testing.assert_array_equal(found, expected)
        assert expected.sum() > 0


def test_accuracies_differ_in_unknown_words():
    sure = jax.nn.one_hot(SENTENCES[:, 1:], VOCABULARY)  # a model that is always right
    unknown = (SENTENCES == OOV).sum(axis=1)
    fedjax, tff = (SCORES[kind](sure, jnp.asarray(SENTENCES)) for kind in ("fedjax", "tff"))
    np.testing.assert_array_equal(tff[0], tff[1])
    np.testing.assert_array_equal(fedjax[1] - fedjax[0], unknown)
    np.testing.assert_array_equal(fedjax[1] - tff[1], unknown)
    assert unknown.sum() > 0


def test_losses():
    y = SENTENCES[:, 1:].astype(int)
    log_p = LOGITS - np.log(np.exp(LOGITS).sum(axis=-1, keepdims=True))
    each = -np.take_along_axis(log_p, y[..., None], axis=-1)[..., 0] * (y != 0)
    given = jnp.asarray(LOGITS), jnp.asarray(SENTENCES)
    np.testing.assert_allclose(LOSSES["fedjax"](*given), each.sum(1) / 13.3, rtol=1e-5)
    tokens = (y != 0).sum(axis=1)
    np.testing.assert_allclose(LOSSES["afo"](*given), each.sum(1) / tokens, rtol=1e-5)


@pytest.mark.parametrize("profile", ["fedjax", "afo"])
def test_position_weights_are_those_of_the_loss(profile):
    """With a one-hot teacher, soft cross-entropy under these weights is the supervised loss."""
    given = jnp.asarray(LOGITS), jnp.asarray(SENTENCES)
    certain = jax.nn.one_hot(SENTENCES[:, 1:], VOCABULARY)
    psi = -jnp.sum(certain * jax.nn.log_softmax(given[0]), axis=-1)
    psi = jnp.sum(psi * POSITION_WEIGHTS[profile](given[1]), axis=1)
    np.testing.assert_allclose(psi, LOSSES[profile](*given), rtol=1e-5)


def test_the_task(tmp_path):
    hdf5(tmp_path)
    task = stackoverflow(str(tmp_path))
    assert task is stackoverflow(str(tmp_path))
    who = task.population
    assert who.groups == paper_populations.PAPER_GROUPS
    assert who.examples.tolist() == [2, 1, 1, 2]
    assert who.group.tolist() == [1, 0, 1, 0]
    assert who.tokens is not None and who.tokens.tolist() == [2.5, 5, 3, 2.5]
    assert "4 users, 2 of them stragglers; not the published" in who.origin
    assert task.offsets.tolist() == [0, 2, 3, 4, 6]
    assert task.test_straggler.tolist() == [False, True, True]
    assert task.straggler_classes is None
    assert task.test_client is not None and task.test_client.tolist() == [0, 0, -1]
    shapes = jax.eval_shape(task.model.init, jax.random.key(0))
    assert shapes["embedding"].shape == (3 + 5 + 1, 96)  # follows the words that there are
    x = task.prepare(jnp.asarray(task.x), None)
    assert x.shape == (6, 20) and x.dtype == jnp.int32


def test_sentences_are_held_once(tmp_path):
    hdf5(tmp_path)
    task = stackoverflow(str(tmp_path))
    data = on_device(task)
    assert data.x is data.y
    if jax.default_backend() == "cpu":  # not even copied from the file
        assert data.x.unsafe_buffer_pointer() == np.asarray(task.x).ctypes.data


def test_nobody_has_the_tags(tmp_path):
    hdf5(tmp_path)
    with pytest.raises(BadInput, match="the tags maths; set task.straggler_tags"):
        stackoverflow(str(tmp_path), straggler_tags=("maths",))


def test_published_counts_are_recognised():
    assert origin(342_477, 135_818_730, 93_882).endswith("as published")
    other = origin(342_477, 135_818_730, 93_881)
    assert "published are 342,477, 93,882 and 135,818,730" in other


def test_distillation_ignores_padding(tmp_path):
    """A teacher that differs only behind the end of every sentence teaches nothing."""
    hdf5(tmp_path)
    behind = jnp.arange(20) >= 8  # the longest sentence has five tokens to predict

    def apply(params, x, key):
        del key
        slope = jnp.where(behind, params["behind"], params["within"])
        return slope[None, :, None] * jnp.arange(9.0) * jnp.ones((len(x), 1, 1))

    task = stackoverflow(str(tmp_path))
    task = task._replace(model=Model(task.model.init, apply), loss=lambda logits, y: jnp.zeros(6))
    train = local_training(task, Local(1.0, 6, distillation=1.0))
    model = {"behind": jnp.float32(0.1), "within": jnp.float32(0.1)}
    job = jax.tree.map(jnp.int32, LocalJob(dispatch=0, first=0, size=6, positions=6, steps=1))
    for name in model:
        sent = Download(model, {**model, name: jnp.float32(0.5)})
        delta = train(on_device(task), jnp.uint32(0), sent, job)
        assert delta["behind"] == 0
        assert (abs(delta["within"]) > 1e-3) == (name == "within")


@pytest.mark.slow
def test_accuracy_rises(shared_data):
    tags = ("quantum-computer", "quantum-algorithms")
    task = stackoverflow(str(shared_data), straggler_tags=tags, vocabulary=500)
    sizes = task.population.examples
    assert (len(sizes), len(task.x), len(task.test_x)) == (1257, 44_257, 7571)
    assert task.population.group.sum() == 204  # counted by hand in the file
    assert task.test_straggler.sum() == 985

    some = slice(None, None, 8)
    task = task._replace(
        model=lstm("fedjax", 504, embedding=16, units=32),
        test_client=None,
        test_x=task.test_x[some],
        test_y=task.test_y[some],
        test_straggler=task.test_straggler[some],
    )

    def latency(first, clients):
        return Draw(np.ones(len(clients)), np.minimum(sizes[clients], 64))

    plan = plans.over_selected(1257, latency, seed=0, updates=200, goal=20, cohort=20)
    result = simulate(task, plan, fedavg(optax.adam(0.02)), Local(0.5, 16), evaluate_at=[0])
    before, after = (point.metrics for point in result.curve)
    assert after["total_accuracy"] > before["total_accuracy"] + 0.02
    assert after["straggler_accuracy"] > before["straggler_accuracy"] + 0.02
    assert after["total_loss"] < before["total_loss"]
