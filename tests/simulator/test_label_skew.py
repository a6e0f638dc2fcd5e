"""Losses for absent and rare classes: their formulas, their limits, and three witnesses of each."""

import doctest

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers._core.shuffle import seed_word
from stragglers.algorithms.fedavg import fedavg
from stragglers.config import catalog, checks, documents
from stragglers.planning.policy import Rounds
from stragglers.runs import train as run
from stragglers.serving.deployment import deployment
from stragglers.simulator import label_skew
from stragglers.simulator.label_skew import (
    Adjusted,
    Balanced,
    Damped,
    Margin,
    Scaled,
    acting,
    terms,
)
from stragglers.simulator.local_training import Local, check_local, on_device, on_own_data
from stragglers.simulator.simulate import simulate
from tests.support import reference
from tests.support.every import (
    CLIENT,
    FEDAVG,
    OVER_SELECTED,
    TASK,
    TAUGHT,
    assert_same,
    differ,
    plan,
    train,
)
from tests.support.helpers import CLASSES, linear_task
from tests.system.test_witnesses import ADAM, ALGORITHMS, POLICIES, witnesses

SKEWS = {
    "damped": dict(kind="damped", alpha=0.1),
    "restricted": dict(kind="damped", alpha=0.0),
    "scaled": dict(kind="scaled", alpha=0.3),
    "adjusted": dict(kind="adjusted"),
    "adjusted, not smoothed": dict(kind="adjusted", tau=0.6, smoothing=0.0),
    "margin": dict(kind="margin", tau=0.7),
    "balanced": dict(kind="balanced"),
}


def built(skew):
    kind, *rest = skew.values()
    return label_skew.KINDS[kind](*rest)


# Witnesses.


def agree(policy, algorithm, option, **options):
    with jax.enable_x64(True):
        simulated, *others = witnesses(POLICIES[policy], algorithm, option, **options)
    for other in others:
        np.testing.assert_allclose(simulated, other, rtol=1e-10, atol=1e-10)
    return simulated


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("skew", SKEWS)
def test_three_witnesses_of_every_loss(skew, lanes):
    terms = dict(rho=0.5, nu=0.4, last_batch="keep")
    options = dict(ema=0.6, server=ADAM, lanes=lanes)
    found, plain = (
        agree("late in rounds", "fare-dust", dict(client=client, **options), seed=5)
        for client in (dict(terms, skew=SKEWS[skew]), terms)
    )
    assert differ(found, plain)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_takes_a_loss(algorithm):
    policy = "late in seconds" if algorithm == "feast" else "late in rounds"
    agree(policy, algorithm, dict(client=dict(rho=0.5, skew=SKEWS["damped"]), lanes=2))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_schedule_takes_a_loss(policy):
    agree(policy, "fedavg", dict(client=dict(skew=SKEWS["margin"])))


def test_two_devices_count_alike():
    given, client = plan(OVER_SELECTED), CLIENT._replace(label_skew=Damped(0.1))
    with jax.enable_x64(True):
        one, two = (simulate(TASK, given, FEDAVG, client, devices=n, lanes=2) for n in (1, 2))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), one.params, two.params)


# Formulas.


COUNTS = np.array([3, 0, 1, 16])


def of(given, counts=COUNTS):
    """Both terms, all of them written out, without a warning of NumPy's."""
    a, b = terms(given, counts, counts.sum())
    return (np.ones(len(counts)) if a is None else a), (0 * counts if b is None else b)


@pytest.mark.parametrize("skew", SKEWS)
def test_terms_are_those_of_the_reference(skew):
    y = np.repeat(np.arange(4), COUNTS)
    expected = reference.calibration(y=y, everybody=y, classes=4, **SKEWS[skew])
    for found, value in zip(of(built(SKEWS[skew])), expected):
        np.testing.assert_allclose(found, value, rtol=1e-14)
    with jax.enable_x64(True):
        on_the_device = terms(built(SKEWS[skew]), jnp.asarray(COUNTS), 20, jnp)
    for found, value in zip(on_the_device, expected):
        if found is not None:
            np.testing.assert_allclose(found, value, rtol=1e-14)


def test_by_hand():
    np.testing.assert_allclose(of(Damped(0.5))[1], [0, -np.log(2), 0, 0])
    assert of(Damped(0.0))[1].tolist() == [0, -np.inf, 0, 0]
    assert of(Scaled(0.5))[0].tolist() == [1, 0.5, 1, 1]
    np.testing.assert_allclose(of(Margin(2.0))[1], [-2 / 3**0.25, -np.inf, -2, -1])
    np.testing.assert_allclose(of(Adjusted(1.0, 0.05))[1], np.log([0.2, 0.05, 0.1, 0.85]))
    np.testing.assert_allclose(np.exp(of(Balanced())[1]), [0.15, 0, 0.05, 0.8])


