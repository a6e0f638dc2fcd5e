"""From settings to the objects that they describe."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stragglers._core import memory_limits
from stragglers._core.errors import BadInput, about, shown
from stragglers._core.random_streams import Purpose
from stragglers.config import settings
from stragglers.planning import (
    availability,
    buffered,
    faults,
    latency,
    population,
    rounds,
    subset,
    tiers,
)
from stragglers.planning.availability import Availability
from stragglers.planning.distributions import DISTRIBUTIONS, Distribution
from stragglers.planning.latency import Factors, Latency, TimeLimit
from stragglers.planning.population import Population
from stragglers.planning.schedule import Schedule
from stragglers.tasks.datasets import images, stackoverflow
from stragglers.tasks.datasets.cifar100_layouts import CIFAR100
from stragglers.tasks.datasets.emnist_layouts import EMNIST
from stragglers.tasks.datasets.handwriting import book


def distribution(given: settings.Distribution, where: str) -> Distribution:
    with about(where):
        return DISTRIBUTIONS[str(given.__struct_config__.tag)](**fields(given))


def clients(task: settings.Task, seed: int) -> Population:
    """The task's clients without its data."""
    who = _everybody(task, seed)
    if isinstance(task, settings.WithData) and task.clients is not None:
        return subset.part(who, subset.chosen(who, task.clients))
    return who


def _everybody(task: settings.Task, seed: int) -> Population:
    match task:
        case settings.Glyphs():
            return book(task.writers, task.data_seed).population
        case settings.Emnist(stragglers=None | 800, straggler_classes=(0, 1, 2, 3, 4), digits=None):
            return population.emnist()
        case settings.Emnist():
            raise BadInput(
                f"task: stragglers={task.stragglers}, straggler_classes={task.straggler_classes}, "
                f"digits={task.digits}: sizes without data are known of the 800 clients and digits "
                "0 to 4 alone, of all images"
            )
        case settings.Cifar100():
            return population.cifar100(task.partition_seed, task.stragglers, task.straggler_classes)
        case settings.StackOverflow() if set(task.straggler_tags) == {"math", "c++"}:
            return population.stackoverflow()
        case settings.StackOverflow():
            raise BadInput(
                f"task: straggler_tags={list(task.straggler_tags)}: sizes without data are known "
                "of the tags math and c++ alone"
            )
        case settings.Fleet(csv=str(file), groups=None):
            return population.from_csv(file)
        case settings.Fleet(csv=None, groups=dict(groups)):
            made_up = {
                name: (group.clients, distribution(group.examples, f"task.groups.{name}.examples"))
                for name, group in groups.items()
            }
            return population.fleet(made_up, seed)
        case _:
            raise BadInput("task: a fleet needs `csv` or `groups`, and not both")


def data_folder(task: settings.Task) -> str:
    """Where a task's data is; empty if it brings its own."""
    if not isinstance(task, settings.WithData):
        return ""
    if task.path is None:
        name = task.__struct_config__.tag
        raise BadInput(
            f"task {name!r} needs its data; set --path DIR (`stragglers data {name}` says which "
            "files)"
        )
    return task.path


def prepare_data(task: settings.Task) -> None:
    """Reads a task's files into the cache, or refuses them, before anything is trained."""
    folder = Path(data_folder(task))
    match task:
        case settings.Emnist():
            images.load(EMNIST, images.find(EMNIST, folder))
        case settings.Cifar100():
            images.load(CIFAR100, images.find(CIFAR100, folder))
        case settings.StackOverflow():
            stackoverflow.prepared(folder, task.straggler_tags, task.vocabulary)


def data_digest(task: settings.Task) -> str | None:
    """Names what a task's files hold, wherever they lie; None if it reads none."""
    if (found := _digest_of_prepared(task)) is None:
        prepare_data(task)
        found = _digest_of_prepared(task)
    return found


def _digest_of_prepared(task: settings.Task) -> str | None:
    folder = Path(data_folder(task))
    match task:
        case settings.Emnist():
            return images.digest(EMNIST, images.find(EMNIST, folder))
        case settings.Cifar100():
            return images.digest(CIFAR100, images.find(CIFAR100, folder))
        case settings.StackOverflow():
            return stackoverflow.digest(folder, task.straggler_tags, task.vocabulary)
        case _:
            return None


def factors(given: settings.Latency) -> dict[str, Factors] | Factors:
    """The latency factors of each group, or of everybody."""
    match given:
        case settings.PerExample():
            return latency.PER_EXAMPLE
        case settings.PerDomain():
            return latency.PER_DOMAIN
        case settings.Groups():
            return {
                name: Factors(
                    *(
                        distribution(getattr(group, factor), f"latency.groups.{name}.{factor}")
                        for factor in Factors._fields
                    )
                )
                for name, group in given.groups.items()
            }


