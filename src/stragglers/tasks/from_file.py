"""Tasks of one's own: a function in a Python file, named by settings.

    [task]
    name = "own"
    file = "mine.py"           beside the settings
    function = "digits"        (**arguments) -> Task, such as st.task makes
    arguments = { clients = 100 }

Its data is known by the checksum of the task, which is of every row.
"""

from functools import cache
from typing import Any

from stragglers._core import own_files
from stragglers._core.errors import BadInput, about, shown
from stragglers.tasks.base import Task, check


def task(file: str, function: str, arguments: dict[str, Any]) -> Task:
    """What the function returns; equal code and arguments give the same object."""
    code = own_files.digest(own_files.sources(file))
    given = tuple(sorted(arguments.items()))
    return _task(file, f"{code} {given}", function, given)  # where 1 is not 1.0


@cache
def _task(file: str, known_by: str, function: str, arguments: tuple[tuple[str, Any], ...]) -> Task:
    del known_by  # part of the key alone
    made = own_files.called(file, function, {}, dict(arguments))
    call = own_files.call(file, function, {}, dict(arguments))
    if not isinstance(made, Task):
        raise BadInput(f"{call} returned {shown(made)}, expected a Task. Make it with st.task.")
    with about(call):
        return check(made)._replace(by_content=True)
