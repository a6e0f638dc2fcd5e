"""A look at a task's data: a row for each of some clients, small to large, stragglers first."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stragglers.planning.population import Population
from stragglers.report.colours import GROUPS
from stragglers.tasks.base import Task
from stragglers.tasks.datasets.handwriting import CHARACTERS

CLIENTS = 5  # of each group
IMAGES = 16  # of each client
SENTENCES = 4
# CIFAR-100's classes in the order of their labels, as its authors name them.
CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
LABELS = {
    "glyphs": list(CHARACTERS),
    "emnist": list(CHARACTERS),
    "cifar100": [name.replace("_", " ") for name in CIFAR100.split()],
}


class Row(NamedTuple):
    client: int
    group: str
    examples: NDArray[np.int64]  # rows of the task's x and y, spread over the client's


def rows(population: Population, offsets: NDArray[np.int64], each: int) -> list[Row]:
    """Clients of every group, spread from the smallest to the largest that has examples."""
    chosen = []
    for index, group in reversed(list(enumerate(population.groups))):
        members = np.flatnonzero((population.group == index) & (population.examples > 0))
        by_size = members[np.argsort(population.examples[members], kind="stable")]
        for client in _spread(by_size, CLIENTS).tolist():
            examples = np.arange(*offsets[client : client + 2].tolist())
            chosen.append(Row(client, group, _spread(examples, each)))
    return chosen


def page(task: Task, words: list[str]) -> Figure:
    """Sentences, with … for words beyond the vocabulary."""
    shown = rows(task.population, task.offsets, SENTENCES)
    lines: list[tuple[str, str]] = []  # text and its colour
    for row in shown:
        colour = GROUPS[row.group == "straggler"]
        lines += [("", colour), (_caption(task.population, row).replace("\n", ", "), colour)]
        for sentence in task.x[row.examples].tolist():
            text = " ".join(filter(None, (words[token] for token in sentence)))
            lines.append((f"    {text}", "black"))
    height = 0.17 * len(lines) + 0.7
    figure = Figure(figsize=(12, height))
    figure.suptitle(_title(task), fontsize=9, wrap=True, parse_math=False)
    for number, (text, colour) in enumerate(lines):
        figure.text(
            0.02,
            1 - (0.5 + 0.17 * number) / height,
            text,
            color=colour,
            fontsize=8,
            va="top",
            parse_math=False,
        )
    return figure


def sheet(task: Task) -> Figure:
    """Images with their labels; those of straggler classes in the stragglers' colour."""
    shown = rows(task.population, task.offsets, IMAGES)
    names = LABELS[task.name]
    slow = set(np.unique(task.test_y[task.test_straggler]).tolist())
    side = task.x.shape[1]
    figure = Figure(figsize=(12, 0.95 * len(shown) + 0.6), layout="constrained")
    figure.suptitle(_title(task), fontsize=9, wrap=True, parse_math=False)
    grid = np.atleast_1d(figure.subplots(len(shown), 1))
    for axes, row in zip(grid, shown, strict=True):
        axes.imshow(_strip(task.x[row.examples], IMAGES), cmap="gray")
        for place, label in enumerate(task.y[row.examples].tolist()):
            colour = GROUPS[1] if label in slow else "black"
            axes.text(
                (place + 0.5) * (side + 2),
                -1,
                names[label],
                color=colour,
                fontsize=7,
                ha="center",
                va="bottom",
            )
        axes.set_ylabel(
            _caption(task.population, row), fontsize=7, rotation=0, ha="right", va="center"
        )
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    return figure


def _title(task: Task) -> str:
    return f"{task.name}: {task.population.origin}"


def _caption(population: Population, row: Row) -> str:
    size = population.examples[row.client]
    return f"{row.group}\nclient {row.client:,}\n{size:,} example{'s' if size > 1 else ''}"


def _strip(images: NDArray, places: int) -> NDArray:
    """Images side by side on white, [side, places * (side + 2)] and colours if they have them."""
    pixels = images if images.dtype == np.uint8 else (255 * images).astype(np.uint8)
    side = pixels.shape[1]
    strip = np.full((side, places * (side + 2), *pixels.shape[3:]), 255, np.uint8)
    for place, image in enumerate(pixels):
        left = place * (side + 2) + 1
        strip[:, left : left + side] = image
    return strip


def _spread(values: NDArray, count: int) -> NDArray:
    """Some of the values, evenly from the first to the last."""
    places = np.linspace(0, len(values) - 1, min(count, len(values)))
    return values[np.unique(places.astype(int))]
