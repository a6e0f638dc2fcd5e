"""FEMNIST as Parquet, Hugging Face's flwrlabs/femnist: one drawing a row.

    image {bytes: PNG 28x28, ...}, writer_id, hsf_id, character (0-9 A-Z a-z as 0 to 61)

The export has no test part, so one is made here: a tenth of each writer's drawings, chosen by a
generator whose address is the writer's name, whatever else is in the files.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stragglers._core import random_streams
from stragglers._core.errors import BadInput

COLUMNS = ["image", "writer_id", "character"]
TEST_SHARE = 0.1

Writers = dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]  # name: pixels, labels


def writers(paths: Sequence[Path]) -> Writers:
    """Everybody's drawings in the order of the files."""
    pixels: dict[str, list[NDArray[np.uint8]]] = defaultdict(list)
    labels: dict[str, list[int]] = defaultdict(list)
    for path in paths:
        for row, (image, writer, label) in enumerate(_rows(path)):
            if writer is None or label is None:
                raise BadInput(f"{path}: row {row}: no writer_id or character, expected both")
            pixels[writer].append(_decoded(image, f"{path}: row {row}"))
            labels[writer].append(label)
    return {name: (np.stack(pixels[name]), np.array(labels[name], np.int64)) for name in pixels}


def clients(everybody: Writers, split: str) -> Iterator[tuple[str, dict[str, NDArray]]]:
    """The writers' part in "train" or "test"."""
    for name, (pixels, label) in everybody.items():
        held_out = test_rows(name, len(label))
        rows = held_out if split == "test" else ~held_out
        yield name, {"pixels": pixels[rows], "label": label[rows]}


def test_rows(writer: str, count: int) -> NDArray[np.bool_]:
    """Marks a tenth of a writer's drawings, at least one if there are two."""
    rng = random_streams.generator(0, random_streams.Purpose.HELD_OUT, zlib.crc32(writer.encode()))
    marked = np.zeros(count, bool)
    marked[rng.permutation(count)[: max(round(TEST_SHARE * count), min(1, count - 1))]] = True
    return marked


def _rows(path: Path) -> Iterator[tuple[Any, str, int]]:
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise BadInput(
            f"{path}: reading it needs pyarrow: pip install 'stragglers[data]'"
        ) from None
    try:
        with ParquetFile(path) as file:
            if missing := [name for name in COLUMNS if name not in file.schema_arrow.names]:
                raise BadInput(
                    f"{path}: no column {missing[0]!r}, expected {', '.join(COLUMNS)} as in "
                    "flwrlabs/femnist"
                )
            for batch in file.iter_batches(batch_size=4096, columns=COLUMNS):
                yield from zip(*(batch[name].to_pylist() for name in COLUMNS), strict=True)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"{path}: not a whole Parquet file ({reason})") from None


def _decoded(image: Any, where: str) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    content = image.get("bytes") if isinstance(image, dict) else image
    if not isinstance(content, bytes):
        raise BadInput(f"{where}: no PNG in `image`, expected the bytes of one")
    try:
        picture = Image.open(BytesIO(content), formats=["PNG"])
        size = picture.size  # known before anything is decoded, so a huge image costs nothing
        pixels = np.asarray(picture.convert("L")) if size == (28, 28) else None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise BadInput(f"{where}: not a PNG image ({error})") from None
    if pixels is None:
        raise BadInput(f"{where}: an image of {size[0]} by {size[1]} pixels, expected 28 by 28")
    return pixels