def test_examples_in_the_docstring():
    assert doctest.testmod(label_skew) == (0, 3)


def test_removed_classes_learn_nothing_and_the_others_as_without_them():
    z, y = np.random.default_rng(0).normal(size=(5, 4)), np.array([0, 2, 3, 3, 0])
    there = np.flatnonzero(COUNTS)

    def loss(z, labels, addend):
        return optax.softmax_cross_entropy_with_integer_labels(z + addend, labels).sum()

    with jax.enable_x64(True):
        _, b = terms(Damped(0.0), jnp.asarray(COUNTS), 20, jnp)
        found = jax.grad(loss)(jnp.asarray(z), y, b)
        expected = jax.grad(loss)(jnp.asarray(z[:, there]), np.searchsorted(there, y), 0.0)
    np.testing.assert_allclose(found[:, there], expected, rtol=1e-12)
    assert not np.asarray(found)[:, 1].any()


# Counts.


def test_counts_are_each_clients_own():
    counts = np.asarray(on_device(TASK, skew=Margin()).counts)
    assert counts.dtype == np.uint16 and counts.shape == (9, CLASSES)
    for client, (first, last) in enumerate(zip(TASK.offsets, TASK.offsets[1:])):
        expected = [np.sum(TASK.y[first:last] == c) for c in range(CLASSES)]
        assert counts[client].tolist() == expected
    assert np.any(counts[counts.sum(1) > 0] == 0)  # some classes are absent
    everybody = np.asarray(on_device(TASK, skew=Balanced()).counts)
    assert everybody.tolist() == counts.sum(0).tolist()


@pytest.mark.parametrize("skew", [None, Damped(1.0), Margin(0.0)])
def test_nothing_is_counted_for_the_plain_loss(skew):
    assert on_device(TASK, skew=skew).counts is None


def test_counts_saturate_at_16_bits():
    labels = np.repeat([0, 1, 1], [65_535, 65_536, 10])
    counts = label_skew.label_counts(labels, np.array([0, 65_535, len(labels)]), 2)
    assert counts.tolist() == [[65_535, 0], [0, 65_535]]


# Limits.

NEUTRAL = [Damped(1.0), Scaled(1.0), Adjusted(0.0), Margin(0.0)]
NEARLY = [Damped(1 - 1e-13), Scaled(1 - 1e-13), Adjusted(1e-13), Margin(1e-13)]


@pytest.mark.parametrize("skew", NEUTRAL)
def test_without_strength_it_is_the_plain_loss_to_the_bit(skew):
    given = plan(OVER_SELECTED)
    assert_same(train(given, FEDAVG, CLIENT._replace(label_skew=skew)), train(given, FEDAVG))
    assert acting(skew) is None


# A margin removes absent classes, however small it is, so its clients hold all of them.
@pytest.mark.parametrize("skew", NEARLY)
def test_with_hardly_any_strength_it_is_nearly_the_plain_loss(skew):
    given, task = plan(OVER_SELECTED), with_all_classes() if isinstance(skew, Margin) else TASK
    with jax.enable_x64(True):
        found = train(given, FEDAVG, CLIENT._replace(label_skew=skew), task=task)
        plain = train(given, FEDAVG, task=task)
    np.testing.assert_allclose(found.w, plain.w, rtol=1e-10, atol=1e-10)
    assert acting(skew) is skew


def with_all_classes():
    """Each client's labels run through all classes, but those of two and of fewer examples."""
    task = linear_task(sizes=(5, 12, 3, 3, 20, 7, 9, 4, 16))
    y = np.concatenate([np.arange(n) % CLASSES for n in np.diff(task.offsets)]).astype(np.int32)
    return task._replace(y=y)


@pytest.mark.parametrize("skew", [Damped(0.1), Damped(0.0), Scaled(0.0)])
def test_clients_that_hold_all_classes_are_untouched(skew):
    task = with_all_classes()
    given = plan(OVER_SELECTED, task=task)
    with jax.enable_x64(True):
        found = train(given, FEDAVG, CLIENT._replace(label_skew=skew), task=task)
        plain = train(given, FEDAVG, task=task)
        others = train(given, FEDAVG, CLIENT._replace(label_skew=Margin()), task=task)
    np.testing.assert_allclose(found.w, plain.w, rtol=1e-12, atol=1e-13)
    assert differ(others.w, plain.w)


def test_equal_numbers_of_all_classes_adjust_nothing():
    task = linear_task(sizes=(6,) * 9)
    task = task._replace(y=np.tile(np.arange(CLASSES, dtype=np.int32), 18))
    given = plan(OVER_SELECTED, task=task)
    with jax.enable_x64(True):
        plain = train(given, FEDAVG, task=task)
        for skew in (Adjusted(), Margin(), Balanced()):
            found = train(given, FEDAVG, CLIENT._replace(label_skew=skew), task=task)
            np.testing.assert_allclose(found.w, plain.w, rtol=1e-12, atol=1e-13)


