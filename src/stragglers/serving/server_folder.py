"""What a live server leaves in a folder: what was measured, and what it needs to go on.

    log.csv            a line for every client that reported or failed, as `stragglers fit` reads
                       it: communication is all that was not training, at the server's clock
    state.safetensors  the server after its last step, as if nothing late came any more

Both are whole at any moment: a line is written at once, the state beside its place. Clients that
are under way when a server stops are in neither.
"""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stragglers._core import files
from stragglers._core.errors import BadInput
from stragglers.algorithms import trees
from stragglers.simulator.coordinator import Coordinator

LOG, STATE = "log.csv", "state.safetensors"
MEMORY = "memory"  # the last report of each client, if the algorithm remembers it
PREFIX, COUNTERS = "state", ("version", "groups", "dispatches")
CLIENTS = ("clients.number", "clients.times", "clients.since")  # how often each was in, since when
COLUMNS = ("client", "group", "examples", "communication", "training", "started", "version", "step")


class Line(NamedTuple):
    """A client that has reported, or has failed."""

    client: int
    group: str
    examples: int
    seconds: float | None  # from its start to its report, none if it failed
    training: float  # seconds of these
    started: float  # seconds since the server's own start
    version: int  # of the model that it started from
    step: int  # server steps made when it reported


class Ledger:
    """The folder of a live server, or none."""

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else files.output_folder(str(folder))

    def write(self, line: Line) -> None:
        if self.folder is None:
            return
        parts = ("", "")
        if line.seconds is not None:
            training = min(line.training, line.seconds)
            parts = (f"{line.seconds - training:.3f}", f"{training:.3f}")
        path = self.folder / LOG
        with files.told(path), path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if file.tell() == 0:
                writer.writerow(COLUMNS)
            writer.writerow(
                (
                    line.client,
                    line.group,
                    line.examples,
                    *parts,
                    f"{line.started:.3f}",
                    line.version,
                    line.step,
                )
            )

    def keep(self, server: Coordinator) -> None:
        """The server's state, in the place of an earlier one."""
        if self.folder is None:
            return
        from safetensors.numpy import save_file

        times, since = server.participations(), server.since
        arrays = trees.named(server.so_far(), PREFIX)
        for client, report in server.memory.items():
            arrays |= trees.named(report, f"{MEMORY}/{client}")
        who = sorted({*times, *since})
        number = np.array(who, np.uint64)  # as Flower has them
        often = np.array([times.get(client, 0) for client in who], np.int64)
        came = np.array([since.get(client, 0) for client in who], np.int64)
        arrays |= dict(zip(CLIENTS, (number, often, came), strict=True))
        counters = {name: str(getattr(server, name)) for name in COUNTERS}
        files.write(self.folder / STATE, lambda path: save_file(arrays, path, counters))

    def go_on(self, server: Coordinator) -> None:
        """Takes a new server to where the last one stopped, if there was one."""
        if self.folder is None or not (self.folder / STATE).exists():
            return
        from safetensors import SafetensorError, safe_open

        path = self.folder / STATE
        try:
            with safe_open(path, "numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                counters = {name: int(file.metadata()[name]) for name in COUNTERS}
                who, often, came = (arrays.pop(name, np.zeros(0)).tolist() for name in CLIENTS)
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise BadInput(
                f"{path}: no state of a server ({error}); remove it to start anew"
            ) from None
        whose = {int(name.split("/")[1]) for name in arrays if name.startswith(f"{MEMORY}/")}
        like = server.empty.delta
        memory = {c: trees.from_named(arrays, like, f"{MEMORY}/{c}") for c in sorted(whose)}
        arrays = {n: array for n, array in arrays.items() if not n.startswith(f"{MEMORY}/")}
        if _kinds(arrays) != _kinds(trees.named(server.state, PREFIX)):
            raise BadInput(
                f"{path}: the state of another algorithm or model; name another folder, "
                "or remove it to start anew"
            )
        server.go_on(
            trees.from_named(arrays, server.state, PREFIX),
            **counters,
            participations=dict(zip(who, often, strict=True)),
            since=dict(zip(who, came, strict=True)),
            memory=memory,
        )


def _kinds(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: (array.shape, array.dtype) for name, array in arrays.items()}
