"""Where the public files are, and what their publishers say of them.

Every checksum here was published by those who serve the file or by the library that reads it, and
says where. A file without one has its SHA-256 recorded when it is first fetched (download.py).
"""

from collections.abc import Iterable
from typing import NamedTuple

from stragglers._core.errors import BadInput, did_you_mean

TFF = "https://storage.googleapis.com/tff-datasets-public"


class Source(NamedTuple):
    url: str
    about: str  # what it is, and how large, as far as that is known
    checksum: str | None = None  # "sha256:..." or "md5:..."
    published: str = ""  # by whom
    unpacks: tuple[str, ...] = ()  # files that are taken out of an archive, which then goes

    @property
    def name(self) -> str:
        return self.url.rsplit("/", 1)[-1]

    @property
    def files(self) -> tuple[str, ...]:
        """What lies in the folder in the end."""
        return self.unpacks or (self.name,)


WORDS = Source(
    f"{TFF}/stackoverflow.word_count.tar.bz2",
    "its words, by the number of users who use them",
    "sha256:1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c",
    "TensorFlow Federated (datasets/stackoverflow.py)",
)

# For each task what can be fetched, the best first; each choice is all the files of it.
SOURCES: dict[str, list[tuple[Source, ...]]] = {
    "emnist": [
        (
            Source(
                f"{TFF}/fed_emnist.tar.bz2",
                "TFF's 3,400 writers as HDF5; needs h5py",
                "sha256:fe1ed5a502cea3a952eb105920bff8cffb32836b5173cb18a57a32c3606f3ea0",
                "TensorFlow Federated (datasets/emnist.py of its HDF5 days)",
                ("fed_emnist_train.h5", "fed_emnist_test.h5"),
            ),
        ),
        (
            Source(
                f"{TFF}/emnist_all.sqlite.lzma",
                "the same as SQLite, 171 MB, 4.7 GB when unpacked",
            ),
        ),
    ],
    "cifar100": [
        (
            Source(
                f"{TFF}/cifar100.sqlite.lzma",
                "TFF's 500 clients, as in the paper, as SQLite, 153 MB",
                "sha256:23d3916c9caa33395737ee560cc7cb77bbd05fc7b73647ee7be3a7e764172939",
                "FedJAX (datasets/cifar100.py)",
            ),
        ),
        (
            Source(
                "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                "the images alone, 161 MB; they are dealt to 500 clients here",
                "md5:03b5dce01913d631647c71ecec9e9cb8",
                "its authors (https://www.cs.toronto.edu/~kriz/cifar.html)",
            ),
        ),
    ],
    "stackoverflow": [
        (
            Source(
                f"{TFF}/stackoverflow.tar.bz2",
                "TFF's 342,477 users as HDF5, many GB; needs h5py",
                "sha256:99eca2f8b8327a09e5fc123979df2d237acbc5e52322f6d86bf523ee47b961a2",
                "TensorFlow Federated (datasets/stackoverflow.py of its HDF5 days)",
                ("stackoverflow_train.h5", "stackoverflow_test.h5"),
            ),
            WORDS,
        ),
        (
            Source(f"{TFF}/stackoverflow.sqlite.lzma", "the same as SQLite, many GB"),
            WORDS,
        ),
    ],
}


def choose(task: str, name: str | None) -> tuple[Source, ...]:
    """The files to fetch for a task: the first choice, or the one named."""
    choices = {choice[0].name: choice for choice in SOURCES[task]}
    if name is None:
        return SOURCES[task][0]
    if name not in choices:
        raise BadInput(f"--file {name!r} for {task}: {did_you_mean(name, choices)}")
    return choices[name]


def guide(task: str, why: str, layouts: Iterable[str]) -> BadInput:
    """Which files there are to get, from whom, and where to put them; the first line says why."""
    lines = [f"{task}: {why}", "Put the files of one of these into a folder DIR:"]
    for choice in SOURCES[task]:
        lines.append("")
        for source in choice:
            lines += [f"  {source.url}", f"    {source.about}"]
            if source.unpacks:
                lines.append(f"    unpack {' and '.join(source.unpacks)}")
    lines += [
        "",
        f"Then `stragglers data {task} --path DIR` shows what is in them. With --download it",
        "fetches the first of these itself, with --file NAME another one. All that it reads:",
        *(f"  {layout}" for layout in layouts),
    ]
    return BadInput(*lines)
