"""Federated learning with slow clients: time is data.

A schedule says which client starts when, from which model version, and which server step its report
meets. It is a table made before any training.
"""

import importlib
from typing import Any

from stragglers._core import moved
from stragglers._core.version import __version__

__all__ = ["__version__", "trees"]

moved.install()
_HOMES = {"trees": "stragglers.algorithms.trees"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return importlib.import_module(_HOMES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
