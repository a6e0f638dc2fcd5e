"""Plans and results as text for a terminal."""

from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from stragglers.records import Record


def print_plan(name: str, summary: dict[str, Any]) -> None:
    console = _console()
    console.print(f"{name}, seed {summary['seed']}: {summary['policy']}")
    console.print(f"{summary['clients']:,} clients: {summary['population']}\n")
    for label, text in _lines(summary):
        console.print(f"{label:<16}{text}")
    console.print(_group_table(summary))
    console.print("latency: 50 / 95 / 99 % of one epoch over the clients")


def _lines(summary: dict[str, Any]) -> list[tuple[str, str]]:
    device = summary["device_s"]
    total = sum(device.values())
    stale, rounds = summary["staleness"], summary["round_s"]
    lines = [
        ("time", f"{summary['time_s']:,.0f} s = {duration(summary['time_s'])}"),
        ("server steps", f"{summary['server_steps']:,} on {summary['client_updates']:,} updates"),
        ("server step", _seconds(rounds, "s apart")),
        ("staleness", _seconds(stale, "server steps")),
        (
            "device time",
            f"{total:,.0f} s, of it {_percent(device['used'] / total)} used, "
            f"{_percent(device['wasted'] / total)} wasted, "
            f"{_percent(device['in_flight'] / total)} under way at the end",
        ),
    ]
    if summary["paper_time_s"] is not None:
        ratio = summary["time_s"] / summary["paper_time_s"] - 1
        lines.insert(1, ("the paper's", f"{summary['paper_time_s']:,.0f} s ({ratio:+.1%})"))
        if summary["paper_anomaly"]:
            lines.insert(2, ("not to aim at", summary["paper_anomaly"]))
    return lines


def _group_table(summary: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group")
    for column in ("of clients", "of used", "of late", "of unused", "always late", "latency [s]"):
        table.add_column(column, justify="right")
    for name, share in summary["share"].items():
        group = summary["groups"][name]
        latency = group["latency_s"]
        table.add_row(
            name,
            *(_percent(share[what]) for what in ("population", "used", "late", "unused")),
            _percent(group["always_late"]),
            " / ".join(f"{latency[level]:,.0f}" for level in ("p50", "p95", "p99")),
        )
    return table


def print_results(records: list[Record]) -> None:
    """The paper's table: median and range over trials, best straggler accuracy first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("algorithm")
    for column in ("straggler accuracy", "total accuracy", "time [s]", "trials"):
        table.add_column(column, justify="right")
    rows = []
    for name in dict.fromkeys(record.name for record in records):
        trials = [record for record in records if record.name == name]
        curves = [trial.curve for trial in trials if trial.curve["step"].size]
        lost = sum(trial.status == "diverged" for trial in trials)
        count = f"{len(trials)}, {lost} diverged" if lost else str(len(trials))
        if not curves:
            rows.append((-1.0, [name, "–", "–", "–", count]))
            continue
        straggler, total, time = (
            [float(curve[what][-1]) for curve in curves]
            for what in ("straggler_accuracy", "total_accuracy", "time_s")
        )
        cells = [name, _range(straggler), _range(total), f"{median(time):,.0f}", count]
        rows.append((median(straggler), cells))
    for _, cells in sorted(rows, key=lambda row: -row[0]):
        table.add_row(*cells)
    console = _console()
    console.print(table)
    console.print("median [lowest, highest] over trials, at the end of training; time is simulated")


def _range(values: list[float]) -> str:
    if len(values) == 1:
        return f"{100 * values[0]:.1f} %"
    return f"{100 * median(values):.1f} % [{100 * min(values):.1f}, {100 * max(values):.1f}]"


def print_sweep(name: str, keys: list[str], rows: list[dict[str, Any]]) -> None:
    """One line for each value: what it costs and whom it leaves out."""
    groups = list(rows[0]["share"])
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in [*keys, "time s", "steps", "step p50 s", "staleness p95", "wasted"]:
        table.add_column(column, justify="right")
    for group in groups:
        table.add_column(f"{group}: used", justify="right")
    for row in rows:
        device = row["device_s"]
        table.add_row(
            *(str(value) for value in row["set"].values()),
            f"{row['time_s']:,.0f}",
            f"{row['server_steps']:,}",
            f"{row['round_s']['p50']:,.1f}",
            f"{row['staleness']['p95']:,.0f}",
            _percent(device["wasted"] / sum(device.values())),
            *(_percent(row["share"][group]["used"]) for group in groups),
        )
    shares = ", ".join(f"{g} {_percent(rows[0]['share'][g]['population'])}" for g in groups)
    console = _console()
    console.print(name)
    console.print(table)
    console.print(f"used: the group's share of all reports on time; of all clients: {shares}")


def _console() -> Console:
    """Wide enough that nothing is cut: a narrow terminal folds lines, a file keeps them."""
    return Console(highlight=False, markup=False, soft_wrap=True, width=200)


def duration(seconds: float) -> str:
    """266,000 s as 3 d 1 h 53 min."""
    minutes = round(seconds / 60)
    days, hours = minutes // 1440, minutes // 60 % 24
    return " ".join(f"{n} {unit}" for n, unit in ((days, "d"), (hours, "h")) if n) + (
        f" {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
    )


def _seconds(spread: dict[str, float], unit: str) -> str:
    middle = " / ".join(f"{spread[level]:,.4g}" for level in ("p50", "p95", "p99"))
    return f"{middle} {unit} (50 / 95 / 99 %), at most {spread['max']:,.4g}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
