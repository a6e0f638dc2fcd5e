"""What each node has: the drawings of one writer, as softmax regression takes them."""

import numpy as np

from stragglers._core.random_streams import Purpose
from stragglers.tasks.datasets.handwriting import STRAGGLER_CLASSES, book, choose, draw, streams

WRITERS, CLASSES, PIXELS = 60, 62, 14 * 14
SLOW = set(STRAGGLER_CLASSES)


def of_writer(writer):
    """x, y of a writer's own drawings, and whether it is a straggler."""
    hands, labels, kept, population = book(WRITERS, 0)
    chance = streams(0, Purpose.DRAWINGS, WRITERS)[writer]
    drawings = draw(chance, hands[writer], labels[writer])
    keep = kept[writer]
    return small(drawings[keep]), labels[writer][keep], population.group[writer] == 1


def to_test_on():
    """x, y of drawings by all writers."""
    hands = book(WRITERS, 0).hands
    chances = streams(0, Purpose.TEST_LABELS, WRITERS)
    chosen = [choose(*each, 20) for each in zip(chances, hands, strict=True)]
    drawn = map(draw, streams(0, Purpose.TEST_DRAWINGS, WRITERS), hands, chosen)
    return small(np.concatenate([*drawn])), np.concatenate(chosen)


def small(drawings):
    """Ink from 0 to 1, on a quarter of the pixels."""
    ink = 1 - drawings.reshape(-1, 14, 2, 14, 2).mean((2, 4)) / 255
    return ink.reshape(-1, PIXELS).astype(np.float32)
