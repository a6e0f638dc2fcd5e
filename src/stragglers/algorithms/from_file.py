"""Algorithms of one's own: a function in a Python file, named by settings.

    [algorithm]
    name = "own"
    file = "mine.py"              beside the settings
    function = "with_momentum"    (server optimizer, mean, **arguments) -> Algorithm
    arguments = { decay = 0.9 }

All that trains, tunes, resumes and tabulates takes it like one of the package's. A file is imported
by what is in it, once, and runs with all rights of whoever names it.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import optax

from stragglers._core.errors import BadInput, did_you_mean, shown
from stragglers.algorithms.base import Algorithm, Mean


def algorithm(
    file: str,
    function: str,
    server: optax.GradientTransformation,
    mean: Mean,
    arguments: dict[str, Any],
) -> Algorithm:
    """What the function makes of its arguments; whatever is wrong with either is one line."""
    build = _function(file, function)
    given = ", ".join(f"{name}={shown(value)}" for name, value in arguments.items())
    call = f"{file}: {function}(server, mean{', ' if given else ''}{given})"
    try:
        made = build(server, mean, **arguments)
    except BadInput:
        raise
    except Exception as error:  # anybody's code
        raise BadInput(f"{call} failed ({_said(error)})") from error
    if not isinstance(made, Algorithm):
        raise BadInput(f"{call} returned {shown(made)}, expected an Algorithm (base.py)")
    return made


def _function(file: str, name: str) -> Callable[..., Any]:
    try:
        digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"{file}: cannot be read as a Python file ({why})") from None
    module = _imported(file, digest)
    found = getattr(module, name, None)
    if callable(found):
        return found
    known = [
        key
        for key, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]
    raise BadInput(f"{file} has no function {name!r}; {did_you_mean(name, known)}")


@cache
def _imported(file: str, digest: str) -> Any:
    name = f"stragglers_own_{digest}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadInput(f"{file}: expected a Python file, with a name that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # as whoever looks up where a class is from expects
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anybody's code
        del sys.modules[name]
        raise BadInput(f"{file}: cannot be imported ({_said(error)})") from error
    return module


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
