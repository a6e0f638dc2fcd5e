"""Who the clients are: how many examples each holds, and which group it belongs to.

A schedule needs nothing else of a client, so a population exists with or without data: counted
from a task's examples, read from a CSV file, made up from distributions, or one of the models of
the paper's tasks below. `origin` says which, and every output repeats it.

The paper's split: the clients richest in the straggler classes are the stragglers; everybody
else loses those classes (Hard et al., section 4.1). Sizes here are those after the removal.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files, random_streams
from stragglers._core.errors import BadInput, did_you_mean, shown
from stragglers.planning.cifar_partition import FINE_PER_COARSE, dirichlet_partition
from stragglers.planning.distributions import Distribution

COLUMNS = ["client", "examples", "group", "tokens"]  # of a CSV file
PAPER_GROUPS = ("standard", "straggler")
LEAST_TOKENS, MOST_TOKENS = 1e-6, 1e9  # of one example
MOST_EXAMPLES = 10**15  # of one client; float64 counts that far exactly
VEHICLES = (18, 19)  # CIFAR-100's coarse classes "vehicles 1" and "vehicles 2"
EMNIST_STRAGGLERS, CIFAR100_STRAGGLERS = (800, 3400), (125, 500)  # of so many clients


class Population(NamedTuple):
    examples: NDArray[np.int64]  # N of each client
    group: NDArray[np.int16]  # index into `groups`, of each client
    groups: tuple[str, ...]
    origin: str  # where the sizes come from
    tokens: NDArray[np.float64] | None = None  # of an example of each client, on average; if known
    names: tuple[str, ...] | None = None  # of the clients; without, they go by 0, 1, 2, ...

    @property
    def clients(self) -> int:
        return len(self.examples)

    def by_group(self, given: Mapping[str, float], otherwise: float) -> NDArray[np.float64]:
        """Each client's number, from its group's; groups that are not named have another."""
        for name in given:
            if name not in self.groups:
                raise BadInput(
                    f"no group {name!r} in {self.origin}; {did_you_mean(name, self.groups)}"
                )
        return np.array([given.get(name, otherwise) for name in self.groups])[self.group]

    def numbers(self) -> dict[str, int]:
        """Each client's number, by what files call it."""
        names = self.names or map(str, range(self.clients))
        return {name: number for number, name in enumerate(names)}

    def known_by(self) -> str:
        """What files call clients, in words."""
        if self.names:
            return "the names that its clients have there"
        return f"its number from 0 to {self.clients - 1}"

    def cost(self) -> NDArray[np.float64]:
        """Of an example of each client by its tokens, against the mean over all examples."""
        if self.tokens is None:
            raise BadInput(
                f"latency.cost: 'tokens' given, but of {self.origin} they are not known; expected "
                "'examples', or clients of a CSV file with a column `tokens`; training counts "
                "those of StackOverflow's data"
            )
        total = np.sum(self.tokens * self.examples)
        return self.tokens * (self.examples.sum() / total) if total else np.ones(self.clients)


def fleet(groups: Mapping[str, tuple[int, Distribution]], seed: int = 0) -> Population:
    """A made-up fleet: each named group has a number of clients and a distribution of sizes."""
    if not groups:
        raise BadInput("a fleet without groups; name at least one with `clients` and `examples`")
    sizes = []
    for index, (name, (clients, examples)) in enumerate(groups.items()):
        if clients < 1:
            raise BadInput(f"group {name!r}: clients={clients}, expected at least 1")
        z = random_streams.generator(seed, random_streams.Purpose.SIZES, index).standard_normal(
            clients
        )
        sizes.append(_whole(examples(z), f"group {name!r}"))
    group = np.repeat(np.arange(len(groups), dtype=np.int16), [len(s) for s in sizes])
    return Population(np.concatenate(sizes), group, tuple(groups), "a made-up fleet")


def from_csv(file: str | Path) -> Population:
    """Reads the columns `client`, `examples` and `group`, one client a line, groups in order.

    A column `tokens` has those of one example of the client, on average; others are passed over.
    """
    path = Path(file)
    examples: list[int] = []
    tokens: list[float] = []
    group: list[int] = []
    groups: dict[str, int] = {}
    names: dict[str, None] = {}  # in order
    rows = csv_files.rows(path, "a CSV file of clients")
    _, header = next(rows, (1, []))
    columns = [name.strip() for name in header]
    wanted = [name for name in COLUMNS if name != "tokens" or name in columns]
    if any(columns.count(name) != 1 for name in wanted):
        raise BadInput(
            f"{path}: line 1: {shown(','.join(header))}, expected a header with client, examples "
            "and group, each once, and tokens if they are known"
        )
    places = [columns.index(name) for name in wanted]
    for line, row in rows:
        if not row:
            continue
        client, count, name, *length = _client(path, line, row, columns, places)
        if client in names:
            raise BadInput(f"{path}: line {line}: client {client!r} again")
        names[client] = None
        examples.append(count)
        tokens += length
        group.append(groups.setdefault(name, len(groups)))
    if not examples:
        raise BadInput(f"{path}: no clients, expected a line 'client,examples,group' for each")
    if len(groups) > np.iinfo(np.int16).max:
        raise BadInput(f"{path}: {len(groups)} groups, expected a few; is `group` the client?")
    return Population(
        np.array(examples, np.int64),
        np.array(group, np.int16),
        tuple(groups),
        f"the file {path}",
        np.array(tokens) if tokens else None,
        tuple(names),
    )


