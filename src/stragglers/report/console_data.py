"""What a task's data is, as text for a terminal."""

from typing import Any

from rich import box
from rich.table import Table

from stragglers.report.terminal import console


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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group")
    for column in ("clients", "empty", "examples", "size", "largest", "test examples"):
        table.add_column(column, justify="right")
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
