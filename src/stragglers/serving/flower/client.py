"""A client's side: train on what was sent, report the difference.

    delta = start - end

`train` gets the model and its teacher (FARe-DUST's, or else the model itself) and returns the
trained weights and the number of examples that it trained on. Weights are a dict of arrays by name,
or, with `like`, a tree as it is. No jax is loaded unless `like` is given.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Message

from stragglers._core.errors import BadInput
from stragglers.planning.fit.logs import EVERYBODY
from stragglers.serving.flower import messages


class Sent(NamedTuple):
    """What a client is asked to do."""

    model: Any
    teacher: Any
    dispatch: int  # its number: an address for randomness
    version: int  # server steps behind the model


def answer(
    message: Message,
    train: Callable[[Sent], tuple[Any, int]],
    *,
    like: Any = None,
    group: str = EVERYBODY,
) -> Message:
    """Trains, and makes the reply."""
    content = message.content
    if messages.MODEL not in content.array_records:
        raise BadInput("the message has no model; expected one of stragglers.flower.server.serve")
    model = messages.unpacked(content.array_records[messages.MODEL])
    teacher = model
    if messages.TEACHER in content.array_records:
        teacher = messages.unpacked(content.array_records[messages.TEACHER])
    order: Any = content.config_records[messages.ORDER]
    sent = Sent(
        _tree(model, like), _tree(teacher, like), int(order["dispatch"]), int(order["version"])
    )
    begin = time.perf_counter()
    trained, examples = train(sent)
    seconds = time.perf_counter() - begin
    ends = _named(trained, like)
    if {*ends} != {*model}:
        missing = sorted({*ends} ^ {*model})[0]
        raise BadInput(f"trained weights and the model differ in {missing!r}, expected equal names")
    delta = {name: start - np.asarray(ends[name], start.dtype) for name, start in model.items()}
    return Message(messages.report(delta, int(examples), seconds, group), reply_to=message)


def _tree(arrays: dict[str, Any], like: Any) -> Any:
    if like is None:
        # A copy: training in place would overwrite the weights that the delta is taken from.
        return {name: array.copy() for name, array in arrays.items()}
    from stragglers.algorithms import trees

    return trees.from_named(arrays, like)


def _named(tree: Any, like: Any) -> dict[str, Any]:
    if like is None:
        return dict(tree)
    from stragglers.algorithms import trees

    return trees.named(tree)
