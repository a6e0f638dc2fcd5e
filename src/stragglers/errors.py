"""Bad input: one line that says what was given, what was expected and what to do."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class BadInput(ValueError):
    """A mistake of the caller; the command line prints its one line and exits with 2."""


@contextmanager
def about(where: str) -> Iterator[None]:
    """Begins the lines about mistakes inside with the name of what they are in."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def did_you_mean(given: str, valid: Iterable[str]) -> str:
    """Ends a message about an unknown name: the nearest valid one, or what there is."""
    names = sorted(valid)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    some = [name for name in names if given and name.startswith(given)] or names
    return f"expected one of: {', '.join(some[:16])}{', ...' if len(some) > 16 else ''}"
