"""Handwriting without a download: writers who draw 0-9 A-Z a-z, each in a hand of their own.

Writers draw the 62 characters 0-9 A-Z a-z. A character starts as a font's outline, kept as a
signed distance field d, in which the width of the pen is merely a threshold. Where writer w
draws character c, the pixel at position p in [-1, 1]^2 is

    source(p) = A p + shift + sum over modes m of warp[m] * mode[m](p)
    ink(p)    = clip(1/2 + sharpness * (pen + tremor * noise(p) - d[glyph[w, c]](source(p))), 0, 1)
    image(p)  = 255 * (1 - ink(p))               EMNIST's raw convention: 255 is background

`source` is linear in (A, shift, warp), so all drawings of a writer are warped by one matrix
product with a fixed basis. Every parameter is a habit of the writer plus a slip of the single
drawing. Characters fill the same box, as in EMNIST, so 0/O/o, 1/l/I, s/S, c/C ... differ little
or not at all, and part of the error cannot be learned away.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput
from stragglers._core.random_streams import Purpose
from stragglers.planning.paper_populations import EMNIST_STRAGGLERS, share, straggler_split
from stragglers.planning.population import Population

CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
STRAGGLER_CLASSES = range(5)
SMALLEST, LARGEST = 20, 418  # training examples of a writer, before the split

# How often each character occurs in EMNIST, roughly, in hundreds: half of all are digits.
FREQUENCY = np.array(
    [404, 447, 403, 411, 392, 366, 399, 419, 396, 395]  # 0-9
    + [75, 41, 113, 49, 58, 102, 28, 33, 137, 41, 28, 56, 100]  # A-M
    + [91, 280, 93, 26, 55, 235, 109, 141, 50, 51, 29, 52, 28]  # N-Z
    + [112, 56, 30, 115, 285, 25, 39, 97, 28, 20, 26, 170, 27]  # a-m
    + [129, 28, 24, 30, 155, 27, 204, 28, 30, 27, 28, 25, 29]  # n-z
)
MIX_CONCENTRATION = 40.0  # Dirichlet, around FREQUENCY; the lower, the less alike are writers

# Fonts that matplotlib ships, and the share of writers who start from each: sans and italic
# shapes are nearest to handwriting. A dotted zero (DejaVu Sans Mono) would give 0 away.
FONTS = {
    "DejaVuSans": 0.20,
    "cmss10": 0.16,
    "STIXGeneralItalic": 0.12,
    "cmti10": 0.10,
    "DejaVuSerif-Italic": 0.10,
    "cmmi10": 0.10,
    "cmtt10": 0.08,
    "cmr10": 0.06,
    "STIXGeneral": 0.04,
    "DejaVuSerif": 0.04,
}
# Characters that many people write alike, and the shape (of the first font) they then give them.
ALIKE = {"1": "I", "I": "I", "l": "I", "0": "O", "O": "O", "o": "O"}

SIDE = 28  # pixels of a drawing
BOX = 20  # pixels of a character's longer side, before slant and warp
ZOOM = 2.5  # pixels of a distance field per pixel of a drawing
TILE = int(SIDE * ZOOM)  # pixels of a distance field


class Hand(NamedTuple):
    """One writer's habits. Lengths are in pixels of a drawing, positions in [-1, 1]."""

    size: int  # training examples before the split
    mix: np.ndarray  # probability of each character, [62]
    glyph: np.ndarray  # row of the bank drawn for each character, [62]
    warp: np.ndarray  # the writer's own deformation of each character, [62, 2, modes]
    slant: float  # to the right
    turn: float  # radians
    aspect: float  # log of width over height
    pen: float  # half the stroke's width
    sharpness: float  # of the stroke's edge; 1 is one pixel from paper to ink
    tremor: float  # standard deviation of the stroke's edge
    haste: float  # scales the slips of single drawings


class Book(NamedTuple):
    """What all writers write, and who of them are stragglers."""

    hands: list[Hand]
    labels: list[NDArray[np.int32]]  # of each writer, before the split
    kept: list[NDArray[np.bool_]]  # the labels that stay after it
    population: Population


def book(writers: int, seed: int) -> Book:
    """The split of Hard et al. (2024), from labels alone: the writers with the most digits 0-4
    are the stragglers (800 of 3,400), and everybody else loses those digits."""
    if writers < 1:
        raise BadInput(f"writers={writers}, expected 1 or more")
    hands = [learn_to_write(rng) for rng in streams(seed, Purpose.HAND, writers)]
    labels = [
        choose(rng, hand, hand.size)
        for rng, hand in zip(streams(seed, Purpose.LABELS, writers), hands, strict=True)
    ]
    offsets = np.cumsum([0, *map(len, labels)])
    digits = np.isin(np.concatenate(labels), STRAGGLER_CLASSES)
    split = straggler_split(digits, offsets, share(writers, EMNIST_STRAGGLERS))
    kept = np.split(split.keep, offsets[1:-1])
    population = split.population(f"writers of the embedded glyphs (seed {seed})")
    return Book(hands, labels, kept, population)


def streams(seed: int, purpose: Purpose, writers: int) -> list[np.random.Generator]:
    """A generator for each writer, whose draws do not depend on how many writers there are."""
    return [random_streams.generator(seed, purpose, writer) for writer in range(writers)]


