"""The curve of a trial: one JSON object for each evaluation, and the columns that they have.

A line is on the disk before anything vouches for it, so it ends with a checksum of its own:
`"check"` is the CRC-32 of the object without it.
"""

import gzip
import zlib
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput

NAME = "curve.jsonl"
PUT_AWAY = "curve.jsonl.gz"
COLUMNS: dict[str, type] = {
    "step": int,
    "time_s": float,
    "updates": int,
    "local_steps": int,
    "examples": int,
    "wall_s": float,
    "straggler_accuracy": float,
    "standard_accuracy": float,
    "total_accuracy": float,
    "straggler_loss": float,
    "standard_loss": float,
    "total_loss": float,
    "dropped": int,
    "late": int,
    "test_examples": int,
    "validation_straggler_accuracy": float,
    "validation_total_accuracy": float,
    "held_out_straggler_accuracy": float,
    "held_out_total_accuracy": float,
    "matched_straggler_accuracy": float,
    "matched_total_accuracy": float,
    "matched_bias": float,
    "straggler_auc": float,
    "validation_matched_straggler_accuracy": float,
    "validation_matched_total_accuracy": float,
}
# Columns that older curves and some tasks lack; they are read as NaN.
LATER = ("validation_", "held_out_", "matched_", "straggler_auc")


def line(evaluation: dict[str, Any]) -> bytes:
    """A point of the curve, as it is written; of an older curve, as it was."""
    known = {
        name: evaluation[name]
        for name in COLUMNS
        if not (name.startswith(LATER) and np.isnan(evaluation[name]))
    }
    return msgspec.json.encode(known) + b"\n"


def checked(line: bytes) -> bytes:
    """A line with its checksum, and with the end of the line."""
    return line[:-1] + f',"check":"{zlib.crc32(line):08x}"}}\n'.encode()


CHECK = len(checked(b"}"))


def is_damaged(curve: bytes) -> bool:
    """Whether a line is not what was written; a last one that was cut is no damage."""
    *lines, last = curve.split(b"\n")
    lines += [last] if b"}" in last else []
    return not all(map(_is_checked, lines))


def _is_checked(line: bytes) -> bool:
    return line + b"\n" == checked(line[: 1 - CHECK] + b"}")


def evaluations(curve: bytes) -> list[dict[str, Any]]:
    """The points of a curve that is whole; what was not finite is NaN."""
    points = map(msgspec.structs.asdict, _DECODER.decode_lines(curve))
    return [
        {key: np.nan if value is None else value for key, value in point.items()}
        for point in points
    ]


_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)] | None


def _field(column: str, kind: type) -> tuple[Any, ...]:
    if kind is int:
        return column, int
    given = _Share if column.endswith("_accuracy") else float | None
    return (column, given, None) if column.startswith(LATER) else (column, given)


_Line = msgspec.defstruct("_Line", [_field(name, kind) for name, kind in COLUMNS.items()])
_DECODER = msgspec.json.Decoder(_Line)


def read(path: Path, is_checked: bool = False) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """The columns, and a warning of lines that were left out; of checked ones any that changed."""
    try:
        lines = path.read_bytes()
        lines = gzip.decompress(lines) if path.name == PUT_AWAY else lines
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: not a gzip file, or not all of it ({error})") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    warnings = []
    every = lines.splitlines()
    whole = list(filter(_is_checked, every)) if is_checked else every
    try:
        points = _DECODER.decode_lines(b"\n".join(whole))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        points = [point for line in whole for point in _line(line)]
    if lost := len(every) - len(points):
        warnings = [f"{path}: {lost} of {lost + len(points)} lines cannot be read, left out"]
    table = list(zip(*map(msgspec.structs.astuple, points), strict=True)) or [()] * len(COLUMNS)
    kinds = zip(COLUMNS.items(), table, strict=True)
    return {name: np.array(values, kind) for (name, kind), values in kinds}, warnings


def _line(line: bytes) -> list[Any]:
    try:
        return [_DECODER.decode(line)]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
