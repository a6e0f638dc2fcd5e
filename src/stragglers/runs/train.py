"""An experiment from its settings to a simulation: data, schedule, server, local training."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

import jax
import numpy as np
import optax
from msgspec import structs

from stragglers._core.errors import BadInput
from stragglers.algorithms import from_file
from stragglers.algorithms.base import Algorithm, By, Mean, all_of, with_ema
from stragglers.algorithms.fare_dust import fare_dust
from stragglers.algorithms.feast import feast
from stragglers.algorithms.fedavg import fedavg, semi_async
from stragglers.config import build, checks, settings, step_weights, task_files
from stragglers.planning import subset
from stragglers.planning.faults import corrupted
from stragglers.planning.population import Clients
from stragglers.planning.schedule import Fate, Schedule
from stragglers.simulator.label_skew import KINDS, LabelSkew
from stragglers.simulator.local_training import Local, check_countable
from stragglers.simulator.memory import check_history
from stragglers.simulator.prepare import Trial
from stragglers.simulator.simulate import Simulation
from stragglers.tasks.base import Task, of_clients
from stragglers.tasks.cifar100 import cifar100
from stragglers.tasks.emnist import emnist
from stragglers.tasks.glyphs import glyphs
from stragglers.tasks.stackoverflow import stackoverflow

OPTIMIZERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "sgd": lambda learning_rate, momentum: optax.sgd(learning_rate, momentum or None),
    "adam": optax.adam,
    "yogi": optax.yogi,
    "adagrad": lambda learning_rate, eps: optax.adagrad(learning_rate, 0.0, eps),
}


class Prepared(NamedTuple):
    """A trial of an experiment with its data and its schedule."""

    experiment: settings.Experiment
    task: Task
    schedule: Schedule


def prepare(experiment: settings.Experiment, together: int = 1) -> Prepared:
    """Everything that can be wrong is found here, before training `together` of its trials."""
    checks.check_trainable(experiment)
    assert experiment.client and experiment.server and experiment.algorithm
    if isinstance(experiment.algorithm, settings.Own):  # others have nothing to refuse
        algorithm(experiment.server, experiment.algorithm, experiment.aggregation.normalise, 1)
    who = task(experiment.task)
    teachers = checks.history_length(experiment)
    model = jax.eval_shape(who.model.init, jax.random.key(0))
    check_history(teachers * together, model)
    schedule = build.schedule_of(experiment, who.population)
    counts = schedule.fate == Fate.ON_TIME
    if np.all(corrupted(schedule.fault[counts])):
        raise BadInput(
            f"all {np.sum(counts):,} reports that would count are corrupted by the faults that are "
            "set, and nothing can be learned; lower faults.nan, faults.inf or faults.huge"
        )
    used = counts | (schedule.fate == Fate.LATE)
    if not np.any(
        step_weights.local_steps(experiment, schedule)[used & ~corrupted(schedule.fault)]
    ):
        raise BadInput(
            f"none of the {np.sum(used):,} reports that would count has a local step, and nothing "
            f"can be learned; a batch is {experiment.client.batch_size} examples: lower "
            "client.batch_size, or raise the time limit or client.epochs"
        )
    check_countable(schedule.examples[used], experiment.client.batch_size)
    return Prepared(experiment, who, schedule)


def simulation(trials: Sequence[Prepared]) -> Simulation:
    """Trials in one program, equal but for their seeds and what algorithms have aside.

    Of each seed, one after another, there are the same algorithms in the same order.
    """
    experiment, who, schedule = trials[0]
    assert experiment.client and experiment.server  # prepared
    weight, teachers = experiment.aggregation, checks.history_length(experiment)
    by_seed = [tuple(same) for _, same in groupby(trials, lambda trial: trial.experiment.seed)]
    given, *others = [tuple(one.experiment.algorithm for one in same) for same in by_seed]
    assert all(other == given for other in others)
    return Simulation(
        who,
        [Trial(same[0].schedule, same[0].experiment.seed) for same in by_seed],
        algorithms(experiment.server, given, weight.normalise, teachers),
        local(experiment.client, experiment.precision == "bfloat16"),
        evaluate_at=_evenly(schedule.steps, experiment.evaluations),
        weigh=step_weights.weighing(weight),
        lanes=experiment.lanes,
        devices=experiment.threads if jax.default_backend() == "cpu" else None,
        curve_examples=experiment.curve_examples,
        precision="float32" if experiment.precision == "float32" else None,
    )


def task(given: settings.Task) -> Task:
    """The task with its data; equal settings give the same object."""
    if isinstance(given, settings.WithData) and given.clients is not None:
        return _part(given, given.clients)
    return _whole(given)


@cache
def _part(given: settings.Task, clients: int) -> Task:
    whole = _whole(given)
    return of_clients(whole, subset.chosen(whole.population, clients))


def _whole(given: settings.Task) -> Task:
    folder = task_files.data_folder(given)
    match given:
        case settings.Glyphs():
            return glyphs(given.writers, given.data_seed)
        case settings.Emnist():
            return emnist(
                folder,
                stragglers=given.stragglers,
                straggler_classes=given.straggler_classes,
                profile=given.profile,
                digits=given.digits,
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
        case Clients():
            raise BadInput("task 'fleet' has no data; it can be planned but not trained")


@cache
def local(given: settings.Client, bfloat16: bool = False) -> Local:
    """How clients train; equal settings give the same object, and so the same program."""
    return Local(
        learning_rate=given.learning_rate,
        batch_size=given.batch_size,
        last_batch=given.last_batch,
        distillation=given.distillation,
        distillation_loss=given.distillation_loss,
        distillation_term=given.distillation_term,
        temperature=given.temperature,
        proximal=given.proximal,
        bfloat16=bfloat16,
        label_skew=_label_skew(given.label_skew),
    )


def _label_skew(given: settings.LabelSkew | None) -> LabelSkew | None:
    if given is None:
        return None
    return KINDS[str(given.__struct_config__.tag)](**structs.asdict(given))


@cache
def algorithms(
    server: settings.Server, given: tuple[settings.Algorithm, ...], normalise: By, teachers: int
) -> Algorithm:
    """One server with the models of all; equal settings give the same object."""
    each = [algorithm(server, one, normalise, teachers) for one in given]
    return all_of(each) if len(each) > 1 else each[0]


@cache
def algorithm(
    server: settings.Server, given: settings.Algorithm, normalise: By, teachers: int
) -> Algorithm:
    """The server; equal settings give the same object, and so the same program."""
    tag = str(server.__struct_config__.tag)
    optimizer = OPTIMIZERS[tag](**structs.asdict(server))
    mean = Mean(normalise)
    match given:
        case settings.FedAvg() | settings.FedBuff():
            chosen = fedavg(optimizer, mean)
        case settings.SemiAsync():
            chosen = semi_async(optimizer, mean)
        case settings.FareDust():
            chosen = fare_dust(
                optimizer,
                k=teachers,
                history=given.history,
                teacher_step=given.teacher_step,
                teacher_lr=given.teacher_lr,
                average=given.average,
                mean=mean,
            )
        case settings.Feast():
            chosen = feast(optimizer, beta=given.beta, kappa=given.kappa, mean=mean)
        case settings.Own():
            chosen = from_file.algorithm(
                given.file, given.function, optimizer, mean, given.arguments
            )
    return with_ema(chosen, given.ema)


def _evenly(steps: int, points: int) -> list[int]:
    return sorted({int(step) for step in np.rint(np.linspace(0, steps, points + 1))[1:]})