def _client(
    path: Path, line: int, row: list[str], columns: list[str], places: list[int]
) -> tuple[Any, ...]:
    fields = [row[place].strip() for place in places] if len(row) == len(columns) else []
    if fields and all(fields):
        client, count, name, *tokens = fields
        whole = count.isdecimal() and len(count) <= 16 and int(count) <= MOST_EXAMPLES
        length = [_number(text) for text in tokens]
        if whole and all(LEAST_TOKENS <= number <= MOST_TOKENS for number in length):
            return client, int(count), name, *length
    raise BadInput(
        f"{path}: line {line}: {shown(','.join(row))}, expected {','.join(columns)} with a "
        f"whole number of examples from 0 to {MOST_EXAMPLES:.0e}"
        + (f" and tokens from {LEAST_TOKENS:g} to {MOST_TOKENS:g}" if len(places) > 3 else "")
    )


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _whole(sizes: NDArray[np.float64], where: str) -> NDArray[np.int64]:
    if not np.all(sizes <= MOST_EXAMPLES):
        raise BadInput(
            f"{where}: a client of {sizes.max():g} examples, expected at most "
            f"{MOST_EXAMPLES:.0e}; check the distribution"
        )
    return np.rint(sizes).astype(np.int64)


def cifar100(
    partition_seed: int = 0,
    stragglers: int | None = None,
    straggler_classes: Sequence[int] = VEHICLES,
) -> Population:
    """CIFAR-100's 500 clients, partitioned anew from labels alone; 125 of them stragglers."""
    coarse = dirichlet_partition(partition_seed) // FINE_PER_COARSE
    clients, each = coarse.shape
    split = straggler_split(
        np.isin(coarse, straggler_classes).ravel(),
        np.arange(0, coarse.size + 1, each),
        share(clients, CIFAR100_STRAGGLERS) if stragglers is None else stragglers,
    )
    origin = f"CIFAR-100's Dirichlet partition made from labels alone (seed {partition_seed})"
    return split.population(origin)


class Split(NamedTuple):
    """The paper's split of clients, and what it leaves of their examples."""

    straggler: NDArray[np.bool_]  # of each client
    keep: NDArray[np.bool_]  # of each example: not a straggler class with a standard client
    examples: NDArray[np.int64]  # of each client, after the removal

    def population(self, origin: str) -> Population:
        return Population(self.examples, self.straggler.astype(np.int16), PAPER_GROUPS, origin)


def straggler_split(slow: NDArray[np.bool_], offsets: NDArray[np.int64], stragglers: int) -> Split:
    """Splits clients whose rows lie side by side; `slow` marks examples of straggler classes.

    A client that loses everything keeps its place, with no examples.
    """
    clients = len(offsets) - 1
    if not 0 <= stragglers <= clients:
        raise BadInput(f"stragglers={stragglers} of {clients} clients, expected at most {clients}")
    owner = np.repeat(np.arange(clients), np.diff(offsets))
    straggler = most(np.bincount(owner[slow], minlength=clients), stragglers)
    keep = straggler[owner] | ~slow
    return Split(straggler, keep, np.bincount(owner[keep], minlength=clients))


def share(clients: int, published: tuple[int, int]) -> int:
    """As many stragglers among these clients as the paper has among its own, at least one."""
    stragglers, of = published
    return max(1, round(clients * stragglers / of))


def most(count: NDArray[np.int64], stragglers: int) -> NDArray[np.bool_]:
    """Marks the clients with the highest counts; equal counts go to the lower index."""
    marked = np.zeros(len(count), bool)
    marked[np.argsort(-count, kind="stable")[:stragglers]] = True
    return marked


def emnist() -> Population:
    """A model of EMNIST's 3,400 writers, 800 of them stragglers.

    Real writers are of two kinds, short and long; the tables are percentiles of LEAF's writers
    (standard ones without their digits 0-4). Only the share of long writers in each group was
    fitted: to the paper's latency percentiles and to the published total, never to its times.
    """
    short, long = [0, 0.05, 0.25, 0.5, 0.75, 1], [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1]
    standard = np.concatenate(
        [
            np.interp(_midpoints(1363), short, [28, 70, 88, 95, 100, 105]),
            np.interp(_midpoints(1237), long, [13, 93, 178, 232, 277, 331, 371]),
        ]
    )
    straggler = np.concatenate(
        [
            np.interp(_midpoints(661), short, [134, 150, 157, 160, 162, 165]),
            np.interp(_midpoints(139), long, [60, 140, 225, 279, 324, 378, 418]),
        ]
    )
    return _paper_model(standard, straggler, "a model of EMNIST's client sizes, not its data")


def stackoverflow() -> Population:
    """A model of StackOverflow's 342,477 users, 93,882 of them stragglers.

    A floor (users of under 100 sentences were removed from the data) plus a log-normal excess,
    fitted to the paper's latency percentiles and the published total of 135,818,730 sentences,
    which pins the tail; never to its times.
    """
    from scipy.special import ndtri

    standard = 70.9 + np.exp(4.525 + 1.2575 * ndtri(_midpoints(248_595)))
    straggler = 111.5 + np.exp(5.046 + 1.653 * ndtri(_midpoints(93_882)))
    return _paper_model(
        standard, straggler, "a model of StackOverflow's client sizes, not its data"
    )


def _midpoints(clients: int) -> NDArray[np.float64]:
    return (np.arange(clients) + 0.5) / clients


def _paper_model(
    standard: NDArray[np.float64], straggler: NDArray[np.float64], origin: str
) -> Population:
    group = np.repeat(np.arange(2, dtype=np.int16), [len(standard), len(straggler)])
    sizes = np.rint(np.concatenate([standard, straggler])).astype(np.int64)
    return Population(sizes, group, PAPER_GROUPS, origin)
