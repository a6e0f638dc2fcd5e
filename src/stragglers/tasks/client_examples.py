"""Clients' examples, in any of the forms that a user has them in, as flat arrays.

    {"anna": (x, y), "ben": (x, y)}     by client, by name
    [(x, y), (x, y)]                    by client, by number
    (x, y), offsets=[0, 120, 200]       flat: client i has rows offsets[i] to offsets[i + 1]
    (x, y), client_ids=[...]            flat, with the client of each row
    table, client_ids="writer"          a table of Hugging Face `datasets`, with a column of clients

In place of a pair (x, y) may stand a table, of which `columns` names the two that are x and y.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput, did_you_mean, shown

FORMS = (
    "a dict or a list of (x, y) by client, or one (x, y) with offsets= or client_ids= (see "
    "st.partition for data without clients)"
)
Columns = tuple[str, str] | None


class Examples(NamedTuple):
    x: NDArray[Any]  # [examples, ...], those of a client side by side
    y: NDArray[Any]
    offsets: NDArray[np.int64]  # [clients + 1]
    names: tuple[str, ...] | None = None  # of clients


def by_client(given: Any, offsets: Any, client_ids: Any, columns: Columns) -> Examples:
    """Training examples, checked: every client has some, all alike in shape and type."""
    if offsets is not None and client_ids is not None:
        raise BadInput("offsets and client_ids are both given, and each says all. Leave one out.")
    if client_ids is not None:
        return _with_ids(_pair("clients", given, columns), _ids(given, client_ids))
    if offsets is not None:
        x, y = _pair("clients", given, columns)
        return Examples(x, y, _checked_offsets(offsets, len(x)))
    return joined("clients", given, columns)


def flat(what: str, given: Any, columns: Columns) -> tuple[NDArray[Any], NDArray[Any]]:
    """One pair of arrays."""
    return _pair(what, given, columns)


def is_flat(given: Any) -> bool:
    """Whether it is one pair of arrays, or a table, and not one for each client."""
    two = isinstance(given, tuple | list) and len(given) == 2
    return _is_table(given) or (two and not any(isinstance(part, tuple) for part in given))


def joined(what: str, given: Any, columns: Columns) -> Examples:
    """Of one pair for each client."""
    if is_flat(given) or not isinstance(given, Mapping | Sequence) or isinstance(given, str):
        raise BadInput(f"{what} = {shown(type(given).__name__)}: expected {FORMS}.")
    named = given if isinstance(given, Mapping) else dict(enumerate(given))
    if not named:
        raise BadInput(f"{what}: no clients. Give at least one.")
    pairs = [_pair(f"{what}: client {name!r}", part, columns) for name, part in named.items()]
    first = next(iter(named))
    for name, (x, y) in zip(named, pairs, strict=True):
        for column, mine, its in zip("xy", (x, y), pairs[0], strict=True):
            if (mine.shape[1:], mine.dtype) != (its.shape[1:], its.dtype):
                raise BadInput(
                    f"{what}: client {name!r} has examples {column} of {mine.dtype}"
                    f"{[*mine.shape[1:]]}, but client {first!r} of {its.dtype}{[*its.shape[1:]]}. "
                    "Give all the same shape and type."
                )
        if len(x) == 0 and what == "clients":
            raise BadInput(f"{what}: client {name!r} has no examples. Leave it out.")
    x, y = (np.concatenate(column) for column in zip(*pairs, strict=True))
    offsets = np.concatenate([[0], np.cumsum([len(own) for own, _ in pairs])])
    return Examples(x, y, offsets, tuple(map(str, named)) if isinstance(given, Mapping) else None)


def _with_ids(pair: tuple[NDArray[Any], NDArray[Any]], ids: NDArray[Any]) -> Examples:
    x, y = pair
    if ids.shape != (len(x),) or ids.dtype.kind not in "iuSU":
        raise BadInput(
            f"client_ids: {ids.dtype}{[*ids.shape]} for {len(x)} examples. Give a whole number or "
            "a name for each example."
        )
    names, owner, count = np.unique(ids, return_inverse=True, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(count)])
    if (np.diff(owner) < 0).any():  # else they lie side by side already
        order = np.argsort(owner, kind="stable")
        x, y = x[order], y[order]
    return Examples(x, y, offsets, tuple(map(str, names.tolist())))


def _ids(given: Any, client_ids: Any) -> NDArray[Any]:
    if not isinstance(client_ids, str):
        return np.asarray(client_ids)
    if not _is_table(given):
        raise BadInput(
            f"client_ids = {client_ids!r}: names a column, but clients is no table. Give a client "
            "for each example."
        )
    return np.asarray(_column("clients", given, client_ids))


def _checked_offsets(given: Any, rows: int) -> NDArray[np.int64]:
    offsets = np.asarray(given)
    whole = offsets.ndim == 1 and len(offsets) > 1 and offsets.dtype.kind in "iu"
    if not whole or offsets[0] != 0 or offsets[-1] != rows:
        raise BadInput(
            f"offsets = {shown(given)}: expected whole numbers from 0 to {rows}, the number of "
            "examples."
        )
    for client, (begin, end) in enumerate(pairwise(offsets.tolist())):
        if begin >= end:
            raise BadInput(
                f"offsets: client {client} has rows {begin} to {end}, and so no examples. Leave it "
                "out."
            )
    return offsets.astype(np.int64)


def _pair(what: str, given: Any, columns: Columns) -> tuple[NDArray[Any], NDArray[Any]]:
    if _is_table(given):
        if columns is None:
            raise BadInput(
                f"{what}: a table of columns {', '.join(given.column_names)}. Say which are x and "
                "y: columns=(..., ...)."
            )
        given = tuple(_column(what, given, name) for name in columns)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise BadInput(f"{what} = {shown(type(given).__name__)}: expected a pair (x, y).")
    x, y = _array(f"{what}: x", given[0]), _array(f"{what}: y", given[1])
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise BadInput(
            f"{what}: x of shape {[*x.shape]} and y of shape {[*y.shape]}. Give one row of each "
            "for every example."
        )
    return x, y


def _array(what: str, given: Any) -> NDArray[Any]:
    """In a type that devices have."""
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "biuf":
        kind = "rows of different shapes" if array.dtype == object else f"dtype {array.dtype}"
        raise BadInput(f"{what}: {kind}. Give one array of numbers, all rows of one shape.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise BadInput(f"{what}: row {row} is not finite. Remove or replace such values.")
    held = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(held)
        if array.min() < limits.min or array.max() > limits.max:
            raise BadInput(
                f"{what}: numbers from {array.min()} to {array.max()}. Make them fit {held}."
            )
    return array.astype(held, copy=False)


def _is_table(given: Any) -> bool:
    """A table of Hugging Face `datasets`, which need not be installed."""
    return hasattr(given, "column_names") and hasattr(given, "with_format")


def _column(what: str, table: Any, name: str) -> Any:
    if name not in table.column_names:
        raise BadInput(f"{what}: no column {name!r}; {did_you_mean(name, table.column_names)}")
    return table.with_format("numpy")[:][name]
