"""What clients send is anybody's: a report is whole, or a line says what is wrong with it."""

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)

from stragglers._core.errors import BadInput
from stragglers.serving.flower import messages

LIKE = {"w": np.zeros((2, 3), np.float32), "b": np.zeros(3, np.float32)}


def message(content=None, error=None):
    order = Message(RecordDict(), dst_node_id=7, message_type=MessageType.TRAIN)
    return Message(error, reply_to=order) if error else Message(content, reply_to=order)


def report(delta=LIKE, examples=5, seconds=1.5, group="phones"):
    return messages.report(delta, examples, seconds, group)


def changed(record, key, value):
    content = report()
    content[record][key] = value
    return content


def test_arrays_come_back():
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1.5, np.nan, 3])}
    back = messages.unpacked(messages.packed(arrays))
    assert [*back] == [*arrays]
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array, strict=True)


def test_a_report_comes_back():
    told = messages.reported(message(report(group=" phones ")), LIKE)
    assert told._replace(delta={}) == ({}, 5, 1.5, "phones")
    assert {*told.delta} == {*LIKE}


@pytest.mark.parametrize(
    "content, says",
    [
        (RecordDict(), "not a report (KeyError"),
        (RecordDict({messages.DELTA: ArrayRecord([np.zeros(3)])}), "not a report (KeyError"),
        (
            changed(messages.DELTA, "w", Array("float32", (2, 3), "numpy.ndarray", b"none")),
            "not a report (ValueError",
        ),
        (report({"w": LIKE["w"]}), "b is not there, expected float32 [3]"),
        (report({**LIKE, "c": np.zeros(2)}), "c is float64 [2], expected not there"),
        (report({**LIKE, "b": np.zeros(4, np.float32)}), "b is float32 [4], expected float32 [3]"),
        (report({**LIKE, "b": np.zeros(3)}), "b is float64 [3], expected float32 [3]"),
        (report(examples=-1), "-1 examples, expected a number of them"),
        (changed(messages.REPORT, "examples", 2.5), "2.5 examples, expected"),
        (report(seconds=-1.0), "-1.0 seconds of training, expected a time"),
        (report(seconds=float("nan")), "nan seconds of training"),
        (changed(messages.ABOUT, "group", 3), "group 3, expected its name"),
        (report(group=" "), "group ' ', expected its name"),
    ],
)
def test_what_is_no_report_is_said(content, says):
    with pytest.raises(BadInput) as refused:
        messages.reported(message(content), LIKE)
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    "error, says", [(Error(2, "out of memory"), "out of memory"), (Error(3), "error 3")]
)
def test_a_client_that_failed_says_why(error, says):
    with pytest.raises(BadInput, match=f"^{says}$"):
        messages.reported(message(error=error), LIKE)


def test_a_report_is_of_plain_records():
    content = report()
    assert isinstance(content[messages.REPORT], MetricRecord)
    assert isinstance(content[messages.ABOUT], ConfigRecord)
