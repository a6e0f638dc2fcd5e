"""Tables of strings: as text for a terminal, as HTML for a notebook, as a pandas frame.

What prints as a table has `_parts`: lines of text and blocks, from top to bottom.

    class Schedule(NamedTuple):
        __repr__ = tables.as_text
        _repr_html_ = tables.as_html
"""

import html
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from stragglers._core.errors import BadInput

NOTHING = "–"  # in the place of NaN
SHOWN = 10  # rows of a long table: the first and the last ones
PLAIN = "white-space: pre-wrap; font-family: monospace"  # lines that are laid out by blanks
MOST = 1000  # characters of a line, beyond which it is folded


class Block(NamedTuple):
    """Strings in rows and columns; the first `left` columns are names, the others numbers."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1

    def __rich__(self) -> Any:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, name in enumerate(self.names):
            table.add_column(name, justify="left" if place < self.left else "right")
        for row in self.rows:
            table.add_row(*row)
        return table


class Tabular(Protocol):
    """What prints as a table."""

    def _parts(self) -> Iterable[str | Block]: ...


def as_text(self: Tabular) -> str:
    return text(self._parts())


def as_html(self: Tabular) -> str:
    lines = []
    for part in self._parts():
        if isinstance(part, Block):
            head = _row(part.names, "th", part.left)
            lines += ["<table>", f"<thead>{head}</thead>", "<tbody>"]
            lines += [_row(row, "td", part.left) for row in part.rows]
            lines += ["</tbody>", "</table>"]
        else:
            lines.append(f'<div style="{PLAIN}">{html.escape(part)}</div>')
    return "\n".join(lines)


def _row(cells: Iterable[str], tag: str, left: int) -> str:
    """Names to the left, numbers to the right, whatever the style of the page around them."""
    row = []
    for place, cell in enumerate(cells):
        style = f"text-align: {'left' if place < left else 'right'}; padding: 0.2em 0.35em"
        row.append(f'<{tag} style="{style}">{html.escape(cell)}</{tag}>')
    return f"<tr>{''.join(row)}</tr>"


def text(parts: Iterable[str | Block]) -> str:
    """Without colours, and without blanks at the end of any line."""
    from rich.console import Console

    out = io.StringIO()
    screen = Console(
        file=out,
        width=MOST,
        soft_wrap=True,
        highlight=False,
        markup=False,
        emoji=False,
        force_jupyter=False,  # in a notebook, printing would display the text a second time
    )
    for part in parts:
        screen.print(part)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def listed(columns: Mapping[str, tuple[Sequence[Any], str]], left: int = 1) -> Block:
    """A block of columns: values and their format, by the name of each column."""
    values = list(columns.values())
    rows = [
        ["..."] * len(values)
        if row is None
        else [NOTHING if one[row] != one[row] else format(one[row], form) for one, form in values]
        for row in ends(len(values[0][0]))
    ]
    return Block(list(columns), rows, left)


def of_curve(curve: Mapping[str, Any]) -> Block:
    """The columns of a curve that one looks at first."""
    columns = {"step": (curve["step"], ","), "time [s]": (curve["time_s"], ",.0f")}
    columns["updates"] = curve["updates"], ","
    for group in ("straggler", "standard", "total"):
        shares = [100 * share for share in curve[f"{group}_accuracy"]]
        columns[f"{group} accuracy [%]"] = shares, ".1f"
    return listed(columns)


def ends(rows: int) -> Iterator[int | None]:
    """The rows to show of a long table; None stands for those between."""
    if rows <= SHOWN:
        yield from range(rows)
        return
    yield from range(SHOWN // 2)
    yield None
    yield from range(rows - SHOWN // 2, rows)


def frame(columns: Mapping[str, Any]) -> Any:
    """The columns as a pandas frame."""
    try:
        import pandas  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise BadInput("to_pandas needs pandas: pip install pandas") from None
    return pandas.DataFrame(dict(columns))
