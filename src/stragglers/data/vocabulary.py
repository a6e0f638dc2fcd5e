"""The words that a text model knows, most used first.

    from_counts     the first lines `word count` of TFF's stackoverflow.word_count, or of its tar
    from_users      counted anew: by how many users use a word, ties in the order of the words

Either way a count is a number of users, so that nobody can write a word into the vocabulary alone.
"""

import io
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

from stragglers.errors import BadInput

MEMBER = "stackoverflow.word_count"
LONGEST_LINE = 1 << 16


def from_users(users: Iterable[Iterable[bytes]], size: int) -> list[bytes]:
    """The words that most users have in their sentences; holds every distinct word."""
    count: Counter[bytes] = Counter()
    for sentences in users:
        count.update({word for sentence in sentences for word in sentence.split()})
    return sorted(count, key=lambda word: (-count[word], word))[:size]


def from_counts(path: Path, size: int) -> list[bytes]:
    """The first words of a file of counts, which must be in descending order."""
    words: dict[bytes, int] = {}
    before = None
    try:
        with _lines(path) as file:
            for number, line in enumerate(islice(file, size), 1):
                word, _, count = line.rstrip(b"\r\n").rpartition(b" ")
                if not word or word.split() != [word] or not count.isdigit() or word in words:
                    raise BadInput(
                        f"{path}: line {number}: {line[:40]!r}, expected a new word and its count"
                    )
                if before is not None and int(count[:19]) > before:
                    raise BadInput(f"{path}: line {number}: the counts are not in descending order")
                words[word] = before = int(count[:19])
    except (OSError, EOFError, tarfile.TarError) as error:
        raise BadInput(f"{path}: cannot be read as counts of words ({error})") from None
    if not words:
        raise BadInput(f"{path}: no words in it, expected a line `word count` for each")
    return list(words)


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of the file, or of the member of an archive, which is read where it is."""
    if not path.name.endswith((".tar", ".tar.bz2", ".tar.gz", ".tar.xz")):
        with path.open("rb") as file:
            yield _bounded(path, file)
        return
    with tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            if name.is_absolute() or ".." in name.parts:
                raise BadInput(f"{path}: {member.name!r} points outside of the archive")
            if name.name == MEMBER and member.isfile():
                yield _bounded(path, archive.extractfile(member) or io.BytesIO())
                return
        raise BadInput(f"{path}: no file {MEMBER!r} in it")


def _bounded(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise BadInput(f"{path}: a line of more than {LONGEST_LINE} bytes; is it text?")
        yield line
