"""What memory has room for, told by counting, before anything is drawn.

    a fleet's client      CLIENT bytes      size, group, and what is drawn for all at once
    a writer of glyphs    WRITER            habits and labels; DRAWN with drawings, to train on them
    a dispatch            DISPATCH          a row of the schedule, and what it is made from

All were measured as growth of a process, and are the least of what was seen: what they refuse would
not fit, though what they let pass still may not.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from stragglers._core.errors import BadInput

TRIALS = 10_000  # trials, or plans, of one command: a folder each, which every table reads
CLIENT, WRITER, DRAWN, DISPATCH = 90, 18_000, 250_000, 80


def machine_bytes(root: Path = Path("/")) -> int:
    """Memory of the machine, all of it; of a container, or a job of a cluster, what it may have."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([whole, *_limits(root)])


def _limits(root: Path) -> Iterator[int]:
    """Of the control groups that this process is in, and of those that these are in (Linux)."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for group in groups:
        _, controllers, path = (group.split(":", 2) + ["", ""])[:3]
        mount, name = root / "sys/fs/cgroup", "memory.max"  # of version 2, which names none
        if controllers:
            mount, name = mount / "memory", "memory.limit_in_bytes"
        if controllers and "memory" not in controllers.split(","):
            continue
        inside = Path(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            try:
                yield int((mount / folder / name).read_text())
            except (OSError, ValueError):  # a container sees not all of them; "max" is no limit
                continue


def check(what: str, count: int, each: int, remedy: str) -> None:
    """Refuses so many that they cannot fit."""
    if count * each > (there := machine_bytes()):
        raise BadInput(
            f"{what} need at least {readable(count * each)} of memory, this machine has "
            f"{readable(there)}; {remedy}"
        )


def readable(size: int) -> str:
    """Bytes in a unit that leaves at most four digits, if there is one."""
    value, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:,.0f} {unit}" if value >= 100 or unit == "B" else f"{value:.3g} {unit}"
