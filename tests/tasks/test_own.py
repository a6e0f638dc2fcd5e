"""Tasks of the user's own: who is a straggler, what is checked, and that they train."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import stragglers as st
from stragglers._core.errors import BadInput
from stragglers.simulator import metrics
from stragglers.tasks.base import checksum

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 4)).astype(np.float32), np.arange(24) % 3
Y[:8] = np.arange(8) % 2  # only the clients after the first hold class 2
CLIENTS = {name: (X[8 * i : 8 * i + 8], Y[8 * i : 8 * i + 8]) for i, name in enumerate("abc")}
TEST = (X[:9] + 1, np.arange(9) % 3)


def init(key):
    return {"w": 0.1 * jax.random.normal(key, (4, 3))}


def apply(params, x):
    return x @ params["w"]


def made(**given):
    return st.task(**({"clients": CLIENTS, "test": TEST, "model": (init, apply)} | given))


def groups(task):
    return [task.population.groups[group] for group in task.population.group]


def test_straggler_classes_name_clients_and_tests():
    task = made(straggler_classes=[2])
    assert groups(task) == ["standard", "straggler", "straggler"]
    np.testing.assert_array_equal(task.test_straggler, TEST[1] == 2)
    assert task.straggler_classes == (2,) and task.population.names == ("a", "b", "c")


def test_stragglers_by_name_number_or_function():
    tests = {name: TEST for name in ("b", "stranger", "a")}
    for stragglers in (["b"], {"b"}, lambda client, y: client == "b"):
        task = made(stragglers=stragglers, test=tests)
        assert groups(task) == ["standard", "straggler", "standard"]
        assert task.test_client is not None
        np.testing.assert_array_equal(task.test_client, np.repeat([1, -1, 0], 9))
        np.testing.assert_array_equal(task.test_straggler, task.test_client == 1)
    task = made(clients=[*CLIENTS.values()], test=[TEST] * 3, stragglers=[2])
    assert groups(task) == ["standard", "standard", "straggler"]
    np.testing.assert_array_equal(task.test_straggler, np.repeat([False, False, True], 9))
    assert not made(stragglers=["b"]).test_straggler.any()  # whose tests these are is not known


def test_groups_are_of_latency_alone():
    for given in (["new", "old", "new"], {"c": "new", "b": "old", "a": "new"}):
        task = made(groups=given)
        assert task.population.groups == ("new", "old") and groups(task) == ["new", "old", "new"]
        assert not task.test_straggler.any()
    assert made().population.groups == ("all",)


def test_it_trains_as_a_task_that_is_made_by_hand():
    """Three groups, and no straggler tests: NaN in their column, numbers in the total."""
    task = made(groups=["new", "old", "older"])
    fleet = st.Fleet(task.population, st.PER_EXAMPLE)
    schedule = st.schedule(fleet, st.Rounds(goal=2, cohort=2), updates=40)
    result = st.simulate(task, schedule, st.fedavg(optax.sgd(1.0)), st.Local(0.5, 4))
    found = result.curve[-1].metrics
    assert np.isnan(found["straggler_accuracy"]) and 0 <= found["total_accuracy"] <= 1
    assert result.diverged is None and result.trained == 40


def test_labels_are_scored_as_the_model_says():
    task = made(straggler_classes=[2])
    params = {"w": jnp.zeros((4, 3))}  # all logits equal: class 0
    found = metrics.evaluate(task, params, metrics.test_data(task))
    assert found["straggler_accuracy"] == 0 and found["standard_accuracy"] == 0.5


def test_a_checksum_is_of_all_that_decides():
    first = checksum(made())
    assert checksum(made()) == first
    x = X.copy()
    x[23, 3] += 1
    changed = [
        made(groups=["new", "old", "new"]),
        made(
            clients={name: (x[8 * i : 8 * i + 8], CLIENTS[name][1]) for i, name in enumerate("abc")}
        ),
        made(clients=dict(zip("abd", CLIENTS.values(), strict=True))),
        made(test=(TEST[0], TEST[1][::-1])),
        made(test={"a": TEST}),
    ]
    assert len({first, *map(checksum, changed)}) == 6


def test_a_checksum_is_of_every_row(monkeypatch):
    monkeypatch.setattr("stragglers.tasks.base.CHECKED", 16)
    x = X.copy()
    x[1] += 1
    other = made(clients=(x, Y), offsets=[0, 24])
    assert checksum(made(clients=(X, Y), offsets=[0, 24])) != checksum(other)


def broken(params, x):
    return x @ params["v"]


WRONG = {
    "labels": ({"test": (TEST[0], TEST[1] + 1)}, "test: row 2 has label 3, but the model has 3"),
    "negative": ({"clients": [(X, Y - 1)]}, "clients: row 0 has label -1"),
    "floats": ({"clients": [(X, Y / 2)]}, r"clients: y is float32\[24\]. Give one whole number"),
    "test shape": ({"test": (TEST[0][:, :2], TEST[1])}, r"test: examples x of shape \[2\]"),
    "no test": ({"test": (X[:0], Y[:0])}, "test: no examples"),
    "tests": ({"test": [TEST]}, "test: examples of 1 clients, but 3 train"),
    "class": ({"straggler_classes": [3]}, "straggler_classes: 3, but the model has 3 classes"),
    "absent class": (
        {"clients": [(X[:8], Y[:8])], "straggler_classes": [2]},
        "no client holds one",
    ),
    "a client": ({"stragglers": ["d"]}, "stragglers: no client 'd'"),
    "a string": ({"stragglers": "a"}, "stragglers = 'a': expected a list of clients"),
    "a function": (
        {"stragglers": lambda c, y: 1 / 0},
        r"failed for client 'a' \(ZeroDivision.*own.py",
    ),
    "groups": ({"groups": ["new"]}, "groups: 1 given for 3 clients"),
    "a group": ({"groups": {"a": "new", "b": "new"}}, "groups: client 'c' has none"),
    "both": ({"groups": ["new"] * 3, "stragglers": ["a"]}, "groups and stragglers are both given"),
    "model": ({"model": init}, r"model = .*: expected a pair \(init, apply\)"),
    "init": ({"model": (lambda: 0, apply)}, r"init\(key\) failed \(TypeError.*Return a tree"),
    "apply": (
        {"model": (init, broken)},
        r"failed on x of float32\[2, 4\] \(KeyError: 'v', at .*test_own.py:\d+\)",
    ),
    "logits": (
        {"model": (init, lambda params, x: (x @ params["w"]).sum(0))},
        r"returned shape \[3\] for a batch of 2. Return logits \[batch, classes\]",
    ),
    "ints": (
        {"model": (init, lambda params, x: jnp.zeros((len(x), 3), int))},
        "returned int32. Return floating point",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line(case):
    given, line = WRONG[case]
    with pytest.raises(BadInput, match=line) as error:
        made(**given)
    assert "\n" not in str(error.value)


def test_a_task_made_by_hand_is_checked_too():
    task, local = made(), st.Local(0.5, 4)
    for changes, line in (
        ({"test_y": task.test_y[:3]}, "test_y has 3 rows, but test_x has 9"),
        ({"test_straggler": np.arange(9) % 3}, "says yes or no"),
    ):
        fleet = st.Fleet(task.population, st.PER_EXAMPLE)
        schedule = st.schedule(fleet, st.Rounds(goal=2, cohort=2), updates=4)
        with pytest.raises(BadInput, match=line):
            st.simulate(task._replace(**changes), schedule, st.fedavg(optax.sgd(1.0)), local)
