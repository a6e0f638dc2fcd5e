"""Where text goes."""

from typing import IO

from rich.console import Console


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
