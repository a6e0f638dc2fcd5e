"""Several plans as one table: what each value costs, and whom it leaves out."""

from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.table import Table

from stragglers._core import toml_files
from stragglers.report import terminal
from stragglers.report.cells import part
from stragglers.report.console import (
    CORRUPTED,
    UNTRAINED,
    WEIGHT,
    corrupted,
    every_group,
    idle,
    percent,
    weighed,
)

Plan = dict[str, Any]  # its numbers, and which values it was made with
Cell = Callable[[Plan], str]
COHORT = {"schedule.goal", "schedule.over_selection"}  # on which the clients of a round depend
WAITING = "waiting: of the time, until enough clients are idle for the next to start"
LATE = (
    "late: of all clients that were started, those whose reports came after their round and count"
)


def print_sweep(name: str, keys: list[str], rows: list[Plan]) -> None:
    """One line for each value: what it costs and whom it leaves out; or why it has no plan."""
    refused = [row for row in rows if "error" in row]
    rows = [row for row in rows if "error" not in row]
    console, columns = terminal.console(), _sweep_columns(rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in [*keys, *columns]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            *map(_given, row["set"].values()),
            *(cell(row) for cell in columns.values()),
        )
    console.print(name)
    console.print(table)
    shares = "of clients: its share of all clients"
    if not _differ(rows):
        population = rows[0]["share"].items()
        shares = "of all clients: " + ", ".join(
            f"{group} {percent(share['population'])}" for group, share in population
        )
    console.print(f"used: the group's share of all reports on time; {shares}")
    if any(row["waited_s"] for row in rows):
        console.print(WAITING)
    if any(row["corrupted"] for row in rows):
        console.print(CORRUPTED)
    if _some_late(rows):
        console.print(LATE)
    if weighed(rows):
        console.print(WEIGHT)
    if idle(rows):
        console.print(UNTRAINED)
    for row in refused:
        values = zip(keys, map(_given, row["set"].values()), strict=True)
        sets = ", ".join(f"{key}={value}" for key, value in values)
        console.print(f"{sets}: {row['error']}")


def _given(value: Any) -> str:
    return value if isinstance(value, str) else toml_files.inline(value)


def _sweep_columns(rows: Sequence[Plan]) -> dict[str, Cell]:
    """What a line of a sweep has, by its column; a plan that lacks a group has nothing there."""

    def share(group: str, what: str) -> Cell:
        return lambda row: percent(row["share"].get(group, {}).get(what))

    def weight(group: str) -> Cell:  # of a plan whose reports are all alike, that of used
        what = {id(row): "weight" if weighed([row]) else "used" for row in rows}
        return lambda row: share(group, what[id(row)])(row)

    def untrained(group: str) -> Cell:
        return lambda row: percent(row["groups"].get(group, {}).get("untrained"))

    columns: dict[str, Cell] = {}
    swept = rows[0]["set"].keys()
    if COHORT & swept and "schedule.cohort" not in swept:  # which would say it itself
        columns["cohort"] = lambda row: f"{row['dispatches'] // row['server_steps']:,}"
    columns |= {
        "time s": lambda row: f"{row['time_s']:,.0f}",
        "steps": lambda row: f"{row['server_steps']:,}",
    }
    if any(row["abandoned"] for row in rows):  # else steps tell of the budget
        columns["updates"] = lambda row: f"{row['client_updates']:,}"
        columns["abandoned"] = lambda row: f"{row['abandoned']:,}"
    if any(row["waited_s"] for row in rows):
        columns["waiting"] = lambda row: percent(row["waited_s"] / row["time_s"])
    columns |= {
        "step p50 s": lambda row: f"{row['round_s']['p50']:,.1f}",
        "staleness p95": lambda row: f"{row['staleness']['p95']:,.0f}",
    }
    if any(row["corrupted"] for row in rows):
        columns["corrupted"] = corrupted
    columns |= {
        "wasted": lambda row: percent(part(row["device_s"], "wasted")),
    }
    if _some_late(rows):
        columns["late"] = lambda row: percent(row["reports"]["late"] / row["dispatches"])
    for group in every_group(rows):
        if _differ(rows):
            columns[f"{group}: of clients"] = share(group, "population")
        columns[f"{group}: used"] = share(group, "used")
        if weighed(rows):
            columns[f"{group}: weight"] = weight(group)
    return columns | {f"{group}: untrained": untrained(group) for group in idle(rows)}


def _some_late(rows: Sequence[Plan]) -> bool:
    return any(row["reports"]["late"] for row in rows)


def _differ(rows: Sequence[Plan]) -> bool:
    """Whether plans differ in who their clients are."""
    first, *others = (
        {group: share["population"] for group, share in row["share"].items()} for row in rows
    )
    return any(other != first for other in others)
