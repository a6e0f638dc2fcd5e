"""What was fitted to a log, as text for a terminal."""

from typing import Any

from rich import box
from rich.table import Table

from stragglers.planning.fit.totals import ENOUGH
from stragglers.report.cells import NOTHING, seconds
from stragglers.report.grouping import plain
from stragglers.report.terminal import console


def print_fit(summary: dict[str, Any]) -> None:
    out = console()
    out.print(
        f"{plain(summary['log'])}: {summary['participations']:,} participations of "
        f"{summary['clients']:,} clients, {summary['reports']:,} reports",
        highlight=False,
    )
    out.print(_factors(summary["groups"]))
    out.print(_times(summary["groups"]))
    for name, said in (
        ("persistence", "of its luck a client keeps"),
        ("correlation", "of communication and time per example"),
    ):
        value = summary[name]
        out.print(f"{name:<13}{'cannot be told' if value is None else f'{value:.2f}, {said}'}")
    few = [plain(name) for name, group in summary["groups"].items() if group["few"]]
    if few:
        told = f"fewer than {ENOUGH} clients, too few for more than three numbers from sums"
        out.print(f"{', '.join(few)}: {told}: no overhead, and one sigma for both", highlight=False)
    out.print(
        "off by: of a log-normal, at most, in shares of reports below some value; each "
        "client counts once"
    )


def _factors(groups: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("group", "factor", "distribution of seconds"):
        table.add_column(column)
    table.add_column("off by", justify="right")
    for name, group in groups.items():
        name = plain(name)
        for factor, one in group["factors"].items():
            off = NOTHING if one["misfit"] is None else f"{100 * one['misfit']:.1f} %"
            table.add_row(name, factor, _distribution(one), off)
            name = ""
    return table


def _distribution(one: dict[str, Any]) -> str:
    given = one.get("table") or {k: v for k, v in one.items() if k not in ("kind", "misfit")}
    return f"{one['kind']} {', '.join(f'{key}: {value:g}' for key, value in given.items())}"


def _times(groups: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group")
    for column in ("clients", "never reported"):
        table.add_column(column, justify="right")
    levels = next(iter(groups.values()))["seconds"]["log"]
    for level in levels:
        table.add_column(f"p{level} s: log", justify="right")
        table.add_column("fitted", justify="right")
    for name, group in groups.items():
        pairs = [group["seconds"][which][level] for level in levels for which in ("log", "fitted")]
        lost = f"{100 * group['drop_out']:.1f} %"
        table.add_row(plain(name), f"{group['clients']:,}", lost, *map(_seconds, pairs))
    return table


def _seconds(value: float) -> str:
    return seconds(value) if value >= 100 else f"{value:.3g}"
