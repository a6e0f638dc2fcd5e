"""What a task's data is: whose it is, how it is split, and how it compares with what was published.

sizes are training examples of a client after the split: standard clients have lost the
straggler classes; test examples are of a straggler class, or not
"""

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from stragglers._core.errors import BadInput, did_you_mean
from stragglers.config import catalog, documents, settings
from stragglers.planning.population import Clients, Population
from stragglers.runs import train
from stragglers.tasks.base import Task, checksum
from stragglers.tasks.datasets import images, sources, stackoverflow
from stragglers.tasks.datasets.cifar100_layouts import CIFAR100
from stragglers.tasks.datasets.download import download
from stragglers.tasks.datasets.emnist_layouts import EMNIST

KINDS = {"emnist": EMNIST, "cifar100": CIFAR100}
# What can be trained, and whether it reads files.
TASKS = {
    str(task.__struct_config__.tag): issubclass(task, settings.WithData)
    for task in get_args(settings.Task)
    if task not in (Clients, settings.OwnTask)
}
LEVELS = (5, 25, 50, 75, 95)

# Hard et al. (2024) and TensorFlow Federated.
PUBLISHED = {
    "emnist": {"clients": 3_400, "straggler clients": 800, "test examples": 77_483},
    "cifar100": {"clients": 500, "straggler clients": 125, "test examples": 10_000},
    "stackoverflow": {
        "clients": 342_477,
        "straggler clients": 93_882,
        "training examples": 135_818_730,
        "test examples": 16_586_035,
    },
}


def folder(name: str, given: str | None) -> Path | None:
    """Where a task's files are said to be; nowhere, for the task that has none."""
    if name not in TASKS:
        raise BadInput(f"no task {name!r}; {did_you_mean(name, TASKS)}")
    place = given or os.environ.get("STRAGGLERS_DATA")
    return Path(place) if place and TASKS[name] else None


def fetch(name: str, place: Path | None, file: str | None) -> None:
    """Fetches a task's public files into its folder and says on stderr what they are."""
    if not TASKS[name]:
        raise BadInput(f"{name}: draws its own data; there is nothing to fetch")
    if place is None:
        raise BadInput(f"{name}: no folder to fetch to; name it with --path DIR")
    if place.is_file():
        raise BadInput(f"{place}: a file, expected a folder to fetch to")
    chosen = sources.choose(name, file)
    if chosen[0].unpacks and not importlib.util.find_spec("h5py"):
        other = sources.SOURCES[name][1][0].name
        raise BadInput(
            f"{chosen[0].name}: reading it needs h5py: pip install 'stragglers[data]', or fetch "
            f"another one with --file {other}"
        )
    for line in download(chosen, place):
        print(line, file=sys.stderr)


class Opened(NamedTuple):
    task: Task
    settings: Any  # of the task
    files: Sequence[Path]  # that it was read from


def opened(name: str, place: Path | None, assignments: Sequence[str]) -> Opened:
    """A task with its data; if it is missing, which files to get and where from."""
    document = catalog.read(next(row for row in catalog.presets() if row.startswith(f"{name}/")))
    for assignment in assignments:
        path = documents.full_path(document, assignment.partition("=")[0].strip())
        if not path.startswith("task."):
            raise BadInput(f"--set {path}: data depends on settings of the task alone")
        document = documents.override(document, assignment)
    files = _find(name, place) if TASKS[name] else []
    if files:
        document = {**document, "task": {**document["task"], "path": str(place)}}
    given = documents.settings_from(document).task
    return Opened(train.task(given), given, files)


def _find(name: str, place: Path | None) -> Sequence[Path]:
    if place is None:
        raise _guide(name, "no folder given, expected --path DIR or STRAGGLERS_DATA")
    if not place.exists():
        raise _guide(name, f"{place}: no such folder or file")
    try:
        if name == "stackoverflow":
            text = stackoverflow.find(place)
            return [*dict.fromkeys([text.train, text.test]), *([text.words] if text.words else [])]
        found = images.find(KINDS[name], place)
        return [*found.train, *found.test]
    except BadInput as error:
        raise _guide(name, re.split("[;,] expected", str(error))[0]) from None


def _guide(name: str, why: str) -> BadInput:
    if name == "stackoverflow":
        layouts = (" and ".join(dict.fromkeys(names)) for *names, _ in stackoverflow.LAYOUTS)
        return sources.guide(name, why, layouts)
    layouts = (
        f"{layout.name}: {layout.train}{f' and {layout.test}' if layout.test else ''}"
        for layout in KINDS[name].layouts
    )
    return sources.guide(name, why, layouts)


def words(data: Opened) -> list[str]:
    """What the numbers of a text stand for, in their order; empty for images."""
    if data.task.name != "stackoverflow":
        return []
    given = data.settings
    text = stackoverflow.prepared(Path(given.path), given.straggler_tags, given.vocabulary).text
    known = [word.decode("ascii", "backslashreplace") for word in text.tobytes().splitlines()]
    return ["", "", "", *known, "…"]  # padding, begin and end are not seen


def summarise(data: Opened) -> dict[str, Any]:
    """The numbers of a data set, without its examples."""
    task, who = data.task, data.task.population
    found = {
        "clients": who.clients,
        "straggler clients": int((who.group == who.groups.index("straggler")).sum()),
        "training examples": int(who.examples.sum()),
        "test examples": len(task.test_y),
    }
    tests = {"straggler": int(task.test_straggler.sum())}
    tests["standard"] = len(task.test_y) - tests["straggler"]
    return {
        "task": task.name,
        "origin": who.origin,
        "checksum": checksum(task),
        "files": {str(path): path.stat().st_size for path in data.files},
        **{name.replace(" ", "_"): count for name, count in found.items()},
        "groups": {
            name: {**_group(who, index), "test_examples": tests[name]}
            for index, name in enumerate(who.groups)
        },
        "published": {
            name: {"found": found[name], "published": count}
            for name, count in PUBLISHED.get(task.name, {}).items()
        },
    }


def _group(who: Population, index: int) -> dict[str, Any]:
    sizes = who.examples[who.group == index]
    levels = np.percentile(sizes, LEVELS) if len(sizes) else np.full(len(LEVELS), np.nan)
    return {
        "clients": len(sizes),
        "examples": int(sizes.sum()),
        "empty_clients": int((sizes == 0).sum()),
        "size": {f"p{level}": float(value) for level, value in zip(LEVELS, levels, strict=True)},
        "largest": int(sizes.max(initial=0)),
    }
