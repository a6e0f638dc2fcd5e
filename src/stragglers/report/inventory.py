"""What a task's data is, as text for a terminal."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def print_data(summary: dict[str, Any]) -> None:
    console = Console(highlight=False, markup=False, soft_wrap=True, width=200)
    console.print(f"{summary['task']}: {summary['origin']}")
    for file, size in summary["files"].items():
        console.print(f"  {file}, {size:,} bytes")
    console.print(_group_table(summary))
    console.print("size: training examples of a client after the split, 5 / 25 / 50 / 75 / 95 %")
    for name, pair in summary["published"].items():
        same = "as published" if pair["found"] == pair["published"] else (
            f"published: {pair['published']:,}"
        )  # fmt: skip
        console.print(f"{name:<20}{pair['found']:>13,}   {same}")


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
