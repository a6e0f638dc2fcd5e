"""The data that results are of: only trials on the same data are put together.

A trial's checksum (`Record.data`) goes by the settings of its task, too, such as the share of
digits: it is compared with that of the other trials of the same ones.
"""

import json
import multiprocessing
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

from stragglers._core.errors import BadInput
from stragglers.config import documents, task_files
from stragglers.config.settings import Task
from stragglers.report import grouping
from stragglers.runs.records import Record

SHOWN = 12  # digits of a checksum


def key(settings: dict[str, Any]) -> str:
    """The settings of a task, wherever its data lies."""
    task = {name: value for name, value in settings["task"].items() if name != "path"}
    return json.dumps(task, sort_keys=True)


def key_of(trial: Record) -> str:
    return key(grouping.today(trial)[1])


def checksums(trials: Iterable[Record]) -> dict[str, str]:
    """By the settings of the task; a trial on other data than most of them is refused."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for trial in trials:
        groups[key_of(trial)].append(trial)
    found = {
        task: Counter(trial.data for trial in some).most_common(1)[0][0]
        for task, some in groups.items()
    }
    for task, some in groups.items():
        for trial in some:
            if trial.data != found[task]:
                raise BadInput(
                    f"{trial.folder}: trained on {other(trial.data, found[task])}; take this "
                    "folder out of the results"
                )
    return found


def other(given: str, expected: str) -> str:
    return (
        f"other data ({given[:SHOWN]}) than the results of its task ({expected[:SHOWN]}), which "
        "CONTRIBUTING.md describes"
    )


def check(document: dict[str, Any], known: dict[str, str]) -> None:
    """Refuses files that are not a task's, or not what its results were trained on."""
    task = documents.settings_from(document).task
    task_files.prepare_data(task)
    expected = known.get(key(documents.completed(document)))
    if expected and (given := checksum(task)) != expected:
        raise BadInput(
            f"{task_files.data_folder(task)}: {other(given, expected)}; give that as --path, or "
            "train on yours with `stragglers run`"
        )


@cache
def checksum(task: Task) -> str:
    """Of a task's data, by another process: jax is loaded there, and not yet in this one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_checksum, task).result()


def _checksum(task: Task) -> str:
    from stragglers.runs import train
    from stragglers.tasks import base

    return base.checksum(train.task(task))
