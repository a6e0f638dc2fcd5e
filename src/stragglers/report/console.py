"""Plans and results as text for a terminal."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.table import Table

from stragglers.report import formats, result_table, terminal
from stragglers.report.cells import NOTHING, part
from stragglers.report.grouping import plain, shown
from stragglers.report.result_table import Options
from stragglers.runs.records import Record

BEST = 10  # candidates of a search that are printed; the page has them all
CORRUPTED = "corrupted: of the reports on time or late, those that the server drops, and are wasted"
UNTRAINED = "untrained: of the group's reports that count, those without a local step"
WEIGHT = "weight: the group's share of what server steps are the mean of"


def print_plan(name: str, summary: dict[str, Any]) -> None:
    console = terminal.console()
    console.print(f"{name}, seed {summary['seed']}: {summary['policy']}")
    console.print(f"{summary['clients']:,} clients: {summary['population']}\n")
    for label, text in _lines(summary):
        console.print(f"{label:<16}{text}")
    console.print(_group_table(summary))
    console.print("latency: 50 / 95 / 99 % of one epoch over the clients")
    if weighed([summary]):
        console.print(WEIGHT)
    if idle([summary]):
        console.print(UNTRAINED)


def idle(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """Groups of which some report, in one of these plans, holds no training."""
    return [
        name
        for name in every_group(summaries)
        if any(s["groups"].get(name, {}).get("untrained") for s in summaries)
    ]


def weighed(summaries: Sequence[dict[str, Any]]) -> bool:
    """Whether in one of these plans reports count for more or less than others, or late ones do."""
    shares = (share for summary in summaries for share in summary["share"].values())
    return any(share["weight"] is not None for share in shares)


def every_group(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Of all plans, in the order in which they come first: populations may be swept, too."""
    return list(dict.fromkeys(group for row in rows for group in row["share"]))


def _lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    device = summary["device_s"]
    stale, rounds = summary["staleness"], summary["round_s"]
    lines = [
        ("time", f"{summary['time_s']:,.0f} s = {duration(summary['time_s'])}"),
        ("server steps", f"{summary['server_steps']:,} on {summary['client_updates']:,} updates"),
        ("server step", _seconds(rounds, "s apart")),
        ("staleness", _seconds(stale, "server steps")),
        (
            "device time",
            f"{sum(device.values()):,.0f} s, of it {percent(part(device, 'used'))} used, "
            f"{percent(part(device, 'wasted'))} wasted, "
            f"{percent(part(device, 'in_flight'))} under way at the end",
        ),
    ]
    if summary["time_limit_s"] is not None:
        lines.append(("time limit", f"{summary['time_limit_s']:,.1f} s"))
    if summary["waited_s"]:
        share = percent(summary["waited_s"] / summary["time_s"])
        lines.append(("waiting", f"{summary['waited_s']:,.0f} s until enough are idle, {share}"))
    if any(summary["faults"].values()):
        struck = [
            f"{name} {percent(count / summary['dispatches'])}"
            for name, count in summary["faults"].items()
            if count
        ]
        lines.append(("faults", f"{', '.join(struck)} of {summary['dispatches']:,} dispatches"))
    if summary["corrupted"]:
        lines.append(("reports", f"{_reports(summary)}, of them corrupted {corrupted(summary)}"))
    if summary["abandoned"]:
        share = percent(summary["abandoned"] / summary["server_steps"])
        lines.append(("abandoned", f"{summary['abandoned']:,} server steps, {share}"))
    if summary["paper_time_s"] is not None:
        ratio = summary["time_s"] / summary["paper_time_s"] - 1
        lines.insert(1, ("the paper's", f"{summary['paper_time_s']:,.0f} s ({ratio:+.1%})"))
        if summary["paper_anomaly"]:
            lines.insert(2, ("not to aim at", summary["paper_anomaly"]))
    return lines


def _reports(summary: dict[str, Any]) -> str:
    on_time, late = (summary["reports"][fate] for fate in ("on_time", "late"))
    return f"{on_time:,} on time" + (f" and {late:,} late" if late else "")


def corrupted(summary: dict[str, Any]) -> str:
    """Of the reports that met their server step."""
    reports = summary["reports"]
    return percent(summary["corrupted"] / (reports["on_time"] + reports["late"]))


def _group_table(summary: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group")
    some_idle = bool(idle([summary]))
    shares = {
        "of clients": "population",
        "of used": "used",
        "of late": "late",
        "of unused": "unused",
    }
    shares |= {"of weight": "weight"} if weighed([summary]) else {}
    idles = ["untrained"] if some_idle else []
    for column in [*shares, "always late", *idles, "latency [s]"]:
        table.add_column(column, justify="right")
    for name, share in summary["share"].items():
        group = summary["groups"][name]
        latency = group["latency_s"]
        table.add_row(
            name,
            *(percent(share[what]) for what in shares.values()),
            percent(group["always_late"]),
            *([percent(group["untrained"])] if some_idle else []),
            " / ".join(_whole(latency[level]) for level in ("p50", "p95", "p99")),
        )
    return table


def print_results(records: Iterable[Record], options: Options = result_table.USUAL) -> None:
    """The paper's table of some run folders: what `stragglers table` prints."""
    print(formats.text(result_table.tables(records, options), options), end="")


def print_search(name: str, objective: str, history: Sequence[Sequence[Any]], best: Any) -> None:
    """The best candidates of each search, best first; those that diverged have no value.

    What is held out is said of the last one's best alone: shown of all, it would be chosen by, too.
    """
    console = terminal.console()
    for tried in history:
        ranked = sorted(tried, key=lambda c: (math.isnan(c.value), -c.value))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for path in tried[0].chosen:
            table.add_column(plain(path), justify="right")
        table.add_column(f"{objective} accuracy, validation", justify="right")
        for candidate in ranked[:BEST]:
            value = "diverged" if math.isnan(candidate.value) else percent(candidate.value)
            table.add_row(*(shown(v) for v in candidate.chosen.values()), value)
        console.print(f"{plain(name)}: the best of {len(tried)}")
        console.print(table)
    straggler, total = map(percent, best.held_out.values())
    console.print(
        f"to report of the best, on held-out examples: straggler accuracy {straggler}, "
        f"total accuracy {total}"
    )


def duration(seconds: float) -> str:
    """266,000 s as 3 d 1 h 53 min."""
    minutes = round(seconds / 60)
    days, hours = minutes // 1440, minutes // 60 % 24
    return " ".join(f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h")) if n) + (
        f" {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    )


def _seconds(spread: dict[str, float], unit: str) -> str:
    *middle, most = (
        f"{spread[level]:,.4g}" if spread[level] < 1e4 else f"{spread[level]:,.0f}"
        for level in ("p50", "p95", "p99", "max")
    )
    return f"{' / '.join(middle)} {unit} (50 / 95 / 99 %), at most {most}"


def _whole(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.0f}"


def percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"
