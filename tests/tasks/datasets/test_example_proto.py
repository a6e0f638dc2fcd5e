import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets.example_proto import parse
from tests.support.files import example, field, varint

NAMES = st.text(min_size=1, max_size=20)
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8)
FLOATS = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=8)
TEXTS = st.lists(st.binary(max_size=300), min_size=1, max_size=4)


@given(st.dictionaries(NAMES, INTEGERS | FLOATS | TEXTS, max_size=5), st.booleans())
def test_what_was_written_is_read(features, packed):
    read = parse(example(features, packed))
    assert {name.decode(): list(values) for name, values in read.items()} == features


def test_dtypes():
    read = parse(example({"pixels": [0.5, 1.0], "label": [7], "tokens": [b"a b"]}))
    assert read[b"pixels"].dtype == np.float32
    assert read[b"label"].dtype == np.int64
    assert read[b"tokens"] == [b"a b"]


def test_only_the_wanted_are_decoded():
    data = example({"tokens": [b"a b"]}) + field(
        1, field(1, field(1, b"title") + field(2, b"\x0f"))
    )
    with pytest.raises(BadInput):
        parse(data)
    assert parse(data, {b"tokens"}) == {b"tokens": [b"a b"]}


def test_unknown_fields_are_passed_over():
    known = example({"label": [3]})
    unknown = varint(9 << 3 | 0) + varint(2**40) + varint(200 << 3 | 2) + varint(3) + b"abc"
    unknown += varint(5 << 3 | 5) + b"1234" + varint(6 << 3 | 1) + b"12345678"
    assert parse(unknown + known + unknown)[b"label"].tolist() == [3]


def wrapped(feature):
    return field(1, field(1, field(1, b"x") + field(2, feature)))


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # a key without its value
        b"\x0a\x05abc",  # longer than the file
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # 2^63 bytes
        b"\x0a" + b"\xff" * 11,  # a length that never ends
        b"\x0b\x00",  # wire type 3
        b"\x08\x01",  # features as a number
        field(1, field(1, field(2, b"") + field(1, b"x"))),  # the name comes last
        field(1, field(1, b"")),  # no name
        field(1, field(1, b"\x0a\x09x")),  # a name beyond its entry
        wrapped(field(2, field(1, b"12345"))),  # five bytes of floats
        wrapped(field(2, b"\x08\x01")),  # a float as a varint
        wrapped(field(3, field(1, b"\x80\x80"))),  # a number without an end
        wrapped(field(3, field(1, b"\xff" * 9 + b"\x02"))),  # 65 bits
        wrapped(field(3, field(1, b"\xff" * 10 + b"\x01"))),  # eleven bytes
        wrapped(field(3, b"\x08" + b"\xff" * 9 + b"\x02")),
        wrapped(b"\x10\x01"),  # a list as a number
    ],
)
def test_malformed(data):
    with pytest.raises(BadInput, match=r"not a tf\.train\.Example"):
        parse(data)


@given(st.binary(max_size=60))
def test_anything_is_read_or_refused(data):
    try:
        assert isinstance(parse(data), dict)
    except BadInput as error:
        assert "\n" not in str(error)


@given(st.data())
def test_damage_is_read_or_refused(data):
    whole = example({"pixels": [0.5] * 5, "label": [-1, 300], "tokens": [b"a b c", b""]})
    damaged = bytearray(whole)
    place = data.draw(st.integers(0, len(whole) - 1))
    damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    for part in (bytes(damaged), whole[:place]):
        try:
            assert isinstance(parse(part), dict)
        except BadInput:
            assert part != whole
