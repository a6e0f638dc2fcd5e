import numpy as np

from stragglers.cli import data_figure
from stragglers.planning.paper_populations import PAPER_GROUPS
from stragglers.planning.population import Population
from stragglers.tasks.glyphs import glyphs


def test_rows_are_of_both_groups_from_small_to_large():
    sizes = np.array([5, 0, 3, 9, 1, 7, 2, 8, 4, 6, 30])
    group = np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], np.int16)
    population = Population(sizes, group, PAPER_GROUPS, "here")
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = data_figure.rows(population, offsets, 4)
    assert [row.group for row in rows] == ["straggler"] + ["standard"] * data_figure.CLIENTS
    shown = [sizes[row.client] for row in rows]
    assert shown[1] == 1 and shown[-1] == 9 and shown[1:] == sorted(shown[1:])  # the empty one: not
    for row in rows:
        assert len(row.examples) == min(4, sizes[row.client])
        assert offsets[row.client] <= row.examples.min() <= row.examples.max()
        assert row.examples.max() < offsets[row.client + 1]


def test_labels_and_colours_are_those_of_the_examples():
    task = glyphs(20)
    sheet = data_figure.sheet(task)
    rows = data_figure.rows(task.population, task.offsets, data_figure.IMAGES)
    assert len(sheet.axes) == len(rows) == 2 * data_figure.CLIENTS
    for axes, row in zip(sheet.axes, rows):
        labels = [text.get_text() for text in axes.texts]
        assert labels == [data_figure.LABELS["glyphs"][y] for y in task.y[row.examples]]
        slow = [text.get_color() == data_figure.GROUPS[1] for text in axes.texts]
        assert slow == [label in "01234" for label in labels]
        assert row.group == "straggler" or not any(slow)


def test_a_strip_holds_images_as_they_are():
    images = np.arange(3 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4)
    strip = data_figure._strip(images, 5)
    assert strip.shape == (4, 30) and (strip[:, 18:] == 255).all()
    assert (strip[:, 7:11] == images[1]).all()
    assert (data_figure._strip(images / np.float32(255), 5) == strip).all()
    coloured = np.zeros((2, 4, 4, 3), np.uint8)
    assert data_figure._strip(coloured, 2).shape == (4, 12, 3)


def test_every_label_has_a_name():
    assert len(data_figure.LABELS["cifar100"]) == len(set(data_figure.LABELS["cifar100"])) == 100
    assert len(data_figure.LABELS["emnist"]) == 62
