"""SQLite files of others: opened to read, checked first, their errors told in one line."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stragglers._core.errors import BadInput

MAGIC = b"SQLite format 3\0"


@contextmanager
def opened(path: Path, tables: dict[str, set[str]]) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, to a file that has the tables with their columns."""
    _check_length(path)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            for table, expected in tables.items():
                found = columns(db, table)
                if not found >= expected:
                    raise BadInput(
                        f"{path}: no table {table!r} with {', '.join(sorted(expected))}; "
                        f"expected {' and '.join(map(repr, tables))}"
                    )
            yield db
    except (sqlite3.Error, UnicodeDecodeError) as error:
        why = f"{error}".splitlines()[0]
        raise BadInput(f"{path}: cannot be read as SQLite ({why}); fetch it again") from None


def columns(db: sqlite3.Connection, table: str) -> set[str]:
    """Of a table; of none if there is no such table."""
    return {name for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", [table])}


def _check_length(path: Path) -> None:
    """The header says how many pages there are; a copy that was cut short has fewer."""
    try:
        with path.open("rb") as file:
            header = file.read(100)
        size = path.stat().st_size
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    if not header.startswith(MAGIC) or len(header) < 100:
        raise BadInput(f"{path}: not an SQLite file")
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    whole = (65536 if page == 1 else page) * pages
    if header[24:28] == header[92:96] and size < whole:  # else the count is not kept up to date
        raise BadInput(f"{path}: {size:,} bytes of {whole:,}; fetch it again")
