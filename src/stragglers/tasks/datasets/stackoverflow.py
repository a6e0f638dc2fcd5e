"""StackOverflow's sentences as numbers, prepared once.

    ids         pad 0, bos 1, eos 2, words 3 ..., oov last
    sentence    bos, its first 20 words, eos if it has fewer, padded to 21      [sentences, 21]
    input       the first 20 of a sentence, target the last 20: held once, they share all but one;
                an eos in the input has padding for its target, and counts nowhere

A folder in any of these layouts, the first that is found, or the first file of one:

    stackoverflow_train.h5, stackoverflow_test.h5                     TFF's older files
    stackoverflow.sqlite or stackoverflow.sqlite.lzma                 TFF's file of all splits
    stackoverflow_train.sqlite, stackoverflow_test.sqlite             FedJAX's

and beside it stackoverflow.word_count, or the .tar.bz2 that it comes in; without it words are
counted in the training data. A user with a sentence under one of the straggler tags is a
straggler. No other user has such sentences, so none are removed.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import cache, fedjax_sqlite, tff, vocabulary
from stragglers.tasks.datasets.cache import Writer

PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 3
LENGTH = 21  # of a sentence, bos included
MOST_WORDS = np.iinfo(np.uint16).max - FIRST_WORD
CHUNK = 1 << 18  # sentences written at once
LAYOUTS = [  # training, test, whether FedJAX's
    ("stackoverflow_train.h5", "stackoverflow_test.h5", False),
    ("stackoverflow.sqlite", "stackoverflow.sqlite", False),
    ("stackoverflow.sqlite.lzma", "stackoverflow.sqlite.lzma", False),
    ("stackoverflow_train.sqlite", "stackoverflow_test.sqlite", True),
]
WORD_COUNTS = ("stackoverflow.word_count", "stackoverflow.word_count.tar.bz2")

User = tuple[str, dict[str, NDArray[Any]]]


class Files(NamedTuple):
    train: Path
    test: Path
    by_fedjax: bool
    words: Path | None


class Prepared(NamedTuple):
    sentences: NDArray[np.uint16]  # [sentences, 21], one user's after another's
    examples: NDArray[np.int64]  # of each user
    tokens: NDArray[np.int64]  # of each user's sentences: words, and their ends
    straggler: NDArray[np.bool_]  # each user
    test_sentences: NDArray[np.uint16]
    test_straggler: NDArray[np.bool_]  # each test sentence
    test_user: NDArray[np.int32]  # each test sentence's user among the training users, or -1
    text: NDArray[np.uint8]  # the words, one a line

    @property
    def words(self) -> int:
        return int(np.count_nonzero(self.text == ord("\n")))


def prepared(path: Path, straggler_tags: tuple[str, ...], words: int) -> Prepared:
    """The sentences that lie in a folder, from the cache if it has them."""
    if not 1 <= words <= MOST_WORDS:
        raise BadInput(f"vocabulary={words}, expected from 1 to {MOST_WORDS:,} words")
    files = find(path)
    cached = _cached(files, straggler_tags, words)
    return Prepared(**cache.prepared(*cached, lambda w: _build(w, files, straggler_tags, words)))


def digest(path: Path, straggler_tags: tuple[str, ...], words: int) -> str | None:
    """Names the prepared sentences; None if they are not prepared."""
    return cache.digest(*_cached(find(path), straggler_tags, words))


def _cached(
    files: Files, straggler_tags: tuple[str, ...], words: int
) -> tuple[str, list[Path], dict[str, Any]]:
    sources = [*dict.fromkeys([files.train, files.test]), *([files.words] if files.words else [])]
    settings = {"straggler_tags": sorted(set(straggler_tags)), "vocabulary": words}
    return "stackoverflow", sources, settings


def find(path: Path) -> Files:
    """Which layout lies in a folder, or begins with a file."""
    folder = path if path.is_dir() else path.parent
    words = next((folder / name for name in WORD_COUNTS if (folder / name).is_file()), None)
    for train, test, by_fedjax in LAYOUTS:
        given = path.is_dir() or path.name == train
        if given and (folder / train).is_file() and (folder / test).is_file():
            return Files(folder / train, folder / test, by_fedjax, words)
    expected = "; ".join(" and ".join(dict.fromkeys(layout[:2])) for layout in LAYOUTS)
    raise BadInput(f"{path}: no StackOverflow data, expected one of: {expected}")


def _build(writer: Writer, files: Files, straggler_tags: tuple[str, ...], words: int) -> None:
    if files.words:
        known = vocabulary.from_counts(files.words, words)
    else:
        users = _watched(files, "train", ("tokens",), "counting words")
        known = vocabulary.from_users((fields["tokens"] for _, fields in users), words)
    if not known:
        raise BadInput(f"{files.train}: not a single word in it")
    writer.append("text", np.frombuffer(b"".join(word + b"\n" for word in known), np.uint8))
    encode, tagged = encoder(known), tag_test(straggler_tags)
    fields = ("tokens", "tags")

    place: dict[str, int] = {}
    pieces = _Pieces(writer)
    for user, columns in _watched(files, "train", fields, "training sentences"):
        place[user] = len(place)
        slow = any(map(tagged, columns["tags"]))
        sentences = encode(columns["tokens"])
        pieces.add("sentences", sentences)
        pieces.add("examples", np.array([len(sentences)], np.int64))
        pieces.add("tokens", np.array([np.count_nonzero(sentences[:, 1:] != PAD)], np.int64))
        pieces.add("straggler", np.array([slow]))
    for user, columns in _watched(files, "test", fields, "test sentences"):
        pieces.add("test_sentences", encode(columns["tokens"]))
        pieces.add("test_straggler", np.fromiter(map(tagged, columns["tags"]), bool))
        whose = np.full(len(columns["tokens"]), place.get(user, -1), np.int32)
        pieces.add("test_user", whose)
    pieces.write()


class _Pieces:
    """Gathers small arrays, so that files are written in large pieces."""

    def __init__(self, writer: Writer):
        self._writer = writer
        self._parts: dict[str, list[NDArray[Any]]] = {}
        self._rows = 0

    def add(self, name: str, rows: NDArray[Any]) -> None:
        self._parts.setdefault(name, []).append(rows)
        self._rows += len(rows)
        if self._rows > CHUNK:
            self.write()

    def write(self) -> None:
        for name, parts in self._parts.items():
            self._writer.append(name, np.concatenate(parts))
        self._parts, self._rows = {}, 0


def encoder(words: Iterable[bytes]) -> Callable[[Iterable[bytes]], NDArray[np.uint16]]:
    """From the words known to a function from texts to sentences."""
    ids = {word: number for number, word in enumerate(words, FIRST_WORD)}
    oov = FIRST_WORD + len(ids)
    most = LENGTH - 1

    def encode(texts: Iterable[bytes]) -> NDArray[np.uint16]:
        split = [text.split(None, most)[:most] for text in texts]
        lengths = np.fromiter(map(len, split), np.int64, len(split))
        flat = np.fromiter((ids.get(word, oov) for word in chain(*split)), np.uint16, lengths.sum())
        rows = np.full((len(split), LENGTH), PAD, np.uint16)
        rows[:, 0] = BOS
        rows[:, 1:][np.arange(most) < lengths[:, None]] = flat
        short = np.flatnonzero(lengths < most)
        rows[short, 1 + lengths[short]] = EOS
        return rows

    return encode


def tag_test(straggler_tags: Iterable[str]) -> Callable[[bytes], bool]:
    """Whether one of a post's tags, which are joined by |, is exactly one of the given.

    TFF's tags are tokens, as its sentences are: C++ is `c + +` there, as in the paper, so spaces
    do not count.
    """
    wanted = {tag.replace(" ", "").encode() for tag in straggler_tags}

    @lru_cache(1 << 16)  # sentences of one post follow each other
    def tagged(tags: bytes) -> bool:
        return not wanted.isdisjoint(tags.replace(b" ", b"").split(b"|"))

    return tagged


def _watched(files: Files, split: str, fields: tuple[str, ...], what: str) -> Iterator[User]:
    """Users, checked, with a progress bar where somebody looks."""
    from rich.console import Console
    from rich.progress import track

    file = files.train if split == "train" else files.test
    if files.by_fedjax:
        users, count = fedjax_sqlite.clients(file, fields), fedjax_sqlite.client_count(file)
    else:
        users, count = tff.clients(file, split, fields), tff.client_count(file, split)
    users = track(
        users,
        f"stackoverflow: {what}",
        count,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    for user, columns in users:
        for name, values in columns.items():
            if values.ndim != 1 or any(type(value) is not bytes for value in values):
                raise BadInput(f"{file}: user {user!r}: {name!r} is not text, one for each example")
        yield user, columns
