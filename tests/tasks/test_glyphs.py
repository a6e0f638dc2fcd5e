import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers._core.random_streams import Purpose
from stragglers.config import build, settings
from stragglers.tasks import base
from stragglers.tasks.base import check, checksum
from stragglers.tasks.datasets.handwriting import (
    CHARACTERS,
    LARGEST,
    SMALLEST,
    STRAGGLER_CLASSES,
    book,
    choose,
    draw,
    learn_to_write,
    streams,
)
from stragglers.tasks.glyphs import TEST_PER_WRITER, glyphs, ink

WRITERS = 34  # 800 / 3400 of them is 8


@pytest.fixture(scope="module")
def data():
    return glyphs(WRITERS)


def rows(task, writer):
    return slice(task.offsets[writer], task.offsets[writer + 1])


def straggler(task):
    return task.population.group == 1


def written(writer, seed=0):
    """What a writer draws, all classes, before any split: hand, labels and drawings."""

    def stream(purpose):
        return streams(seed, purpose, writer + 1)[writer]

    hand = learn_to_write(stream(Purpose.HAND))
    labels = choose(stream(Purpose.LABELS), hand, hand.size)
    return hand, labels, draw(stream(Purpose.DRAWINGS), hand, labels)


def test_shapes_and_types(data):
    assert data.x.shape == (len(data.y), 28, 28) and data.x.dtype == np.uint8
    assert data.test_x.shape == (WRITERS * TEST_PER_WRITER, 28, 28)
    assert data.test_x.dtype == np.uint8 and len(data.test_y) == WRITERS * TEST_PER_WRITER
    assert data.y.dtype == data.test_y.dtype == np.int32
    assert data.offsets.shape == (WRITERS + 1,) and check(data) is data


