"""What a task's data is, and what was fitted to a log, as text."""

from itertools import chain
from typing import Any

from rich.table import Table

from stragglers.planning.fit.totals import ENOUGH
from stragglers.report.cells import NOTHING, seconds
from stragglers.report.console import console, grid
from stragglers.report.grouping import plain


def print_data(summary: dict[str, Any]) -> None:
    out = console()
    out.print(f"{summary['task']}: {summary['origin']}")
    for file, size in summary["files"].items():
        out.print(f"  {file}, {size:,} bytes")
    out.print(_group_table(summary))
    out.print("size: training examples of a client after the split, 5 / 25 / 50 / 75 / 95 %")
    for name, pair in summary["published"].items():
        same = (
            "as published"
            if pair["found"] == pair["published"]
            else (f"published: {pair['published']:,}")
        )
        out.print(f"{name:<20}{pair['found']:>13,}   {same}")
    out.print(f"checksum, as in the run.json of a trial on it: {summary['checksum']}")


def _group_table(summary: dict[str, Any]) -> Table:
    table = grid("group", "clients", "empty", "examples", "size", "largest", "test examples")
    for name, group in summary["groups"].items():
        table.add_row(
            name,
            f"{group['clients']:,}",
            f"{group['empty_clients']:,}",
            f"{group['examples']:,}",
            " / ".join(f"{size:,.0f}" for size in group["size"].values())
            if group["clients"]
            else "–",
            f"{group['largest']:,}",
            f"{group['test_examples']:,}",
        )
    return table


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
        (
            "persistence",
            "share of a client's latency variance that carries over to its next participation",
        ),
        ("correlation", "of communication and time per example"),
    ):
        value = summary[name]
        out.print(f"{name:<13}{'cannot be told' if value is None else f'{value:.2f} ({said})'}")
    few = [plain(name) for name, group in summary["groups"].items() if group["few"]]
    if few:
        told = f"fewer than {ENOUGH} clients, too few for more than three numbers from sums"
        out.print(f"{', '.join(few)}: {told}: no overhead, and one sigma for both", highlight=False)
    out.print(
        "off by: largest gap between the measured and the fitted distribution function, each "
        "client weighted equally"
    )


def _factors(groups: dict[str, Any]) -> Table:
    table = grid("group", "factor", "distribution of seconds", "off by", texts=3)
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
    levels = next(iter(groups.values()))["seconds"]["log"]
    pairs = [(f"p{level} s: log", "fitted") for level in levels]
    table = grid("group", "clients", "never reported", *chain.from_iterable(pairs))
    for name, group in groups.items():
        times = [group["seconds"][which][level] for level in levels for which in ("log", "fitted")]
        lost = f"{100 * group['drop_out']:.1f} %"
        table.add_row(plain(name), f"{group['clients']:,}", lost, *map(_of_log, times))
    return table


def _of_log(value: float) -> str:
    return seconds(value) if value >= 100 else f"{value:.3g}"
