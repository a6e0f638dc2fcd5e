"""A client's side of Flower: what it is sent, what it reports, and what it loads."""

import subprocess
import sys

import numpy as np
import pytest
from flwr.app import Message, MessageType, RecordDict

from stragglers._core.errors import BadInput
from stragglers.serving.flower import messages
from stragglers.serving.flower.client import answer

MODEL = {"w": np.array([1.0, 2.0], np.float32), "b": np.array(3.0, np.float32)}
TEACHER = {"w": np.array([5.0, 6.0], np.float32), "b": np.array(7.0, np.float32)}


def order(model=MODEL, teacher=None):
    content = messages.order(
        messages.packed(model), messages.packed(teacher) if teacher else None, 11, 4
    )
    return Message(content, dst_node_id=7, message_type=MessageType.TRAIN)


def reported(message, like=MODEL):
    return messages.reported(message, like)


def test_it_reports_start_minus_end():
    reply = answer(order(), lambda sent: ({"w": sent.model["w"] * 3, "b": 1.0}, 9), group="phones")
    told = reported(reply)
    np.testing.assert_array_equal(told.delta["w"], [-2, -4])
    np.testing.assert_array_equal(told.delta["b"], 2)
    assert (told.examples, told.group) == (9, "phones") and 0 <= told.seconds < 5


def test_whoever_trains_in_place_has_started_somewhere_else():
    def train(sent):
        sent.model["w"] += 1
        return sent.model, 1

    np.testing.assert_array_equal(reported(answer(order(), train)).delta["w"], [-1, -1])


@pytest.mark.parametrize("teacher", [None, TEACHER])
def test_it_is_sent_a_teacher_or_has_its_model(teacher):
    seen = []
    answer(order(teacher=teacher), lambda sent: (seen.append(sent), (sent.model, 1))[1])
    (sent,) = seen
    np.testing.assert_array_equal(sent.teacher["w"], (teacher or MODEL)["w"])
    assert (sent.dispatch, sent.version) == (11, 4)


def test_trees_come_as_they_are():
    tree = {"dense": {"kernel": np.ones((2, 2), np.float32)}, "out": (np.zeros(2, np.float32),)}
    flat = {"dense/kernel": tree["dense"]["kernel"], "out/0": tree["out"][0]}

    def train(sent):
        assert sent.model["out"][0].shape == (2,)
        return {"dense": {"kernel": sent.model["dense"]["kernel"] - 1}, "out": sent.model["out"]}, 3

    told = reported(answer(order(flat), train, like=tree), flat)
    np.testing.assert_array_equal(told.delta["dense/kernel"], np.ones((2, 2)))


@pytest.mark.parametrize(
    "weights", [{"w": MODEL["w"]}, {**MODEL, "v": 1.0}], ids=["too few", "too many"]
)
def test_other_weights_are_refused(weights):
    with pytest.raises(BadInput, match="differ in '[bv]', expected equal names"):
        answer(order(), lambda sent: (weights, 1))


def test_a_message_of_somebody_else_is_refused():
    other = Message(RecordDict(), dst_node_id=7, message_type=MessageType.TRAIN)
    with pytest.raises(BadInput, match="the message has no model"):
        answer(other, lambda sent: (sent.model, 1))


def test_a_device_needs_no_jax():
    code = """if True:
        import sys
        import stragglers.serving.flower.client
        print(*sys.modules.keys() & {"jax", "optax", "matplotlib", "scipy.stats"})
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout.strip(), run.returncode) == ("", 0)