def test_equal_arguments_give_the_same_task_and_other_seeds_another(data):
    assert glyphs(WRITERS) is data
    again = glyphs.__wrapped__(WRITERS)
    for name in ("x", "y", "offsets", "test_x", "test_y", "test_straggler"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
    other = glyphs.__wrapped__(WRITERS, 1)
    assert not np.array_equal(other.test_y, data.test_y)
    assert not np.array_equal(other.test_x, data.test_x)


def test_more_writers_change_nothing_that_earlier_writers_drew(data):
    fewer, more = book(10, 0), book(WRITERS, 0)
    for mine, same, labels, labels_again in zip(fewer.hands, more.hands, fewer.labels, more.labels):
        for habit, habit_again in zip(mine, same):
            np.testing.assert_array_equal(habit, habit_again)
        np.testing.assert_array_equal(labels, labels_again)
    tests = glyphs(10)
    np.testing.assert_array_equal(tests.test_x, data.test_x[: len(tests.test_x)])
    np.testing.assert_array_equal(tests.test_y, data.test_y[: len(tests.test_y)])


@pytest.mark.parametrize("writer", [0, 1, 9, 33])
def test_a_writer_keeps_the_very_drawings_that_survive_the_split(data, writer):
    _, labels, drawings = written(writer)
    kept = np.ones(len(labels), bool)
    if not straggler(data)[writer]:
        kept = ~np.isin(labels, STRAGGLER_CLASSES)
        assert not kept.all()
    np.testing.assert_array_equal(data.y[rows(data, writer)], labels[kept])
    np.testing.assert_array_equal(data.x[rows(data, writer)], drawings[kept])


def test_hands_differ_and_so_do_drawings_of_one_hand():
    (one, labels, drawings), (other, _, _) = written(0), written(1)
    assert one.slant != other.slant and not np.array_equal(one.warp, other.warp)
    first, second = np.flatnonzero(labels == np.bincount(labels).argmax())[:2]
    assert not np.array_equal(drawings[first], drawings[second])


def test_only_stragglers_train_on_the_straggler_classes(data):
    assert straggler(data).sum() == 8
    held = [np.isin(data.y[rows(data, w)], STRAGGLER_CLASSES).sum() for w in range(WRITERS)]
    np.testing.assert_array_equal(np.array(held) > 0, straggler(data))


def test_stragglers_are_those_who_wrote_most_straggler_classes(data):
    counts = np.array([np.isin(y, STRAGGLER_CLASSES).sum() for y in book(WRITERS, 0).labels])
    assert counts[straggler(data)].min() >= counts[~straggler(data)].max()


def test_everyone_is_tested_on_the_straggler_classes(data):
    np.testing.assert_array_equal(data.test_straggler, data.test_y < 5)
    assert data.straggler_classes == (0, 1, 2, 3, 4)
    share = data.test_straggler.reshape(WRITERS, TEST_PER_WRITER)[~straggler(data)].mean()
    assert 0.15 < share < 0.35


def test_sizes_and_classes_resemble_emnist():
    hands, labels, kept, who = book(100, 0)
    assert who.examples.min() > 0 and who.examples.max() <= LARGEST
    assert min(hand.size for hand in hands) >= SMALLEST
    assert who.examples[who.group == 1].min() >= SMALLEST
    assert 140 < who.examples.mean() < 200  # 198 less the digits that were removed
    everything = np.concatenate([y[keep] for y, keep in zip(labels, kept)])
    assert set(everything) == set(range(len(CHARACTERS)))
    assert 0.4 < (np.concatenate(labels) < 10).mean() < 0.6


def test_dark_ink_on_white_paper(data):
    edge = np.concatenate([data.x[:, [0, -1]].ravel(), data.x[:, :, [0, -1]].ravel()])
    assert (edge > 250).mean() > 0.95
    shade = np.asarray(ink(data.x, None))
    assert shade.min() == 0 and shade.max() == 1 and 0.05 < shade.mean() < 0.25
    assert (data.x.min(axis=(1, 2)) < 128).mean() > 0.99  # hardly an empty sheet


def test_a_drawing_looks_like_its_label(data):
    """Nearest to its class's mean drawing far more often than by chance: rows are aligned."""

    def blurred(x):
        return (255.0 - x).reshape(len(x), 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(x), -1)

    x, tests = blurred(data.x), blurred(data.test_x)
    means = np.array([x[data.y == c].mean(axis=0) for c in range(len(CHARACTERS))])
    nearest = ((tests[:, None] - means) ** 2).sum(axis=-1).argmin(axis=1)
    assert (nearest == data.test_y).mean() > 0.4
    assert (np.roll(nearest, 1) == data.test_y).mean() < 0.1


def test_writers_differ_more_than_drawings_of_one_writer(data):
    inks = [(255.0 - data.x[rows(data, w)]).mean(axis=(1, 2)) for w in range(WRITERS)]
    within = np.mean([shade.std() / np.sqrt(len(shade)) for shade in inks])
    assert np.std([shade.mean() for shade in inks]) > 5 * within


@pytest.mark.parametrize("seed", [0, 7])
def test_the_population_is_that_of_the_data_with_or_without_it(seed):
    task = glyphs(12, seed)
    planned = build.clients(settings.Glyphs(writers=12, data_seed=seed), seed=99)
    for who in (task.population, planned):
        np.testing.assert_array_equal(who.examples, np.diff(task.offsets))
    np.testing.assert_array_equal(planned.group, task.population.group)
    assert planned[2:] == task.population[2:] and f"seed {seed}" in planned.origin


def test_a_checksum_is_of_every_part_of_the_data(monkeypatch):
    task = glyphs(5)
    original = checksum(task)
    assert checksum(task._replace(x=task.x.copy())) == original != checksum(glyphs(5, 1))
    for name in ("x", "y", "offsets", "test_x", "test_y", "test_straggler"):
        other = getattr(task, name).copy()
        other.flat[-1] ^= 1
        assert checksum(task._replace(**{name: other})) != original
    # Of what is large, of some rows only.
    monkeypatch.setattr(base, "CHECKED", task.x.nbytes // 2)
    x = task.x.copy()
    x[1] ^= 1
    assert checksum(task) == checksum(task._replace(x=x)) != original


def test_one_writer_is_a_straggler():
    assert book(1, 0).population.group.tolist() == [1]


@pytest.mark.parametrize("writers", [0, -3])
def test_a_book_without_writers_is_one_line(writers):
    with pytest.raises(BadInput, match=f"writers={writers}, expected 1 or more"):
        glyphs(writers)
