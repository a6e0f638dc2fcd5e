"""From an experiment's settings to its clients, its fleet and its schedule."""

from stragglers._core.errors import BadInput
from stragglers.config import settings
from stragglers.planning import paper_populations, population, subset
from stragglers.planning.fleet import Fleet
from stragglers.planning.make_schedule import schedule
from stragglers.planning.population import Clients, Population
from stragglers.planning.schedule import Schedule
from stragglers.tasks.datasets.handwriting import book


def clients(task: settings.Task, seed: int) -> Population:
    """The task's clients without its data."""
    whole = _all_clients(task, seed)
    if isinstance(task, settings.WithData) and task.clients is not None:
        return subset.part(whole, subset.chosen(whole, task.clients))
    return whole


def _all_clients(task: settings.Task, seed: int) -> Population:
    match task:
        case settings.Glyphs():
            return book(task.writers, task.data_seed).population
        case settings.Emnist(stragglers=None | 800, straggler_classes=(0, 1, 2, 3, 4), digits=None):
            return paper_populations.emnist()
        case settings.Emnist():
            raise BadInput(
                f"task: stragglers={task.stragglers}, straggler_classes={task.straggler_classes}, "
                f"digits={task.digits}: sizes without data are known of the 800 clients and digits "
                "0 to 4 alone, of all images"
            )
        case settings.Cifar100():
            return paper_populations.cifar100(
                task.partition_seed, task.stragglers, task.straggler_classes
            )
        case settings.StackOverflow() if set(task.straggler_tags) == {"math", "c++"}:
            return paper_populations.stackoverflow()
        case settings.StackOverflow():
            raise BadInput(
                f"task: straggler_tags={list(task.straggler_tags)}: sizes without data are known "
                "of the tags math and c++ alone"
            )
        case Clients():
            return population.drawn(task, seed)


def fleet(experiment: settings.Experiment, clients: Population) -> Fleet:
    """The experiment's fleet of these clients."""
    return Fleet(clients, experiment.latency, experiment.faults, experiment.availability)


def schedule_of(experiment: settings.Experiment, clients: Population) -> Schedule:
    """The experiment's schedule for these clients."""
    return schedule(
        fleet(experiment, clients),
        experiment.schedule,
        updates=experiment.updates,
        seed=experiment.seed,
        epochs=experiment.client.epochs if experiment.client else 1.0,
    )
