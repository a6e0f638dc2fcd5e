"""Plans as text: one in full, or several as one table."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stragglers._core import toml_files
from stragglers._core.tables import Block
from stragglers.report.cells import NOTHING, part, percent
from stragglers.report.console import console

CORRUPTED = (
    "corrupted: share of the reports on time or late that the server drops for their numbers"
)
UNTRAINED = "untrained: share of the group's counted reports without a local step"
WEIGHT = "weight: the group's share of a server step's mean"
Plan = dict[str, Any]  # its numbers, and which values it was made with
Cell = Callable[[Plan], str]
COHORT = {"schedule.goal", "schedule.over_selection"}  # on which the clients of a round depend
WAITING = "waiting: share of the time during which too few clients are idle to open the next round"
LATE = "late: share of all clients started whose report came after its round and still counts"


def print_plan(name: str, summary: Plan) -> None:
    out = console()
    for line in parts(summary, name):
        out.print(line)


def parts(summary: Plan, name: str = "") -> Iterator[str | Block]:
    """A plan from top to bottom; seed and policy are those of an experiment."""
    if "policy" in summary:
        named = f"{name}, " if name else ""
        yield f"{named}seed {summary['seed']}: {summary['policy']}"
    yield f"{summary['clients']:,} clients: {summary['population']}"
    yield ""
    for label, text in _lines(summary):
        yield f"{label:<16}{text}"
    yield _group_table(summary)
    yield "latency of one local epoch across clients: median / 95th / 99th percentile"
    if weighed([summary]):
        yield WEIGHT
    if idle([summary]):
        yield UNTRAINED


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
    if summary.get("time_limit_s") is not None:
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
    if summary.get("paper_time_s") is not None:
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


def _group_table(summary: Plan) -> Block:
    some_idle = bool(idle([summary]))
    shares = {
        "of clients": "population",
        "of used": "used",
        "of late": "late",
        "of unused": "unused",
    }
    shares |= {"of weight": "weight"} if weighed([summary]) else {}
    rows = []
    for name, share in summary["share"].items():
        group = summary["groups"][name]
        latency = group["latency_s"]
        rows.append(
            [
                name,
                *(percent(share[what]) for what in shares.values()),
                percent(group["always_late"]),
                *([percent(group["untrained"])] if some_idle else []),
                " / ".join(_whole(latency[level]) for level in ("p50", "p95", "p99")),
            ]
        )
    idles = ["untrained"] if some_idle else []
    return Block(["group", *shares, "always late", *idles, "latency [s]"], rows)


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


def print_sweep(name: str, keys: list[str], rows: list[Plan]) -> None:
    """One line for each value: what it costs and whom it leaves out; or why it has no plan."""
    refused = [row for row in rows if "error" in row]
    rows = [row for row in rows if "error" not in row]
    out, columns = console(), _sweep_columns(rows)
    table = Block(
        [*keys, *columns],
        [
            [*map(_given, row["set"].values()), *(cell(row) for cell in columns.values())]
            for row in rows
        ],
        left=0,
    )
    out.print(name)
    out.print(table)
    shares = "of clients: its share of all clients"
    if not _differ(rows):
        population = rows[0]["share"].items()
        shares = "of all clients: " + ", ".join(
            f"{group} {percent(share['population'])}" for group, share in population
        )
    out.print(f"used: the group's share of all reports on time; {shares}")
    if any(row["waited_s"] for row in rows):
        out.print(WAITING)
    if any(row["corrupted"] for row in rows):
        out.print(CORRUPTED)
    if _some_late(rows):
        out.print(LATE)
    if weighed(rows):
        out.print(WEIGHT)
    if idle(rows):
        out.print(UNTRAINED)
    for row in refused:
        values = zip(keys, map(_given, row["set"].values()), strict=True)
        sets = ", ".join(f"{key}={value}" for key, value in values)
        out.print(f"{sets}: {row['error']}")


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
    if len({row["client_updates"] for row in rows}) > 1 or any(row["abandoned"] for row in rows):
        columns["updates"] = lambda row: f"{row['client_updates']:,}"
    if any(row["abandoned"] for row in rows):
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
