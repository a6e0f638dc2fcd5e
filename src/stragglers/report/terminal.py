"""Where text goes."""

from typing import IO

from rich.console import Console


def console(file: IO[str] | None = None, width: int = 200) -> Console:
    """Wide enough that nothing is cut: a narrow terminal folds lines, a file keeps them."""
    return Console(file=file, highlight=False, markup=False, emoji=False, soft_wrap=True,
                   width=width)  # fmt: skip
