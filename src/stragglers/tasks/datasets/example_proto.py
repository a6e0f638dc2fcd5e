"""tf.train.Example, from its bytes.

    Example    1: Features
    Features   1: entry, one for each feature
    entry      1: name, first  2: Feature
    Feature    1: BytesList    2: FloatList    3: Int64List
    lists      1: values, one by one; numbers also packed side by side

Every message is a row of (number * 8 + wire type, value); wire type 0 is a varint, 1 eight bytes,
2 a varint of length and so many bytes, 5 four bytes. Numbers not listed are passed over, as
protocol buffers have it. No value may reach beyond the end of its message.
"""

from collections.abc import Container, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput

VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
LONGEST_VARINT = 10

# What a message may have in it: wire types by field number.
MESSAGES = {1: (BYTES,)}
ENTRY = {2: (BYTES,)}
FEATURE = {1: (BYTES,), 2: (BYTES,), 3: (BYTES,)}
FLOATS = {1: (BYTES, FOUR)}
INTEGERS = {1: (BYTES, VARINT)}

Span = tuple[int, int]  # where a message begins and ends
Values = list[bytes] | NDArray[np.float32] | NDArray[np.int64]


def parse(data: bytes, wanted: Container[bytes] | None = None) -> dict[bytes, Values]:
    """The features by name; only the wanted ones are decoded."""
    try:
        features = {}
        for _, all_features in _fields(data, (0, len(data)), MESSAGES):
            for _, entry in _fields(data, all_features, MESSAGES):
                name, rest = _name(data, entry)
                if wanted is None or name in wanted:
                    features[name] = _values(data, rest)
        return features
    except (IndexError, _Malformed) as error:
        why = str(error) if isinstance(error, _Malformed) else "it ends too early"
        raise BadInput(f"not a tf.train.Example ({why})") from None


class _Malformed(Exception):
    pass


def _fields(
    data: bytes, span: Span, expected: Mapping[int, tuple[int, ...]]
) -> Iterator[tuple[int, Span]]:
    """The expected fields of a message: number, and where the value lies."""
    at, stop = span
    while at < stop:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _varint(data, at - 1)
        wire = key & 7
        if wire == BYTES:
            length = data[at]
            at += 1
            if length > 127:
                length, at = _varint(data, at - 1)
            end = at + length
        elif wire == VARINT:
            _, end = _varint(data, at)
        elif wire in (EIGHT, FOUR):
            end = at + (8 if wire == EIGHT else 4)
        else:
            raise _Malformed(f"wire type {wire}")
        if end > stop:
            raise _Malformed("a value reaches beyond the end of its message")
        number = key >> 3
        if number in expected:
            if wire not in expected[number]:
                raise _Malformed(f"wire type {wire}, expected {expected[number]}")
            yield number, (at, end)
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * LONGEST_VARINT, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >= 2**64:
                break
            return value, at
    raise _Malformed("a number of more than 64 bits")


def _name(data: bytes, entry: Span) -> tuple[bytes, Span]:
    """The name that an entry opens with, and what follows it."""
    begin, end = entry
    if data[begin] != 1 << 3 | BYTES:
        raise _Malformed("a feature that does not begin with its name")
    stop = begin + 2 + data[begin + 1]
    if data[begin + 1] > 127 or stop > end:
        raise _Malformed("a feature's name of more than 127 bytes, or beyond its end")
    return data[begin + 2 : stop], (stop, end)


def _values(data: bytes, entry: Span) -> Values:
    values: Values = []
    for _, feature in _fields(data, entry, ENTRY):
        for kind, listed in _fields(data, feature, FEATURE):
            values = LISTS[kind](data, listed)
    return values


def _bytes_list(data: bytes, listed: Span) -> list[bytes]:
    return [data[begin:end] for _, (begin, end) in _fields(data, listed, MESSAGES)]


def _float_list(data: bytes, listed: Span) -> NDArray[np.float32]:
    parts = [np.empty(0, "<f4")]
    for _, (begin, end) in _fields(data, listed, FLOATS):
        if (end - begin) % 4:
            raise _Malformed(f"{end - begin} bytes of floats, expected a multiple of 4")
        parts.append(np.frombuffer(data, "<f4", (end - begin) // 4, begin))
    return np.concatenate(parts).astype(np.float32)


def _int64_list(data: bytes, listed: Span) -> NDArray[np.int64]:
    parts = [np.empty(0, np.int64)]
    for _, (begin, end) in _fields(data, listed, INTEGERS):
        parts.append(_varints(np.frombuffer(data, np.uint8, end - begin, begin)))
    return np.concatenate(parts)


def _varints(raw: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Varints side by side: low seven bits first, the eighth says that there is more."""
    if len(raw) == 0:
        return np.empty(0, np.int64)
    if raw[-1] > 127:
        raise _Malformed("a number without its last byte")
    last = np.flatnonzero(raw < 128)
    first = np.concatenate([[0], last[:-1] + 1])
    length = last - first + 1
    if length.max() > LONGEST_VARINT or (raw[last[length == LONGEST_VARINT]] > 1).any():
        raise _Malformed("a number of more than 64 bits")
    place = np.arange(len(raw)) - np.repeat(first, length)
    bits = (raw & np.uint8(127)).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(bits, first).view(np.int64)


LISTS = {1: _bytes_list, 2: _float_list, 3: _int64_list}
