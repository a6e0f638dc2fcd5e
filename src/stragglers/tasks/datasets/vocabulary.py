"""The words that a text model knows, most used first.

    from_counts     the first lines `word count` of TFF's stackoverflow.word_count, or of its tar
    from_users      counted anew: by how many users use a word, ties in the order of the words

Either way a count is one of users, so that no single user can add a word to the vocabulary.
"""

import io
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import IO

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import archive

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
    least = None
    try:
        with _opened(path) as f:
            lines = iter(lambda: f.readline(LONGEST_LINE), b"")
            for number, line in enumerate(islice(lines, size), 1):
                word, count = _word(path, number, line)
                if word in words or (least is not None and count > least):
                    raise BadInput(
                        f"{path}: line {number}: {word!r} with {count}, expected "
                        "every word once and counts in descending order"
                    )
                words[word] = least = count
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    if not words:
        raise BadInput(f"{path}: no words in it, expected a line `word count` for each")
    return list(words)


def _opened(path: Path) -> IO[bytes]:
    if path.name.endswith(".tar.bz2"):
        return io.BytesIO(archive.members(path, [MEMBER])[MEMBER])
    return path.open("rb")


def _word(path: Path, number: int, line: bytes) -> tuple[bytes, int]:
    parts = line.split()
    if len(parts) == 2 and parts[1].isdigit() and len(parts[1]) < 20 and line.endswith(b"\n"):
        return parts[0], int(parts[1])
    raise BadInput(f"{path}: line {number}: {line[:40]!r}, expected a word and its count")
