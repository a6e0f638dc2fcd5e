"""What a client does: local SGD, or another optimizer, from the model it was sent.

    position p = step * batch + 0 .. batch - 1          p runs through epoch after epoch
    example    = first + shuffled(p mod n; dispatch, epoch p // n)
    loss       = mean supervised loss
               + rho * mean psi(student, teacher)       or the batch's sum of psi: cross-entropy, KL
                                                        or logit MSE, over a text's positions a sum
               + nu / 2 * |w - w0|^2                    and the task's penalty on w, if it has one
    w         <- w - lr * gradient,    delta = w0 - w
                 or what another optimizer makes of the gradient; its state begins anew with every
                 client, and its schedule counts local steps

The teacher is the model that the client was sent, unless the algorithm sends another. It is
evaluated without dropout, and no gradient flows into it. rho = 0 or nu = 0 removes the term.

The supervised loss may account for the labels of the client (`label_skew.py`); the other terms see
the model's own logits.
"""

import math
from collections.abc import Callable
from numbers import Real
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, check_type, shown
from stragglers._core.shuffle import hashed, seed_word, shuffled
from stragglers.algorithms import trees
from stragglers.algorithms.base import Download, Params
from stragglers.planning.schedule import batches
from stragglers.simulator import label_skew
from stragglers.simulator.device_mesh import on_all
from stragglers.simulator.label_skew import Balanced, LabelSkew
from stragglers.tasks.base import Lesson, Task


class Local(NamedTuple):
    """How every client trains: SGD, or another optimizer, from the model w0 that it was sent::

        w <- w - learning_rate * gradient of the loss,      delta = w0 - w
        loss = mean supervised loss + distillation * distance to the teacher
             + proximal / 2 * |w - w0|^2

    Attributes:
        learning_rate: Learning rate of local SGD; None with an optimizer, which has its own.
        batch_size: Examples of a local step.
        last_batch: The last batch of a client: filled from a fresh reshuffle, kept short, or
            dropped.
        distillation: Weight rho of distillation towards the teacher.
        distillation_loss: Distance between the logits of client and teacher.
        distillation_term: Reduction of the distance over a batch.
        temperature: Softmax temperature of distillation.
        proximal: Weight nu of the distance to the start, as in FedProx.
        bfloat16: Whether networks compute in bfloat16; weights and gradients keep their precision.
        label_skew: Supervised loss for clients that lack classes; None for plain cross-entropy.
        optimizer: Optimizer of optax in place of SGD. Its state begins anew with every client, so
            that a learning-rate schedule counts a client's local steps.

    Example:
        >>> import stragglers as st
        >>> local = st.Local(learning_rate=0.05, batch_size=20)
        >>> local._replace(label_skew=st.label_skew.Damped(alpha=0.1)).label_skew
        Damped(alpha=0.1)

        Adam with clipped gradients:

        >>> import optax
        >>> adam = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))
        >>> local = st.Local(None, batch_size=20, optimizer=adam)
    """

    learning_rate: float | None
    batch_size: int
    last_batch: Literal["fill", "keep", "drop"] = "fill"
    distillation: float = 0.0
    distillation_loss: Literal["cross_entropy", "kl", "logit_mse"] = "cross_entropy"
    distillation_term: Literal["mean", "sum"] = "mean"
    temperature: float = 1.0
    proximal: float = 0.0
    bfloat16: bool = False
    label_skew: LabelSkew | None = None
    optimizer: optax.GradientTransformation | None = None


def check_local(local: Local) -> None:
    """Refuses what would train nothing, or away from the data; settings.Client has it likewise."""
    check_type("local", local, Local, "st.Local")
    _check_optimizer(local)
    for name in ("temperature", "distillation", "proximal"):
        check_type(f"Local: {name}", getattr(local, name), Real, "a number")
    check_type("Local: label_skew", local.label_skew, (LabelSkew, NoneType), "one of st.label_skew")
    for name, kind in get_type_hints(Local).items():
        value = getattr(local, name)
        if get_origin(kind) is Literal and value not in get_args(kind):
            choices = ", ".join(map(repr, get_args(kind)))
            raise BadInput(f"Local: {name}={shown(value)}, expected one of: {choices}")
    if not isinstance(local.batch_size, int | np.integer) or local.batch_size < 1:
        raise BadInput(f"Local: batch_size={local.batch_size}, expected a whole number >= 1")
    if not 0 < local.temperature < math.inf:
        raise BadInput(f"Local: temperature={local.temperature}, expected a finite number > 0")
    for name in ("distillation", "proximal"):
        if not 0 <= getattr(local, name) < math.inf:
            raise BadInput(f"Local: {name}={getattr(local, name)}, expected a finite number >= 0")
    label_skew.check(local.label_skew)


