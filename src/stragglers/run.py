"""An experiment from its settings to its result: build the parts, train, evaluate."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import optax

from stragglers import build, settings
from stragglers.algorithms.base import Algorithm, Mean, with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg
from stragglers.client import Client
from stragglers.errors import BadInput
from stragglers.memory import check_history
from stragglers.simulate import Progress, Result, simulate
from stragglers.tasks.base import Task
from stragglers.tasks.cifar100 import cifar100
from stragglers.tasks.emnist import emnist
from stragglers.tasks.glyphs import glyphs
from stragglers.tasks.stackoverflow import stackoverflow
from stragglers.weights import report_weights

OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "sgd": lambda learning_rate, momentum: optax.sgd(learning_rate, momentum or None),
    "adam": optax.adam,
    "yogi": optax.yogi,
    "adagrad": lambda learning_rate, eps: optax.adagrad(learning_rate, 0.0, eps),
}


def run(
    experiment: settings.Experiment, on_progress: Callable[[Progress], None] | None = None
) -> Result:
    """Trains one trial."""
    client = _required(experiment.client, "client")
    who = task(experiment.task)
    schedule = build.timetable(experiment, who.population)
    teachers = history_length(experiment)
    check_history(teachers, jax.eval_shape(who.model.init, jax.random.key(0)))
    weight = experiment.aggregation
    return simulate(
        who,
        schedule,
        algorithm(_required(experiment.server, "server"),
                  _required(experiment.algorithm, "algorithm"), weight.normalise, teachers),
        local(client),
        seed=experiment.seed,
        evaluate_at=_evenly(schedule.steps, experiment.evaluations),
        weigh=partial(report_weights, by=weight.weight, discount=weight.staleness,
                      exponent=weight.exponent),
        teachers=teachers,
        time_limited=experiment.schedule.time_limit is not None,
        curve_examples=experiment.curve_examples,
        on_progress=on_progress,
    )  # fmt: skip


def task(given: settings.Task) -> Task:
    folder = build.data_folder(given)
    match given:
        case settings.Glyphs():
            return glyphs(given.writers, given.data_seed)
        case settings.Emnist():
            return emnist(
                folder,
                stragglers=given.stragglers,
                straggler_classes=given.straggler_classes,
                profile=given.profile,
            )
        case settings.Cifar100():
            return cifar100(
                folder,
                stragglers=given.stragglers,
                straggler_classes=given.straggler_classes,
                profile=given.profile,
                partition_seed=given.partition_seed,
            )
        case settings.StackOverflow():
            return stackoverflow(
                folder,
                straggler_tags=given.straggler_tags,
                vocabulary=given.vocabulary,
                accuracy=given.accuracy,
                profile=given.profile,
            )
        case settings.Fleet():
            raise BadInput("task 'fleet' has no data; it can be planned but not trained")


@cache
def local(given: settings.Client) -> Client:
    """How clients train; equal settings give the same object, and so the same program."""
    return Client(
        learning_rate=given.learning_rate,
        batch_size=given.batch_size,
        last_batch=given.last_batch,
        distillation=given.distillation,
        distillation_loss=given.distillation_loss,
        temperature=given.temperature,
        proximal=given.proximal,
    )


@cache
def algorithm(
    server: settings.Server, given: settings.Algorithm, normalise: Any, teachers: int
) -> Algorithm:
    """The server; equal settings give the same object, and so the same program."""
    tag = str(server.__struct_config__.tag)
    optimizer = OPTIMIZERS[tag](**build.fields(server))
    mean = Mean(normalise)
    match given:
        case settings.FedAvg() | settings.FedBuff():
            chosen = fedavg(optimizer, mean)
        case settings.FareDust():
            chosen = fare_dust(
                optimizer, k=teachers, history=given.history, teacher_step=given.teacher_step,
                teacher_lr=given.teacher_lr, mean=mean,
            )  # fmt: skip
        case settings.Feast():
            chosen = feast(optimizer, beta=given.beta, kappa=given.kappa, mean=mean)
    return with_ema(chosen, given.ema)


def history_length(experiment: settings.Experiment) -> int:
    """FARe-DUST's k is how long its schedule waits; others keep no history."""
    if not isinstance(experiment.algorithm, settings.FareDust):
        return 1
    given = experiment.schedule
    if isinstance(given, settings.OverSelected) and given.late_rounds is not None:
        return given.late_rounds
    raise BadInput("fare-dust learns from late reports; set schedule.late_rounds, its k")


def _evenly(steps: int, points: int) -> list[int]:
    return sorted({int(step) for step in np.rint(np.linspace(0, steps, points + 1))[1:]})


def _required(section: Any, name: str) -> Any:
    if section is None:
        raise BadInput(f"[{name}] is missing; training needs it, planning does not")
    return section