def check(experiment: settings.Experiment) -> None:
    """Refuses settings that contradict each other, before anything is loaded or drawn for them."""
    given, updates = experiment.schedule, experiment.updates
    _check_room(experiment)
    factors(experiment.latency)
    _check_limit(given.time_limit)
    if isinstance(given, settings.Buffered):
        buffered.check(
            buffer=given.buffer,
            concurrency=given.concurrency,
            updates=updates,
            client_timeout=given.client_timeout,
            minimum=given.minimum,
        )
    else:
        rounds.check(
            goal=given.goal,
            cohort=cohort(given),
            updates=updates,
            late_seconds=given.late_seconds,
            late_rounds=given.late_rounds,
            round_timeout=given.round_timeout,
            minimum=given.minimum,
        )
    _check_late(given, experiment.algorithm)
    weight = experiment.aggregation
    if weight.participation == "corrected" and weight.normalise != "weight":
        raise BadInput(
            f"aggregation.participation='corrected' with normalise='{weight.normalise}' "
            "would make steps as much longer as clients are more than reports; leave "
            "`normalise` out"
        )
    _check_label_skew(experiment)


def _check_label_skew(experiment: settings.Experiment) -> None:
    """Next words have no class each, and a client's share of a vocabulary is not what is skewed."""
    given = experiment.client.label_skew if experiment.client else None
    if given is not None and isinstance(experiment.task, settings.StackOverflow):
        raise BadInput(
            f"client.label_skew.kind = {shown(given.__struct_config__.tag)}: task "
            "'stackoverflow' predicts words, and its examples have no class each. "
            "Leave client.label_skew out."
        )


def _check_late(given: settings.Schedule, algorithm: settings.Algorithm | None) -> None:
    """Who waits for late reports must use them, and FeAST has nothing to learn without."""
    waits = {
        name: wait
        for name in ("late_seconds", "late_rounds")
        if (wait := getattr(given, name, None)) is not None
    }
    if isinstance(algorithm, settings.Feast) and not waits:
        raise BadInput("feast learns from late reports; set schedule.late_seconds, its tau_max")
    if isinstance(algorithm, settings.SemiAsync) and isinstance(given, settings.Buffered):
        raise BadInput(
            "semi-async has rounds, of a buffer nobody is late; set schedule.kind to "
            "'over_selected', or take fedbuff"
        )
    if isinstance(algorithm, settings.SemiAsync) and "late_rounds" not in waits:
        raise BadInput(
            "semi-async takes late reports of so many rounds; set schedule.late_rounds"
            + (", and no late_seconds" if waits else "")
        )
    if isinstance(algorithm, settings.FedAvg | settings.FedBuff):
        for name, wait in waits.items():
            raise BadInput(
                f"schedule.{name}={wait:g}, but {algorithm.__struct_config__.tag} uses "
                "no late report; leave it out"
            )


def _check_room(experiment: settings.Experiment) -> None:
    """Refuses clients and dispatches that this machine has no memory for."""
    match experiment.task:
        case settings.Glyphs(writers=writers):
            memory_limits.check(
                f"task.writers: {writers:,} writers", writers, memory_limits.WRITER, "lower it"
            )
        case settings.Fleet(groups=dict(groups)):
            clients = sum(group.clients for group in groups.values())
            memory_limits.check(
                f"task.groups: {clients:,} clients",
                clients,
                memory_limits.CLIENT,
                "lower `clients`",
            )
    given, updates = experiment.schedule, experiment.updates
    if isinstance(given, settings.Buffered):
        dispatches, remedy = given.concurrency + updates, "lower it or schedule.concurrency"
    else:
        dispatches = updates // given.goal * cohort(given)
        remedy = "lower it or schedule.cohort"
    memory_limits.check(
        f"updates: the {dispatches:,} dispatches of {updates:,} updates",
        dispatches,
        memory_limits.DISPATCH,
        remedy,
    )


def _check_limit(given: settings.TimeLimit | None) -> None:
    if given is not None and (given.seconds is None) == (given.percentile is None):
        raise BadInput("schedule.time_limit: give `seconds` or `percentile`, and not both")
    if given is not None and given.scope == "latency" and given.percentile is not None:
        raise BadInput(
            f"schedule.time_limit: percentile={given.percentile:g} with scope='latency',"
            " but a percentile is one of training times; give `seconds`"
        )


def time_limit(
    given: settings.TimeLimit | None, who: Population, delays: settings.Latency, seed: int
) -> TimeLimit | None:
    if given is None:
        return None
    _check_limit(given)
    seconds = given.seconds
    if given.percentile is not None:
        seconds = latency.percentile_limit(
            who, factors(delays), seed=seed, percentile=given.percentile, **beyond(delays)
        )
    assert seconds is not None
    return TimeLimit(seconds, given.scope, given.fill)


def struck(given: settings.Faults | None, who: Population, seed: int) -> faults.Faults | None:
    """The faults of every dispatch, if there are any."""
    if given is None:
        return None
    shares: dict[faults.Fault, NDArray[np.float64]] = {}
    for name, fault in faults.NAMES.items():
        share = getattr(given, name)
        if isinstance(share, dict):
            with about(f"faults.{name}"):
                shares[fault] = who.by_group(share, 0.0)
        elif share:
            shares[fault] = np.full(who.clients, share)
    for fault, column in (faults.from_csv(given.csv, who) if given.csv else {}).items():
        if fault in shares:
            name = fault.name.lower()
            raise BadInput(f"faults.{name} is given here and in {given.csv}, expected one of them")
        shares[fault] = column
    return faults.faults(shares, seed=seed)


