"""Numbers of a table as the strings that people read: in a terminal, a paper, on the page."""

import math
from typing import Any

from stragglers._core.tables import NOTHING, Block
from stragglers.report.result_table import COMPARED, Options, Row, Table
from stragglers.report.statistics import FEWEST_PAIRS, Pairs, Reached, Summary

SHORT = {"straggler_accuracy": "straggler", "total_accuracy": "total"}


def blocks(table: Table, options: Options) -> list[Block]:
    """The paper's table and, with a reference, the comparisons."""
    found = [Block(_header(table, options), [_cells(table, row, options) for row in table.rows])]
    if table.reference is not None:
        names = [f"vs {table.reference}"]
        for key in COMPARED:
            names += [f"{SHORT[key]} [points]", "p"]
        rows = [
            [
                row.experiment.label,
                *(cell for key in COMPARED for cell in paired(row.pairs[key])),
                pairs(row.pairs[COMPARED[0]]),
            ]
            for row in table.rows
            if row.pairs
        ]
        found.append(Block([*names, "pairs"], rows))
    return found


def _header(table: Table, options: Options) -> list[str]:
    names = ["algorithm"]
    for name in ("straggler accuracy", "total accuracy", "time [s]"):
        names += [name, "paper"] if _published(table) else [name]
    names += [f"to {target.text} [s]" for target in options.targets]
    return [*names, "trials"]


def _cells(table: Table, row: Row, options: Options) -> list[str]:
    found = [row.experiment.label]
    paper = row.experiment.paper or {}
    for key, name in SHORT.items():
        found.append(accuracy(row.metrics[key], row.diverged))
        if _published(table):
            found.append(paper_accuracy(paper, name))
    found.append(seconds(row.metrics["time_s"].median))
    if _published(table):
        found.append(seconds(paper.get("time_s", math.nan)))
    found += [time_to_target(one) for one in row.targets]
    return [*found, trials(row)]


def _published(table: Table) -> bool:
    return any(row.experiment.paper for row in table.rows)


def accuracy(summary: Summary, diverged: int) -> str:
    if summary.lost:
        why = "diverged" if diverged == summary.lost else "no number"
        return f"{why} in {summary.lost} of {len(summary.values)}"
    if math.isnan(summary.median):
        return NOTHING
    middle = f"{100 * summary.median:.1f} %"
    if len(summary.values) == 1:
        return middle
    if math.isnan(summary.low) or math.isnan(summary.high):
        return f"{middle} [too few trials]"
    return f"{middle} [{100 * summary.low:.1f}, {100 * summary.high:.1f}]"


def paper_accuracy(paper: dict[str, Any], name: str) -> str:
    if not paper:
        return NOTHING
    low, high = paper[f"{name}_interval"]
    return f"{paper[name]:.1f} % [{low:.1f}, {high:.1f}]"


def seconds(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def part(device: dict[str, Any], what: str) -> float | None:
    """The fraction of all device seconds that were used, wasted or under way; none of nothing."""
    total = sum(value or 0.0 for value in device.values())
    return (device.get(what) or 0.0) / total if total else None


def time_to_target(reached: Reached) -> str:
    """All trials: their median. Some: how many, and the median if it is among them."""
    if not reached.times:
        return NOTHING
    if reached.there == len(reached.times):
        return seconds(reached.median)
    some = f"{reached.there} of {len(reached.times)}"
    return f"{seconds(reached.median)} ({some})" if math.isfinite(reached.median) else some


def paired(found: Pairs) -> tuple[str, str]:
    """The median difference in points, and how sure it is."""
    if not found.seeds:
        return NOTHING, NOTHING
    return f"{100 * found.difference:+.1f}", "too few" if found.p is None else f"{found.p:.2g}"


def pairs(found: Pairs) -> str:
    return f"{len(found.seeds)}, {found.lost} diverged" if found.lost else str(len(found.seeds))


def trials(row: Row) -> str:
    parts = [str(row.over)]
    parts += [f"{row.diverged} diverged"] if row.diverged else []
    parts += [f"{row.unfinished} unfinished"] if row.unfinished else []
    return ", ".join(parts)


def legend(options: Options, compared: bool) -> list[str]:
    """What the columns mean; level and method by name."""
    at = "at each trial's best straggler accuracy" if options.best else "at the end of training"
    lines = [f"median [{options.interval.text}], {at}; time is simulated"]
    if options.targets:
        lines.append(
            "time to a target: median over trials, interpolated between points; k of n "
            "trials that reach it, where not all do"
        )
    if compared:
        lines.append(
            "vs: median difference over shared seeds; p of Wilcoxon's signed-rank test, "
            "two-sided, not corrected for several comparisons, from "
            f"{FEWEST_PAIRS} pairs on"
        )
    return lines


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"
