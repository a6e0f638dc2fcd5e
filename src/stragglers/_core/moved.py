"""One line for files that import a module by the path it had before version 0.2.0."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

NEW_PATHS = {
    "stragglers.trees": "stragglers.algorithms.trees",
    "stragglers.flower": "stragglers.serving.flower",
    "stragglers.client": "stragglers.simulator.local_training",
    "stragglers.coordinator": "stragglers.simulator.coordinator",
    "stragglers.deploy": "stragglers.serving.deployment",
}


class Moved(MetaPathFinder):
    """Finds no module; it names the new path of one that is asked for by its old path."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname in NEW_PATHS:
            raise ModuleNotFoundError(
                f"{fullname} is {NEW_PATHS[fullname]} since version 0.2.0; change the import",
                name=fullname,
            )


def install() -> None:
    """Asked last, so that modules that exist are never looked for here."""
    if not any(isinstance(finder, Moved) for finder in sys.meta_path):
        sys.meta_path.append(Moved())
