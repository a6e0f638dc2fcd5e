"""What clients train on, and towards what: seen from the deltas that they send."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stragglers._core.errors import BadInput
from stragglers.algorithms.base import Download
from stragglers.simulator.local_training import (
    Data,
    Local,
    LocalJob,
    _distance,
    check_local,
    local_steps,
    local_training,
)
from stragglers.tasks.models.base import Model
from tests.support.helpers import CLASSES, FEATURES, linear_task

ROWS = 64  # examples of the telltale data; a client's are somewhere in the middle
BATCH = 4


def telltale(params, x, key):
    """Logits whose gradient names the examples: row i of the data is the i-th unit vector."""
    del key
    return (x @ params)[:, None]


TELLTALE = linear_task()._replace(
    model=Model(lambda key: jnp.zeros(ROWS), telltale), loss=lambda logits, y: logits[:, 0]
)
UNITS = Data(jnp.eye(ROWS), jnp.zeros(ROWS, jnp.int32))


@cache
def training(last_batch):
    client = Local(learning_rate=1.0, batch_size=BATCH, last_batch=last_batch)
    return jax.jit(local_training(TELLTALE.lesson, client))


def seen(size, positions, *, steps, dispatch=0, seed=0, first=10, last_batch="fill"):
    """How much of each example is in the sum of the mean gradients; of the client's own."""
    job = jax.tree.map(jnp.int32, LocalJob(dispatch, first, size, positions, steps))
    sent = Download(jnp.zeros(ROWS), jnp.zeros(ROWS))
    delta = np.asarray(training(last_batch)(UNITS, np.uint32(seed), sent, job))
    assert not delta[:first].any() and not delta[first + size :].any()  # nobody else's
    return delta[first : first + size]


def counts(size, positions, **options):
    found = BATCH * seen(size, positions, **options)
    np.testing.assert_allclose(found, np.rint(found), atol=1e-5)
    return np.rint(found).astype(int)


def batch(step, size, **options):
    """The examples of one batch."""
    before, after = (counts(size, 10**6, steps=s, **options) for s in (step, step + 1))
    return np.repeat(np.arange(size), after - before)


# Positions, the last batch, and how many batches of four that is; of whoever is cut, last.
@pytest.mark.parametrize(
    "positions, fill, keep, drop, cut",
    [
        (0, 0, 0, 0, 0),
        (1, 1, 1, 0, 0),
        (3, 1, 1, 0, 0),
        (4, 1, 1, 1, 1),
        (5, 2, 2, 1, 1),
        (8, 2, 2, 2, 2),
        (11, 3, 3, 2, 2),
    ],
)
def test_how_many_batches_fit(positions, fill, keep, drop, cut):
    def steps(last_batch):
        client = Local(0.1, BATCH, last_batch)
        return local_steps(np.full(2, positions), client, np.array([False, True])).tolist()

    assert steps("fill") == [fill, cut] and steps("keep") == [keep, cut]
    assert steps("drop") == [drop, cut]