def checking_in(given: dict[str, float] | None, who: Population) -> NDArray[np.float64] | None:
    """How likely each client is to be chosen, against the others; None if all are alike."""
    if given is None:
        return None
    with about("schedule.check_in"):
        weights = who.by_group(given, 1.0)
    return None if weights.min() == weights.max() > 0 else weights


def being_there(
    given: settings.Availability | None, who: Population, seed: int
) -> Availability | None:
    """When each client is there; None if all always are."""
    if given is None:
        return None
    common: dict[str, Any] = {"cycle": given.cycle, "leaving": given.leaving}
    with about("availability"):
        if given.csv is not None and given.groups is None:
            return availability.from_csv(given.csv, who, **common)
        if given.groups is not None and given.csv is None:
            hours = {
                name: availability.Hours(**fields(each)) for name, each in given.groups.items()
            }
            return availability.by_group(who, hours, seed=seed, **common)
        raise BadInput("give `groups` or `csv`, and not both")


def timetable(experiment: settings.Experiment, who: Population) -> Schedule:
    """The experiment's schedule for these clients."""
    given, seed = experiment.schedule, experiment.seed
    delays = partial(
        latency.latency,
        who,
        factors(experiment.latency),
        seed=seed,
        epochs=experiment.client.epochs if experiment.client else 1,
        limit=time_limit(given.time_limit, who, experiment.latency, seed),
        **beyond(experiment.latency),
    )
    delay: Latency = delays()
    common: dict[str, Any] = {
        "seed": seed,
        "updates": experiment.updates,
        "minimum": given.minimum,
        "faults": struck(experiment.faults, who, seed),
        "check_in": checking_in(given.check_in, who),
        "busy": given.busy,
        "there": being_there(experiment.availability, who, seed),
    }
    if isinstance(given, settings.Buffered):
        return buffered.buffered(
            who.clients,
            delay,
            **common,
            buffer=given.buffer,
            concurrency=given.concurrency,
            refill=given.refill,
            client_timeout=given.client_timeout,
        )
    return rounds.over_selected(
        who.clients,
        delay,
        **common,
        goal=given.goal,
        cohort=cohort(given),
        count=given.count,
        late_seconds=given.late_seconds,
        late_rounds=given.late_rounds,
        round_timeout=given.round_timeout,
        tier=None
        if given.tiers is None
        else tiers.by_profile(delays(purpose=Purpose.PROFILE), who.clients, given.tiers),
    )


@np.errstate(over="ignore")  # beyond all numbers is never
def latencies(experiment: settings.Experiment, who: Population) -> NDArray[np.float64]:
    """One epoch of each client, in seconds."""
    communication, overhead, training = latency.one_epoch(
        who, factors(experiment.latency), seed=experiment.seed, **beyond(experiment.latency)
    )
    return communication + overhead + training


def beyond(given: settings.Latency) -> dict[str, Any]:
    """What the paper's latency has not; traffic is in times of one model each way."""
    down, up = given.download_share, 1 - given.download_share
    traffic = down * given.download + up * given.upload
    return {
        "persistence": given.persistence,
        "correlation": given.correlation,
        "traffic": traffic,
        "by_tokens": given.cost == "tokens",
    }


def check_trainable(experiment: settings.Experiment) -> None:
    """Refuses what can only be planned, or not even that, before anything is loaded for it."""
    check(experiment)
    if isinstance(experiment.task, settings.Glyphs):
        writers = experiment.task.writers
        what = f"task.writers: the drawings of {writers:,} writers"
        memory_limits.check(what, writers, memory_limits.DRAWN, "lower it")
    if isinstance(experiment.task, settings.Fleet):
        raise BadInput("a fleet has no data to train on; `stragglers plan` it")
    for name in ("client", "server", "algorithm"):
        if getattr(experiment, name) is None:
            raise BadInput(f"[{name}] is missing; training needs it, planning does not")
    history_length(experiment)


def history_length(experiment: settings.Experiment) -> int:
    """FARe-DUST's k is how long its schedule waits; others keep no history."""
    if not isinstance(experiment.algorithm, settings.FareDust):
        return 1
    given = experiment.schedule
    if isinstance(given, settings.OverSelected) and given.late_rounds is not None:
        return given.late_rounds
    raise BadInput("fare-dust learns from late reports; set schedule.late_rounds, its k")


def cohort(given: settings.OverSelected) -> int:
    """B_t, given itself or as a ratio to the goal."""
    if given.cohort is not None and given.over_selection is not None:
        raise BadInput(
            f"schedule: cohort={given.cohort} and over_selection="
            f"{given.over_selection}, expected one of them"
        )
    if given.cohort is not None:
        return given.cohort
    # The least that is at least the ratio; 50 * 1.1 is 55 and a bit, and means 55.
    return math.ceil(given.goal * (given.over_selection or 1) * (1 - 1e-12))


def fields(given: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(given, name) for name in given.__struct_fields__}
