import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.config import build, settings
from stragglers.planning import paper_populations, population, subset
from stragglers.runs import train
from stragglers.tasks.base import of_clients
from tests.support import tiny
from tests.support.helpers import linear_task

EMNIST = paper_populations.emnist()


@pytest.mark.parametrize("clients", [2, 3, 17, 340, 3_399, 3_400])
def test_each_group_keeps_its_share(clients):
    part = subset.part(EMNIST, subset.chosen(EMNIST, clients))
    assert part.clients == clients
    stragglers = int((part.group == 1).sum())
    assert 1 <= stragglers < clients and abs(stragglers - clients * 800 / 3_400) <= 1
    assert part.origin.endswith(f"; {clients:,} of its 3,400 clients")


def test_parts_lie_in_one_another_and_are_no_first_clients():
    parts = [subset.chosen(EMNIST, clients) for clients in (100, 500, 3_400)]
    for small, large in zip(parts, parts[1:]):
        assert set(small) < set(large) and np.all(np.diff(large) > 0)
    sizes = EMNIST.examples[parts[1]]  # the model has them in ascending order
    assert abs(np.median(sizes) / np.median(EMNIST.examples) - 1) < 0.1
    assert np.array_equal(parts[1], subset.chosen(EMNIST, 500))


def test_a_group_may_be_empty_and_tokens_and_names_go_along():
    group = np.array([0, 2, 0, 2], np.int16)
    who = population.Population(
        np.arange(4), group, ("a", "b", "c"), "x", np.arange(4.0), tuple("0123")
    )
    part = subset.part(who, subset.chosen(who, 2))
    assert sorted(part.group) == [0, 2] and part.groups == who.groups
    assert part.tokens is not None and np.array_equal(part.tokens, part.examples)
    assert part.names == tuple(map(str, part.examples))


def test_no_more_than_there_are_and_one_of_each_group():
    for clients in (1, 3_401):
        with pytest.raises(BadInput, match=f"clients={clients} .* group, 2, and at most 3400"):
            subset.chosen(EMNIST, clients)
    few = paper_populations.cifar100(stragglers=1)
    assert (subset.part(few, subset.chosen(few, 2)).group == 1).sum() == 1


def test_a_task_of_some_clients():
    task = linear_task((5, 12, 0, 3, 20))
    task = task._replace(test_client=np.resize(np.arange(-1, 5, dtype=np.int32), len(task.test_y)))
    part = of_clients(task, np.array([1, 2, 4]))
    assert part.population.examples.tolist() == [12, 0, 20] and part.offsets[-1] == 32
    rows = np.r_[5:17, 20:40]
    np.testing.assert_array_equal(part.x, task.x[rows])
    np.testing.assert_array_equal(part.y, task.y[rows])
    assert part.test_x is task.test_x and part.lesson == task.lesson
    number = {-1: -1, 0: -1, 1: 0, 2: 1, 3: -1, 4: 2}
    assert part.test_client is not None and task.test_client is not None
    assert part.test_client.tolist() == [number[who] for who in task.test_client.tolist()]


def test_sentences_are_held_once():
    task = linear_task((5, 12))
    part = of_clients(task._replace(y=task.x), np.array([1]))
    assert part.y is part.x and part.test_client is None


def test_nothing_to_learn_is_said():
    with pytest.raises(BadInput, match="no client has examples"):
        of_clients(linear_task((5, 0, 0)), np.array([1, 2]))


def test_a_task_is_made_once_and_planned_by_the_same_rule(tmp_path, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    folder = str(tiny.folder(tmp_path, "emnist"))
    whole = train.task(settings.Emnist(folder))
    given = settings.Emnist(folder, clients=3)
    part = train.task(given)
    assert part.population.clients == 3 and train.task(given) is part
    kept = subset.chosen(whole.population, 3)
    np.testing.assert_array_equal(part.population.examples, whole.population.examples[kept])
    planned = build.clients(settings.Cifar100(clients=40), seed=0)
    every = paper_populations.cifar100()
    np.testing.assert_array_equal(planned.examples, every.examples[subset.chosen(every, 40)])