def _check_optimizer(local: Local) -> None:
    if local.optimizer is None:
        check_type("Local: learning_rate", local.learning_rate, Real, "a number")
        assert local.learning_rate is not None
        if not 0 < local.learning_rate < math.inf:
            raise BadInput(
                f"Local: learning_rate={local.learning_rate}, expected a finite number > 0"
            )
        return
    check_type(
        "Local: optimizer", local.optimizer, optax.GradientTransformation, "one of optax, or None"
    )
    if local.learning_rate is not None:
        raise BadInput(
            f"Local: learning_rate={shown(local.learning_rate)} and an optimizer, which has its "
            "own. Set learning_rate=None."
        )


class Data(NamedTuple):
    """A task's training examples on the device."""

    x: jax.Array
    y: jax.Array
    # Labels of each client, [clients, classes], or of all of them, [classes]; None if no loss asks.
    counts: jax.Array | None = None


def on_device(task: Task, mesh: Mesh | None = None, skew: LabelSkew | None = None) -> Data:
    """A CPU takes the examples where they are, even if that is in a file; text is held once."""
    x = on_all(mesh, np.asarray(task.x))
    y = x if task.y is task.x else on_all(mesh, np.asarray(task.y))
    if label_skew.acting(skew) is None:
        return Data(x, y)
    params = jax.eval_shape(task.model.init, jax.random.key(0))
    classes = classes_of(task.lesson, params, task.x[:1])
    if isinstance(skew, Balanced):
        return Data(x, y, on_all(mesh, label_skew.global_counts(task.y, classes)))
    return Data(x, y, on_all(mesh, label_skew.label_counts(task.y, task.offsets, classes)))


def classes_of(lesson: Lesson, params: Params, x: NDArray[np.generic]) -> int:
    """How many classes a model tells apart."""

    def logits(params: Params, x: jax.Array) -> jax.Array:
        return lesson.model.apply(params, lesson.prepare(x, None), None)

    return jax.eval_shape(logits, params, x).shape[-1]


class LocalJob(NamedTuple):
    """One client's work; scalars, or columns over clients."""

    dispatch: jax.Array  # its number in the schedule: the address of all its randomness
    first: jax.Array  # its first row in the data
    size: jax.Array  # n, its number of examples
    positions: jax.Array  # examples to go through, epochs included
    steps: jax.Array  # batches to train on
    client: jax.Array | None = None  # its row of `Data.counts`, if these have rows


def local_steps(
    positions: NDArray[np.int64], local: Local, cut: NDArray[np.bool_] | bool
) -> NDArray[np.int64]:
    """How many batches fit; clients cut by a time limit drop their unfinished batch."""
    check_countable(positions, local.batch_size)
    return batches(positions, local.batch_size, cut if local.last_batch != "drop" else True)


def check_countable(positions: NDArray[np.int64], batch_size: int) -> None:
    """Programs count positions in 32 bits, those that fill a last batch included."""
    longest, most = int(positions.max(initial=0)), 2**31 - 1 - batch_size
    if longest > most:
        raise BadInput(
            f"a client would go through {longest:,} examples, expected at most {most:,}; lower "
            "`epochs` or the time limit, or check the time per example"
        )


class Batch(NamedTuple):
    row: jax.Array  # of the data
    valid: jax.Array  # within the client's work


class Trained(NamedTuple):
    """A client's weights between two local steps."""

    params: Params
    optimizer: optax.OptState = ()  # plain SGD has none


