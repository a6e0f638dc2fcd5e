"""Where text goes, and how its tables look."""

from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table


class _Plain(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit with 1; the command line knows that a reader who has seen enough is no
        failure."""
        raise BrokenPipeError


def console(file: IO[str] | None = None, width: int = 200) -> Console:
    """Wide enough that nothing is cut: a narrow terminal folds lines, a file keeps them."""
    return _Plain(
        file=file, highlight=False, markup=False, emoji=False, soft_wrap=True, width=width
    )


def grid(*names: str, texts: int = 1) -> Table:
    """A table without rows: the first columns are texts, those after them numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, name in enumerate(names):
        table.add_column(name, justify="left" if index < texts else "right")
    return table
