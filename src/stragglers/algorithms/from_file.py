"""Algorithms of one's own: a function in a Python file, named by settings.

    [algorithm]
    name = "own"
    file = "mine.py"              beside the settings
    function = "with_momentum"    (server optimizer, mean, **arguments) -> Algorithm
    arguments = { decay = 0.9 }

All that trains, tunes, resumes and tabulates takes it like one of the package's.
"""

from typing import Any

import optax

from stragglers._core import own_files
from stragglers._core.errors import BadInput, shown
from stragglers.algorithms.base import Algorithm, Mean


def algorithm(
    file: str,
    function: str,
    server: optax.GradientTransformation,
    mean: Mean,
    arguments: dict[str, Any],
) -> Algorithm:
    """What the function makes of its arguments; whatever is wrong with either is one line."""
    first = {"server": server, "mean": mean}
    made = own_files.called(file, function, first, arguments)
    if not isinstance(made, Algorithm):
        call = own_files.call(file, function, first, arguments)
        raise BadInput(f"{call} returned {shown(made)}, expected an Algorithm (base.py)")
    return made