def test_kinds_with_equal_numbers_are_different_losses():
    given = plan(OVER_SELECTED)
    damped, scaled = (
        train(given, FEDAVG, CLIENT._replace(label_skew=skew))
        for skew in (Damped(0.2), Scaled(0.2))
    )
    assert differ(damped.w, scaled.w) and Damped(0.2) != Scaled(0.2)


# Clients of a real fleet.


@pytest.mark.parametrize("skew", [Damped(0.1), Scaled(0.2), Adjusted(), Margin()])
def test_a_client_of_its_own_counts_its_own_labels(skew):
    """Its update is that of the simulator, to which it tells nothing of them."""
    client = TAUGHT._replace(label_skew=skew)
    with jax.enable_x64(True):
        given = plan(Rounds(1, 1), [1.0], order=[5], steps=1)
        expected = simulate(TASK, given, fedavg(optax.sgd(1.0)), client, seed=3)
        w0 = TASK.model.init(jax.random.key(seed_word(3)))
        mine = slice(*TASK.offsets[5:7])
        sent = type("Sent", (), dict(model=w0, teacher=w0, dispatch=0))
        learn = on_own_data(TASK.lesson, client, seed=3)
        found = learn(sent, TASK.x[mine], TASK.y[mine])
        plain = on_own_data(TASK.lesson, TAUGHT, seed=3)(sent, TASK.x[mine], TASK.y[mine])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, expected.params)
    assert differ(found["w"], plain["w"])


# Settings.

DAMPED = ["label_skew.kind=damped", "label_skew.alpha=0.1"]


def experiment(*sets, preset="glyphs/per-domain/fedadam-over-selection"):
    return documents.settings_from(documents.override_all(catalog.read(preset), sets))


@pytest.mark.parametrize(
    "sets, expected",
    [
        (DAMPED, Damped(0.1)),
        (['label_skew={kind="scaled", alpha=0.5}'], Scaled(0.5)),
        (["label_skew.kind=adjusted"], Adjusted(1.0, 0.01)),
        (["label_skew.kind=margin", "tau=0.5"], Margin(0.5)),
        (["label_skew.kind=balanced"], Balanced()),
    ],
)
def test_settings_name_every_loss(sets, expected):
    given = experiment(*sets)
    assert run.local(given.client).label_skew == expected
    resolved = given.document
    assert documents.settings_from(resolved) == given and "label_skew" in resolved["client"]


def test_a_plain_loss_leaves_no_trace_in_settings():
    assert "label_skew" not in experiment().document["client"]


@pytest.mark.parametrize(
    "sets, message",
    [
        (["label_skew.kind=dampd"], "did you mean 'damped'"),
        (["label_skew.kind=damped"], "client.label_skew.alpha is missing"),
        (["label_skew.kind=damped", "label_skew.alpha=2"], "of at most 1"),
        (["label_skew.kind=margin", "tau=-1"], "of at least 0"),
        (["label_skew.kind=balanced", "tau=1"], "unknown setting 'tau'"),
    ],
)
def test_mistakes_are_one_line(sets, message):
    with pytest.raises(BadInput, match=message) as error:
        experiment(*sets)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("skew", [Damped(1.5), Damped(-0.1), Margin(np.inf), Adjusted(1.0, np.nan)])
def test_numbers_out_of_range_are_refused_from_python(skew):
    with pytest.raises(BadInput, match="label_skew.*out of range"):
        check_local(Local(0.1, 4, label_skew=skew))


def test_next_words_have_no_class_each():
    given = experiment(*DAMPED, preset="stackoverflow/per-domain/fedadam")
    with pytest.raises(BadInput, match="client.label_skew.kind = 'damped': task 'stackoverflow'"):
        checks.check(given)
    words = TASK._replace(y=TASK.x)
    with pytest.raises(BadInput, match="no class each"):
        on_device(words, skew=Damped(0.1))


def test_labels_beyond_the_models_classes_are_refused():
    with pytest.raises(BadInput, match="the model has 3 classes"):
        on_device(TASK._replace(y=TASK.y + 1), skew=Damped(0.1))


def test_a_real_fleet_has_nobodys_labels():
    given = experiment("label_skew.kind=balanced")
    with pytest.raises(BadInput, match="a real client knows its own labels alone"):
        deployment(given)
    with pytest.raises(BadInput, match="a real client knows its own labels alone"):
        on_own_data(TASK.lesson, CLIENT._replace(label_skew=Balanced()))
    assert deployment(experiment(*DAMPED)).client.label_skew == Damped(0.1)
