"""One line for files that import a module, or use a name, by the path of version 0.1.0."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import NoReturn

# What algorithms, Flower apps and scripts of users import; most of it is in `stragglers` today.
NEW_PATHS = {
    "stragglers.trees": "stragglers.algorithms.trees",
    "stragglers.flower": "stragglers.serving.flower",
    "stragglers.live": "stragglers.serving.serve",
    "stragglers.deploy": "stragglers.serving.deployment",
    "stragglers.coordinator": "stragglers.simulator.coordinator",
    "stragglers.client": "stragglers.simulator.local_training",
    "stragglers.simulate": "stragglers.simulator.simulate",
    "stragglers.course": "stragglers.simulator.trial_state",
    "stragglers.interpret": "stragglers.simulator.interpreter",
    "stragglers.metrics": "stragglers.simulator.metrics",
    "stragglers.latency": "stragglers.planning.latency",
    "stragglers.population": "stragglers.planning.population",
    "stragglers.distributions": "stragglers.planning.distributions",
    "stragglers.faults": "stragglers.planning.faults",
    "stragglers.availability": "stragglers.planning.availability",
    "stragglers.rounds": "stragglers.planning.rounds",
    "stragglers.buffer": "stragglers.planning.buffered",
    "stragglers.schedule": "stragglers.planning.schedule",
    "stragglers.plan": "stragglers.planning.summary",
    "stragglers.weights": "stragglers.planning.report_weights",
    "stragglers.tiers": "stragglers.planning.tiers",
    "stragglers.subset": "stragglers.planning.subset",
    "stragglers.partition": "stragglers.planning.cifar_partition",
    "stragglers.fit": "stragglers.planning.fit.estimate",
    "stragglers.logs": "stragglers.planning.fit.logs",
    "stragglers.models": "stragglers.tasks.models",
    "stragglers.data": "stragglers.tasks.datasets",
    "stragglers.handwriting": "stragglers.tasks.datasets.handwriting",
    "stragglers.draws": "stragglers._core.random_streams",
    "stragglers.shuffle": "stragglers._core.shuffle",
    "stragglers.errors": "stragglers._core.errors",
    "stragglers.settings": "stragglers.config.settings",
    "stragglers.build": "stragglers.config.build",
    "stragglers.run": "stragglers.runs.train",
    "stragglers.records": "stragglers.runs.records",
    "stragglers.recording": "stragglers.runs.recorder",
    "stragglers.trials": "stragglers.runs.trials",
    "stragglers.tune": "stragglers.runs.tune",
    "stragglers.own": "stragglers.algorithms.from_file",
}
# Names that are called otherwise where their modules are now, or that a package no longer has.
NEW_NAMES = {
    "stragglers.client": "its Client is Local",
    "stragglers.coordinator": "its Rounds and Buffer are stragglers.Rounds and stragglers.Buffer",
    "stragglers.rounds": "its over_selected is stragglers.schedule with stragglers.Rounds",
    "stragglers.buffer": "its buffered is stragglers.schedule with stragglers.Buffer",
    "stragglers.live": "its serve is stragglers.serve",
    "stragglers.simulate": "its simulate is stragglers.simulate",
}
NEW_ATTRIBUTES = {
    "stragglers.config.read": "stragglers.config.catalog.read",
    "stragglers.config.presets": "stragglers.config.catalog.presets",
    "stragglers.config.experiment_from": "stragglers.config.documents.settings_from",
    "stragglers.config.override": "stragglers.config.documents.override",
    "stragglers.config.override_all": "stragglers.config.documents.override_all",
    "stragglers.config.completed": "stragglers.config.documents.completed",
}


class Moved(MetaPathFinder):
    """Finds no module; it names the new path of one that is asked for by its old path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in NEW_PATHS:
            also = f" ({NEW_NAMES[fullname]})" if fullname in NEW_NAMES else ""
            # Without `name`, or `from stragglers import trees` would pass over it.
            raise ModuleNotFoundError(
                f"{fullname} is {NEW_PATHS[fullname]} since version 0.2.0; change the import{also}"
            )


def attribute(module: str, name: str) -> NoReturn:
    """Names the new path of what a module had in version 0.1.0."""
    if new := NEW_ATTRIBUTES.get(f"{module}.{name}"):
        raise AttributeError(f"{module}.{name} is {new} since version 0.2.0; change the import")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")


def install() -> None:
    """Asked last, so that modules that exist are never looked for here."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.append(Moved())
