"""Clients: how many examples each holds, and which group it belongs to.

A schedule needs nothing else of a client, so a population exists with or without data: counted
from a task's examples, read from a CSV file, drawn from distributions (`Clients`), or one of the
models of the paper's tasks (paper_populations.py). `origin` says which; every output repeats it.
"""

import math
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stragglers._core import csv_files, random_streams
from stragglers._core.errors import BadInput, about, check_type, did_you_mean, shown
from stragglers._core.schema import Count, Settings
from stragglers.planning.distributions import Distribution, Sampler, sampler

COLUMNS = ["client", "examples", "group", "tokens"]  # of a CSV file
LEAST_TOKENS, MOST_TOKENS = 1e-6, 1e9  # of one example
MOST_EXAMPLES = 10**15  # of one client; float64 counts that far exactly


class ClientGroup(Settings, frozen=True):
    """A group of clients and the distribution of their sizes."""

    clients: Count  #: Number of clients.
    examples: Distribution  #: Training examples of a client; rounded to whole numbers.


class Clients(Settings, frozen=True, tag="fleet", tag_field="name"):
    r"""Clients without data, for planning alone: by group, or from a CSV file.

    `st.clients` describes groups by their shares.

    Example:
        >>> import stragglers as st
        >>> with open("clients.csv", "w") as file:
        ...     _ = file.write("client,examples,group\nanna,120,recent\nben,80,older\n")
        >>> fleet = st.Fleet(st.Clients(csv="clients.csv"), st.PER_EXAMPLE)
        >>> st.schedule(fleet, st.Rounds(goal=1), updates=3).population.names
        ('anna', 'ben')
    """

    groups: dict[str, ClientGroup] | None = None  #: Groups of clients, by name.
    #: CSV file with the columns client, examples, group, and optionally tokens (per example).
    csv: str | None = None


def clients(
    number: int,
    *,
    examples: Distribution | Mapping[str, Distribution],
    groups: Mapping[str, float] | None = None,
) -> Clients:
    """Describes clients whose sizes are drawn from a distribution.

    Args:
        number: Number of clients.
        examples: Distribution of the number of training examples of a client; or one for each
            group, by name.
        groups: Each group's share of the clients; by default all clients form one group, `all`.

    Returns:
        A description for `Fleet`; `schedule` draws the sizes by its seed.

    Raises:
        BadInput: If the shares do not add up to 1, or a group would have no client.

    Example:
        >>> import stragglers as st
        >>> sizes = st.LogNormal(median=120, sigma=0.8)
        >>> fleet = st.clients(1000, groups={"recent": 0.75, "older": 0.25}, examples=sizes)
        >>> [(name, group.clients) for name, group in fleet.groups.items()]
        [('recent', 750), ('older', 250)]
    """
    check_type("number", number, Integral, "a whole number of clients")
    groups = {"all": 1.0} if groups is None else groups
    check_type("groups", groups, Mapping, "a share of the clients for each group, by name")
    for name, share in groups.items():
        check_type(f"groups: {name}", share, Real, "a share of the clients")
    if abs(math.fsum(groups.values()) - 1) > 1e-9 or min(groups.values()) <= 0:
        raise BadInput(f"groups={dict(groups)}, expected shares above 0 that add up to 1")
    edges = np.rint(number * np.cumsum([0.0, *groups.values()])).astype(int)
    counts = dict(zip(groups, np.diff(edges).tolist(), strict=True))
    if min(counts.values()) < 1:
        raise BadInput(f"groups={dict(groups)} of {number} clients: a group has no client")
    of_group = examples if isinstance(examples, Mapping) else dict.fromkeys(groups, examples)
    for name in groups:
        if name not in of_group:
            raise BadInput(f"no examples for group {name!r}; {did_you_mean(name, of_group)}")
    return Clients({name: ClientGroup(counts[name], of_group[name]) for name in groups})


class Population(NamedTuple):
    """Clients with their sizes and groups, as drawn or as counted in data.

    Example:
        >>> import numpy as np
        >>> import stragglers as st
        >>> sizes, group = np.array([120, 80, 300]), np.array([0, 1, 0], np.int16)
        >>> population = st.Population(sizes, group, ("recent", "older"), "my logs")
        >>> population.clients
        3
    """

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
        """Each client's number, from its group's; clients of other groups have `otherwise`."""
        for name in given:
            if name not in self.groups:
                raise BadInput(
                    f"no group {name!r} in {self.origin}; {did_you_mean(name, self.groups)}"
                )
        return np.array([given.get(name, otherwise) for name in self.groups])[self.group]

    def numbers(self) -> dict[str, int]:
        """The index of each client, by its name in files."""
        names = self.names or map(str, range(self.clients))
        return {name: number for number, name in enumerate(names)}

    def known_by(self) -> str:
        """How files name clients, in words."""
        if self.names:
            return "the client names of that file"
        return f"its index, from 0 to {self.clients - 1}"

    def cost(self) -> NDArray[np.float64]:
        """Cost of an example of each client by its tokens, relative to the mean example."""
        if self.tokens is None:
            raise BadInput(
                f"latency.cost: 'tokens' given, but of {self.origin} they are not known; expected "
                "'examples', or clients of a CSV file with a column `tokens`; training counts "
                "those of StackOverflow's data"
            )
        total = np.sum(self.tokens * self.examples)
        return self.tokens * (self.examples.sum() / total) if total else np.ones(self.clients)


def drawn(given: Clients, seed: int) -> Population:
    """The clients of a description, with sizes drawn by a seed or read from its file."""
    match given:
        case Clients(groups=None, csv=str(file)):
            return from_csv(file)
        case Clients(groups=dict(groups), csv=None):
            with_samplers = {}
            for name, group in groups.items():
                with about(f"task.groups.{name}.examples"):
                    with_samplers[name] = group.clients, sampler(group.examples)
            return made_up(with_samplers, seed)
    raise BadInput("task: a fleet needs `csv` or `groups`, and not both")


def made_up(groups: Mapping[str, tuple[int, Sampler]], seed: int = 0) -> Population:
    """Named groups, each with a number of clients and a distribution of sizes."""
    if not groups:
        raise BadInput("a fleet without groups; name at least one with `clients` and `examples`")
    sizes = []
    for index, (name, (number, examples)) in enumerate(groups.items()):
        if number < 1:
            raise BadInput(f"group {name!r}: clients={number}, expected at least 1")
        stream = random_streams.generator(seed, random_streams.Purpose.SIZES, index)
        z = stream.standard_normal(number)
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
