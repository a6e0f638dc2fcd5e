"""Bad input: one line that says what was given, what was expected and what to do."""

import difflib
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LONGEST = 80  # characters of a value


class BadInput(ValueError):
    """A mistake of the caller, as one line: what was given, what was expected and what to do.

    The command line prints the line and exits with 2. More lines are for lists of what there is to
    get.

    Example:
        >>> import stragglers as st
        >>> try:
        ...     st.preset("emnist/per-domain/feats")
        ... except st.BadInput as error:
        ...     print(error)
        no preset 'emnist/per-domain/feats'; did you mean 'emnist/per-domain/feast'?
    """

    def __init__(self, *lines: str) -> None:
        super().__init__(*map(_printable, lines))

    def __str__(self) -> str:
        return "\n".join(self.args)


def _printable(line: str) -> str:
    """Names of files, groups and keys are anybody's: they must not end or disguise a line."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def check_type(name: str, value: object, kind: Any, expected: str) -> None:
    """Refuses a value of a wrong type; a bool is no number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadInput(f"{name} = {shown(value)}: expected {expected}.")


@contextmanager
def about(where: str) -> Iterator[None]:
    """Begins the lines about mistakes inside with the name of what they are in."""
    try:
        yield
    except BadInput as error:
        first, *more = error.args
        raise BadInput(f"{where}: {first}", *more) from error.__cause__


def shown(value: object) -> str:
    """A value as a line has room for it."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no number of thousands of digits
        return "a huge number"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


PACKAGE = str(Path(__file__).parents[1])
INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


def raised(error: BaseException) -> str:
    """What a user's function raised, and the last line of the user's own code that led there."""
    first = f"{type(error).__name__}: {error}".splitlines()[0]
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((PACKAGE, *INSTALLED, "<"))
    ]
    return f"{first}, at {own[-1].filename}:{own[-1].lineno}" if own else first


def did_you_mean(given: str, valid: Iterable[str]) -> str:
    """Ends a message about an unknown name: the nearest valid one, or what there is."""
    names = sorted(valid)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    some = [name for name in names if given and name.startswith(given)] or names
    return f"expected one of: {', '.join(some[:16])}{', ...' if len(some) > 16 else ''}"
