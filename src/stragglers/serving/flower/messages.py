"""What travels: arrays by name, and a few numbers beside them.

    order     model, teacher (left out where it is the model), dispatch, version
    report    delta = start - end, examples, seconds of training, the client's group

Arrays are NumPy's own format. What a client sends is anybody's: it is checked before it is used.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, shown
from stragglers.planning.population import MOST_EXAMPLES

MODEL, TEACHER, ORDER = "model", "teacher", "order"
DELTA, REPORT, ABOUT = "delta", "report", "about"

Arrays = Mapping[str, NDArray[Any]]


class Report(NamedTuple):
    delta: dict[str, NDArray[Any]]
    examples: int
    seconds: float
    group: str


def packed(arrays: Arrays) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def unpacked(record: ArrayRecord) -> dict[str, NDArray[Any]]:
    return {name: array.numpy() for name, array in record.items()}


def order(
    model: ArrayRecord, teacher: ArrayRecord | None, dispatch: int, version: int
) -> RecordDict:
    content = RecordDict(
        {MODEL: model, ORDER: ConfigRecord({"dispatch": dispatch, "version": version})}
    )
    if teacher is not None:
        content[TEACHER] = teacher
    return content


def report(delta: Arrays, examples: int, seconds: float, group: str) -> RecordDict:
    told = MetricRecord({"examples": examples, "seconds": seconds})
    return RecordDict({DELTA: packed(delta), REPORT: told, ABOUT: ConfigRecord({"group": group})})


def reported(message: Message, like: Arrays) -> Report:
    """What a client reports of a model with these arrays; BadInput says what is wrong with it."""
    if message.has_error():
        raise BadInput(message.error.reason or f"error {message.error.code}")
    content = message.content
    try:
        told, group = content.metric_records[REPORT], content.config_records[ABOUT]["group"]
        delta = unpacked(content.array_records[DELTA])
        examples, seconds = told["examples"], told["seconds"]
    except Exception as error:  # a client may send anything, in any state of decay
        raise BadInput(
            f"not a report ({type(error).__name__}: {error}); is it by answer()?"
        ) from None
    if not (isinstance(examples, int) and 0 <= examples <= MOST_EXAMPLES):
        raise BadInput(f"{shown(examples)} examples, expected a number of them")
    if not (isinstance(seconds, float) and math.isfinite(seconds) and seconds >= 0):
        raise BadInput(f"{shown(seconds)} seconds of training, expected a time")
    if not (isinstance(group, str) and group.strip()):
        raise BadInput(f"group {shown(group)}, expected its name")
    for name in sorted({*delta, *like}):
        given, expected = (_kind(arrays, name) for arrays in (delta, like))
        if given != expected:
            raise BadInput(f"{name} is {given}, expected {expected}")
    return Report(delta, examples, seconds, group.strip())


def _kind(arrays: Arrays, name: str) -> str:
    if name not in arrays:
        return "not there"
    array = arrays[name]
    return f"{array.dtype} {list(array.shape)}"
