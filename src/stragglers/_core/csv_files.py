"""CSV files row by row; what cannot be read is one line that names the file and its line."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from stragglers._core.errors import BadInput


def rows(path: Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its (last) line; a byte order mark is passed over."""
    try:
        content = b"" if path.is_char_device() else path.read_bytes()  # it may have no end
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read as {what} ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise BadInput(f"{path}: line {line}: not UTF-8, expected {what}") from None
    except ValueError:  # a null byte in the path
        raise BadInput(f"{str(path)!r}: not a path, expected {what}") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise BadInput(f"{path}: line {reader.line_num}: {error}, expected {what}") from None
