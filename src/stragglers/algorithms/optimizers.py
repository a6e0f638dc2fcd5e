"""Optimizers and learning-rate schedules of optax, by name.

optimizer("lamb", rate, {"weight_decay": 0.1})   optax.lamb(rate, weight_decay=0.1)
rate("cosine_decay_schedule", 0.1, {"decay_steps": 30})   optax.cosine_decay_schedule(0.1, ...)
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import optax

from stragglers._core.errors import BadInput, did_you_mean

Rate = float | optax.Schedule


def optimizer(
    name: str, learning_rate: Rate, arguments: Mapping[str, Any], where: str
) -> optax.GradientTransformation:
    """An optimizer of optax; `where` is the section of settings that names it."""
    made = _made("optimizer", name, "learning_rate", learning_rate, arguments, where)
    if not isinstance(made, optax.GradientTransformation):
        raise BadInput(f"{where}.optimizer: optax.{name} returned no optimizer. Name another one.")
    return made


def rate(name: str, value: float, arguments: Mapping[str, Any], where: str) -> optax.Schedule:
    """A learning-rate schedule of optax that begins with a value."""
    return _made("schedule", name, "init_value", value, arguments, where)


def _made(
    kind: str, name: str, first: str, value: Any, arguments: Mapping[str, Any], where: str
) -> Any:
    known = _beginning_with(first)
    if name not in known:
        raise BadInput(f"{where}: optax has no {kind} {name!r}; {did_you_mean(name, known)}")
    others = [*inspect.signature(known[name]).parameters][1:]
    for argument in arguments:
        if argument not in others:
            raise BadInput(
                f"{where}: optax.{name} has no argument {argument!r}; "
                f"{did_you_mean(argument, others)}"
            )
    try:
        return known[name](value, **arguments)
    except Exception as error:
        raise BadInput(f"{where}: optax.{name} refuses its arguments ({error}).") from None


@cache
def _beginning_with(first: str) -> dict[str, Callable[..., Any]]:
    """What optax offers whose first argument is named so."""
    found = {}
    for name in dir(optax):
        function = getattr(optax, name)
        if name.startswith(("_", "scale_by_")):  # parts of optimizers
            continue
        if inspect.isfunction(function):
            parameters = [*inspect.signature(function).parameters]
            if parameters[:1] == [first]:
                found[name] = function
    return found