def learn_to_write(rng: np.random.Generator) -> Hand:
    few, typical, many = rng.uniform(20, 100), rng.normal(150, 25), rng.normal(320, 45)
    size = rng.choice([few, typical, many], p=[0.06, 0.65, 0.29])

    main, second = rng.choice(len(FONTS), 2, p=list(FONTS.values()))
    glyph = np.where(rng.random(62) < 0.8, main, second) * 62 + np.arange(62)
    for character, shape in ALIKE.items():
        if rng.random() < 0.3:
            glyph[CHARACTERS.index(character)] = CHARACTERS.index(shape)

    return Hand(
        size=int(np.clip(size, SMALLEST, LARGEST)),
        mix=rng.dirichlet(MIX_CONCENTRATION * FREQUENCY / FREQUENCY.sum()),
        glyph=glyph,
        warp=0.12 * MODE_SIZE * rng.standard_normal((62, 2, len(MODE_SIZE))),
        slant=rng.normal(0.12, 0.2),
        turn=rng.normal(0, 0.08),
        aspect=rng.normal(0, 0.15),
        pen=rng.uniform(1.1, 2.0),
        sharpness=rng.uniform(0.5, 1.1),
        tremor=rng.uniform(0.05, 0.35),
        haste=rng.uniform(0.6, 1.4),
    )


def choose(rng: np.random.Generator, hand: Hand, count: int) -> np.ndarray:
    return rng.choice(62, count, p=hand.mix).astype(np.int32)


def draw(rng: np.random.Generator, hand: Hand, labels: np.ndarray) -> np.ndarray:
    """One drawing per label, uint8 [labels, 28, 28]."""

    def slip(*shape: int) -> np.ndarray:
        return hand.haste * rng.standard_normal((len(labels), *shape))

    slant, turn = hand.slant + 0.08 * slip(), hand.turn + 0.06 * slip()
    size, aspect = 0.05 * slip(), hand.aspect + 0.12 * slip()
    wide, high = np.exp(size + aspect / 2), np.exp(size - aspect / 2)
    cos, sin = np.cos(turn), np.sin(turn)

    # Drawing to source: turn, shear, scale. y points down, so the top reads from further left.
    across = [(cos - slant * sin) / wide, (sin + slant * cos) / wide]
    down = [-sin / high, cos / high]
    affine = np.stack(across + down, axis=-1).reshape(-1, 2, 2)
    shift = 0.05 * slip(2, 1)
    warp = hand.warp[labels] + 0.12 * MODE_SIZE * slip(2, len(MODE_SIZE))
    weights = np.concatenate([shift, affine, warp], axis=-1).astype(np.float32)
    source = weights @ BASIS  # [labels, (x, y), pixels]

    # The nearest sample will do: distances are smooth and the field is finer than the drawing.
    x, y = np.moveaxis(np.clip((source + 1) * (TILE / 2), 0, TILE - 1).astype(np.int32), 1, 0)
    distance = bank()[(hand.glyph[labels] * TILE**2).astype(np.int32)[:, None] + y * TILE + x]

    pen = hand.pen * np.exp(0.1 * slip(1)).astype(np.float32)
    noise = rng.standard_normal(distance.shape, np.float32)
    ink = np.clip(0.5 + hand.sharpness * (pen + hand.tremor * noise - distance), 0, 1)
    return (255.5 - 255 * ink).astype(np.uint8).reshape(-1, SIDE, SIDE)


@cache
def bank() -> np.ndarray:
    """The distance fields of all fonts' characters, flat float32 [fonts * 62 * TILE * TILE]."""
    import matplotlib
    from PIL import ImageFont

    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    fonts = [ImageFont.truetype(folder / f"{name}.ttf", 100) for name in FONTS]
    return np.stack([distance_field(font, c) for font in fonts for c in CHARACTERS]).ravel()


def distance_field(font: Any, character: str) -> np.ndarray:
    """Distance, in pixels of a drawing, from about the middle of the stroke: measured from there
    rather than from the outline, one pen draws equally wide in a light and in a heavy font."""
    from PIL import Image, ImageDraw
    from scipy.ndimage import distance_transform_edt

    left, top, right, bottom = font.getbbox(character)
    glyph = Image.new("L", (int(right - left), int(bottom - top)))
    ImageDraw.Draw(glyph).text((-left, -top), character, fill=255, font=font)
    width, height = (round(n * BOX * ZOOM / max(glyph.size)) for n in glyph.size)
    tile = Image.new("L", (TILE, TILE))
    tile.paste(glyph.resize((width, height)), ((TILE - width) // 2, (TILE - height) // 2))

    inside = np.asarray(tile) > 127
    depth = np.asarray(distance_transform_edt(inside))
    outside = np.asarray(distance_transform_edt(~inside))
    half_width = 2 * depth[inside].mean()  # a straight stroke is on average half as deep
    return ((outside - depth + half_width) / ZOOM).astype(np.float32)


def warp_basis() -> tuple[np.ndarray, np.ndarray]:
    """1, x, y and smooth modes at each pixel, [3 + modes, pixels], and the modes' sizes."""
    p = (np.arange(SIDE) + 0.5) / SIDE
    y, x = np.meshgrid(2 * p - 1, 2 * p - 1, indexing="ij")
    # Without the three lowest modes, which do little that an affine map does not.
    waves = [(i, j) for i in range(4) for j in range(4) if i + j >= 2]
    modes = [np.outer(np.cos(np.pi * i * p), np.cos(np.pi * j * p)) for i, j in waves]
    basis = np.stack([np.ones_like(x), x, y, *modes]).reshape(-1, SIDE**2)
    return basis.astype(np.float32), np.array([1 / (i**2 + j**2) for i, j in waves])


BASIS, MODE_SIZE = warp_basis()