@pytest.mark.parametrize("last_batch", ["fill", "keep", "drop"])
@pytest.mark.parametrize("cut", [False, True])
def test_more_work_than_32_bits_count_is_refused(last_batch, cut):
    def steps(positions):
        return local_steps(np.array([7, positions]), Local(0.1, BATCH, last_batch), cut)

    most = 2**31 - 1 - BATCH
    assert steps(most).max() * BATCH < 2**31
    for positions in (most + 1, 2**31, 2**32 + 5, 10**15):
        with pytest.raises(BadInput, match=f"go through {positions:,} examples, expected") as error:
            steps(positions)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [4, 12, 40])
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_every_example_is_seen_once_in_an_epoch(size, epochs):
    for dispatch in range(3):
        found = counts(size, epochs * size, steps=epochs * size // BATCH, dispatch=dispatch)
        assert found.tolist() == [epochs] * size


@pytest.mark.parametrize("size", [1, 3, 5, 10, 39])
def test_the_last_batch_is_filled_with_examples_of_a_new_epoch(size):
    steps = -(-size // BATCH)
    for dispatch in range(5):
        found = counts(size, size, steps=steps, dispatch=dispatch)
        assert found.sum() == steps * BATCH and found.min() >= 1
        if size >= BATCH:
            assert found.max() <= 2  # once in the epoch, once to fill


def test_what_fills_the_last_batch_is_drawn_afresh():
    size, fills, firsts = 10, [], []
    for dispatch in range(60):
        found = counts(size, size, steps=3, dispatch=dispatch)
        fills.append(set(np.flatnonzero(found == 2)))
        firsts.append(set(batch(0, size, dispatch=dispatch)))
    assert all(len(fill) == 2 for fill in fills)
    among_the_first = sum(fill <= first for fill, first in zip(fills, firsts))
    assert 1 <= among_the_first <= 20  # two of ten among four: 2 in 15
    assert set().union(*fills) == set(range(size))


def test_epochs_dispatches_and_seeds_have_orders_of_their_own():
    size = 40
    orders = [
        [tuple(batch(step, size, **of)) for step in steps]
        for steps, of in [
            (range(0, 5), {}),
            (range(10, 15), {}),
            (range(0, 5), dict(dispatch=1)),
            (range(0, 5), dict(seed=1)),
        ]
    ]
    assert len({tuple(order) for order in orders}) == 4
    assert orders[0] == [tuple(batch(step, size)) for step in range(5)]


def test_where_the_data_lie_does_not_change_the_order():
    here, there = (counts(10, 10, steps=2, first=first) for first in (0, 30))
    assert here.tolist() == there.tolist() and 0 < here.sum() < 10


def test_a_short_last_batch_is_the_mean_of_what_it_holds():
    for dispatch in range(5):
        found = seen(10, 10, steps=3, dispatch=dispatch, last_batch="keep")
        assert sorted(np.round(found, 6)) == [0.25] * 8 + [0.5] * 2


def test_a_dropped_last_batch_is_not_seen():
    steps = local_steps(np.array([10]), Local(1.0, BATCH, "drop"), cut=False)
    found = seen(10, 10, steps=steps[0], last_batch="drop")
    assert sorted(found) == [0] * 2 + [0.25] * 8


def test_work_of_part_of_an_epoch_sees_part_of_the_examples():
    assert sorted(counts(40, 22, steps=5)) == [0] * 20 + [1] * 20


def test_a_client_without_examples_or_without_time_sends_back_what_it_got():
    assert not seen(0, 0, steps=0).any() and not seen(12, 3, steps=0).any()
    assert seen(12, 4, steps=1).any()


# Distillation.

RNG = np.random.default_rng(0)
STUDENT, TEACHER = 2 * RNG.normal(size=(2, 6, 5))


def soften(logits, t):
    e = np.exp(logits / t - (logits / t).max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def by_hand(kind, student, teacher, t):
    """psi of each prediction, as one would write it down."""
    p, q = soften(teacher, t), soften(student, t)
    values = {
        "cross_entropy": -p * np.log(q),
        "kl": p * np.log(p / q),
        "logit_mse": (student - teacher) ** 2 / student.shape[-1],
    }[kind]
    return values.sum(axis=-1)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("kind", ["cross_entropy", "kl", "logit_mse"])
def test_distances_are_those_of_the_textbook(kind, temperature):
    psi = _distance(Local(0.1, 4, distillation_loss=kind, temperature=temperature))
    with jax.enable_x64(True):
        for shape in [(6, 5), (2, 3, 5)]:  # classes; tokens and words
            s, t = STUDENT.reshape(shape), TEACHER.reshape(shape)
            found = psi(jnp.asarray(s), jnp.asarray(t))
            np.testing.assert_allclose(found, by_hand(kind, s, t, temperature), rtol=1e-12)
            at_one = by_hand(kind, s, t, 1.0)
            assert np.allclose(found, at_one) == (temperature == 1 or kind == "logit_mse")


def gradient(kind, temperature=1.0):
    psi = _distance(Local(0.1, 4, distillation_loss=kind, temperature=temperature))
    return jax.grad(lambda s: psi(s, jnp.asarray(TEACHER)).sum())(jnp.asarray(STUDENT))


def test_kl_and_cross_entropy_pull_alike():
    with jax.enable_x64(True):
        expected = soften(STUDENT, 1.0) - soften(TEACHER, 1.0)
        for kind in ("cross_entropy", "kl"):
            np.testing.assert_allclose(gradient(kind), expected, rtol=1e-12, atol=1e-14)
            assert not np.allclose(gradient(kind, 2.0), expected)
        assert not np.allclose(gradient("logit_mse"), expected)


TASK = linear_task()
LARGEST = 4  # client of 20 examples


def delta(client, model, teacher, steps):
    job = LocalJob(0, TASK.offsets[LARGEST], 20, 20, steps)
    data = Data(jnp.asarray(TASK.x), jnp.asarray(TASK.y))
    train = jax.jit(local_training(TASK.lesson, client))
    found = train(data, np.uint32(0), Download(model, teacher), jax.tree.map(jnp.int32, job))
    return np.vstack([found["w"], found["b"]])


def descend(w, teacher, lr, rho, steps):
    """Full-batch descent by hand; the teacher's answers are constants."""
    mine = slice(TASK.offsets[LARGEST], TASK.offsets[LARGEST + 1])
    a, y = np.c_[TASK.x[mine], np.ones(20)], TASK.y[mine]
    start, soft = w, soften(a @ teacher, 1.0)
    for _ in range(steps):
        q = soften(a @ w, 1.0)
        w = w - lr * a.T @ (q - np.eye(CLASSES)[y] + rho * (q - soft)) / 20
    return start - w


def test_the_teacher_is_a_constant_even_when_it_is_the_model_itself():
    client = Local(learning_rate=0.5, batch_size=20, distillation=0.8)
    start, other = RNG.normal(size=(2, FEATURES + 1, CLASSES))
    with jax.enable_x64(True):
        model, teacher = (
            {"w": jnp.asarray(m[:-1]), "b": jnp.asarray(m[-1])} for m in (start, other)
        )
        for sent, matrix in [(model, start), (teacher, other)]:
            found = delta(client, model, sent, steps=3)
            np.testing.assert_allclose(found, descend(start, matrix, 0.5, 0.8, 3), rtol=1e-11)
            assert not np.allclose(found, descend(start, matrix, 0.5, 0.0, 3), rtol=1e-3)


@pytest.mark.parametrize("last_batch", ["fill", "keep"])
def test_the_term_may_be_a_sum_over_the_batch(last_batch):
    """20 examples in batches of 32: filled to 32, or kept as they are."""
    start, other = RNG.normal(size=(2, FEATURES + 1, CLASSES))
    with jax.enable_x64(True):
        model, teacher = (
            {"w": jnp.asarray(m[:-1]), "b": jnp.asarray(m[-1])} for m in (start, other)
        )

        def found(rho, term):
            client = Local(0.5, 32, last_batch, distillation=rho, distillation_term=term)
            return delta(client, model, teacher, steps=1)

        count = 32 if last_batch == "fill" else 20
        np.testing.assert_allclose(found(0.1, "sum"), found(0.1 * count, "mean"), rtol=1e-11)
        assert not np.allclose(found(0.1, "sum"), found(0.1, "mean"), rtol=1e-2)


def test_a_penalty_on_the_weights_is_part_of_the_loss():
    """One step with the penalty |w|^2 adds lr * 2 w0 to the delta."""
    plain = linear_task()
    client = Local(learning_rate=0.1, batch_size=BATCH)
    data = Data(jnp.asarray(plain.x), jnp.asarray(plain.y))
    start = plain.model.init(jax.random.key(0))
    job = jax.tree.map(jnp.int32, LocalJob(0, 0, 4, 4, 1))
    penalised = plain._replace(penalty=lambda w: jnp.sum(w["w"] ** 2) + jnp.sum(w["b"] ** 2))
    without, with_penalty = (
        local_training(task, client)(data, np.uint32(0), Download(start, start), job)
        for task in (plain, penalised)
    )
    for name, weights in start.items():
        np.testing.assert_allclose(
            with_penalty[name] - without[name], 0.2 * weights, rtol=1e-4, atol=1e-6
        )


def noise(key):
    return jnp.zeros(()) if key is None else jax.random.normal(key)


NOISY = TELLTALE._replace(
    model=Model(lambda key: jnp.zeros(2), lambda w, x, key: x * w[0] + noise(key) * w[1]),
    prepare=lambda x, key: jnp.full((len(x), 1), noise(key)),
    loss=lambda logits, y: logits[:, 0],
)


@cache
def noisy_training():
    return jax.jit(local_training(NOISY.lesson, Local(learning_rate=1.0, batch_size=BATCH)))


def drawn(seed, dispatch, steps=4):
    """What the augmentation and the dropout of each local step drew, [steps, 2]."""
    zero = jnp.zeros(2)
    sums = [
        noisy_training()(
            UNITS,
            np.uint32(seed),
            Download(zero, zero),
            jax.tree.map(jnp.int32, LocalJob(dispatch, 0, ROWS, ROWS, count)),
        )
        for count in range(steps + 1)
    ]
    return np.diff(np.array(sums), axis=0)


def test_every_local_step_has_randomness_of_its_own():
    each = np.stack([drawn(seed, dispatch) for seed in (0, 1) for dispatch in (0, 1, 5)])
    assert each.shape == (6, 4, 2) and len(np.unique(each.round(4))) == each.size
    np.testing.assert_array_equal(drawn(1, 5), each[-1])  # by its address, whenever it is asked for


@pytest.mark.parametrize(
    ("local", "line"),
    [
        (Local(None, 4), "Local: learning_rate = None: expected a number"),
        (Local(0.0, 4), "Local: learning_rate=0.0, expected a finite number > 0"),
        (Local(0.1, 4, optimizer=optax.adam(0.1)), "an optimizer, which has its own"),
        (Local(None, 4, optimizer=optax.adam), "Local: optimizer = .*expected one of optax"),
    ],
)
def test_the_learning_rate_is_that_of_sgd_or_of_the_optimizer(local, line):
    with pytest.raises(BadInput, match=line):
        check_local(local)