class LocalSteps(NamedTuple):
    """Local training in pieces, for one client; `vmap` makes it one for each lane."""

    begin: Callable[[Params], optax.OptState]  # of a client's optimizer, from the model it was sent
    batch: Callable[[jax.Array, LocalJob, jax.Array], Batch]  # seed, job, step
    step: Callable[[Data, jax.Array, Download, LocalJob, jax.Array, Trained, Batch], Trained]


def local_steps_of(lesson: Lesson, local: Local) -> LocalSteps:
    """Builds one local step."""
    gradient = jax.grad(_objective(lesson, local))
    skew = label_skew.acting(local.label_skew)

    def begin(params: Params) -> optax.OptState:
        return local.optimizer.init(params) if local.optimizer else ()

    def batch(seed: jax.Array, job: LocalJob, number: jax.Array) -> Batch:
        size = jnp.maximum(jnp.asarray(job.size, jnp.uint32), 1)
        position = jnp.asarray(number, jnp.uint32) * np.uint32(local.batch_size)
        position = position + jnp.arange(local.batch_size, dtype=jnp.uint32)
        dispatch = jnp.asarray(job.dispatch, jnp.uint32)
        epoch = hashed(jnp.asarray(seed, jnp.uint32), dispatch, position // size)
        row = job.first + shuffled(position % size, size, epoch).astype(jnp.int32)
        return Batch(row, position < job.positions)

    def step(
        data: Data,
        seed: jax.Array,
        sent: Download,
        job: LocalJob,
        number: jax.Array,
        trained: Trained,
        examples: Batch,
    ) -> Trained:
        params, state = trained
        key = jax.random.fold_in(jax.random.key(seed), jnp.asarray(job.dispatch, jnp.uint32))
        augment, dropout = jax.random.split(jax.random.fold_in(key, number))
        x, terms = lesson.prepare(data.x[examples.row], augment), (None, None)
        if skew:
            assert data.counts is not None  # on_device(task, mesh, client.label_skew)
            counts = data.counts if job.client is None else data.counts[job.client]
            terms = label_skew.terms(skew, counts, job.size, jnp)
        y = data.y[examples.row]
        g = gradient(params, sent, x, y, examples.valid, dropout, terms)
        if local.optimizer:
            updates, state = local.optimizer.update(g, state, params)
            return Trained(optax.apply_updates(params, updates), state)
        assert local.learning_rate is not None  # check_local
        rate = local.learning_rate
        # Added, not subtracted: a form that a GPU's matrix product can end with.
        return Trained(jax.tree.map(lambda w, dw: -rate * dw + w, params, g))

    return LocalSteps(begin, batch, step)


def _objective(lesson: Lesson, local: Local) -> Callable[..., jax.Array]:
    """Builds the loss of one batch: the three terms of the equations above, and the penalty."""
    psi, keep = _distance(local), local.last_batch == "keep"

    def network(params: Params, x: jax.Array, key: jax.Array | None) -> jax.Array:
        if not local.bfloat16:
            return lesson.model.apply(params, x, key)
        params, x = trees.cast((params, x), jnp.bfloat16)
        return lesson.model.apply(params, x, key).astype(jnp.float32)

    def distillation(
        logits: jax.Array, teacher: Params, x: jax.Array, y: jax.Array, count: jax.Array | int
    ) -> jax.Array:
        taught = psi(logits, jax.lax.stop_gradient(network(teacher, x, None)))
        if lesson.position_weight:
            taught = taught * lesson.position_weight(y)
        rho = local.distillation * (count if local.distillation_term == "sum" else 1)
        return rho * jnp.sum(taught, axis=tuple(range(1, taught.ndim)))

    def objective(
        params: Params,
        sent: Download,
        x: jax.Array,
        y: jax.Array,
        valid: jax.Array,
        key: jax.Array,
        terms: tuple[jax.Array | None, jax.Array | None],
    ) -> jax.Array:
        logits = network(params, x, key)
        losses = lesson.loss(_calibrated(logits, *terms), y)
        count = jnp.maximum(jnp.sum(valid), 1) if keep else len(x)
        if local.distillation:
            losses = losses + distillation(logits, sent.teacher, x, y, count)
        total = jnp.sum(losses, where=valid) / count if keep else jnp.mean(losses)
        if local.proximal:
            drift = trees.subtract(params, sent.model)
            total = total + local.proximal / 2 * _square(drift)
        return total + lesson.penalty(params) if lesson.penalty else total

    return objective


def local_training(
    lesson: Lesson, local: Local
) -> Callable[[Data, jax.Array, Download, LocalJob], Params]:
    """Builds (data, seed, download, job) -> delta: one client from start to end."""
    steps = local_steps_of(lesson, local)

    def train(data: Data, seed: jax.Array, sent: Download, job: LocalJob) -> Params:
        def step(number: jax.Array, carry: tuple[Trained, Batch]) -> tuple[Trained, Batch]:
            trained, examples = carry
            trained = steps.step(data, seed, sent, job, number, trained, examples)
            return trained, steps.batch(seed, job, number + 1)

        # The next batch is carried, not computed where it is used: XLA would fuse the shuffle
        # into the gather and repeat it for every pixel.
        first = Trained(sent.model, steps.begin(sent.model))
        begin = first, steps.batch(seed, job, jnp.int32(0))
        trained, _ = jax.lax.fori_loop(0, job.steps, step, begin)
        return trees.subtract(sent.model, trained.params)

    return train


def on_own_data(
    lesson: Lesson, local: Local, *, epochs: float = 1, seed: int = 0
) -> Callable[[Any, Any, Any], Params]:
    """Builds (sent, x, y) -> trained weights: a client of a real fleet, on its own data.

    `sent` has a model, its teacher and a dispatch number; with the simulator's seed and numbers a
    client's batches are those of the simulator.
    """
    check_local(local)
    if isinstance(local.label_skew, Balanced):
        raise BadInput(
            "client: label_skew = Balanced(): a real client knows its own labels alone. Give "
            "another one."
        )
    skew = label_skew.acting(local.label_skew)
    train = jax.jit(local_training(lesson, local))

    def trained(sent: Any, x: Any, y: Any) -> Params:
        if len(x) == 0:
            return sent.model
        positions = np.array([int(epochs * len(x))])
        steps = local_steps(positions, local, cut=False)
        job = LocalJob(*map(jnp.int32, (sent.dispatch, 0, len(x), positions[0], steps[0])))
        data = Data(jnp.asarray(x), jnp.asarray(y))
        if skew:
            classes = classes_of(lesson, sent.model, x[:1])
            counts = label_skew.label_counts(np.asarray(y), np.array([0, len(y)]), classes)
            data = data._replace(counts=jnp.asarray(counts[0]))
        download = Download(*(jax.tree.map(jnp.asarray, w) for w in (sent.model, sent.teacher)))
        delta = train(data, seed_word(seed), download, job)
        return trees.subtract(download.model, delta)

    return trained


def _calibrated(logits: jax.Array, factor: jax.Array | None, addend: jax.Array | None) -> jax.Array:
    """What the supervised loss sees of the logits; see label_skew.py."""
    if factor is not None:
        logits = logits * factor.astype(logits.dtype)
    return logits if addend is None else logits + addend.astype(logits.dtype)


def _distance(local: Local) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """psi of each prediction: of an example, or of each position of one."""
    t = local.temperature

    def cross_entropy(student: jax.Array, teacher: jax.Array) -> jax.Array:
        soft = jax.nn.softmax(teacher / t)
        return -jnp.sum(soft * jax.nn.log_softmax(student / t), axis=-1)

    def kl(student: jax.Array, teacher: jax.Array) -> jax.Array:
        soft = jax.nn.softmax(teacher / t)
        ratio = jax.nn.log_softmax(teacher / t) - jax.nn.log_softmax(student / t)
        return jnp.sum(soft * ratio, axis=-1)

    def logit_mse(student: jax.Array, teacher: jax.Array) -> jax.Array:
        return jnp.mean(jnp.square(student - teacher), axis=-1)

    return {"cross_entropy": cross_entropy, "kl": kl, "logit_mse": logit_mse}[
        local.distillation_loss
    ]


def _square(tree: Params) -> jax.Array:
    return jnp.asarray(sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)))
