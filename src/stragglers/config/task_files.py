"""The files that a task reads: where they lie, and what they hold."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from stragglers._core import jax_env
from stragglers._core.errors import BadInput
from stragglers.config import settings
from stragglers.tasks.datasets import images, stackoverflow
from stragglers.tasks.datasets.cifar100_layouts import CIFAR100
from stragglers.tasks.datasets.emnist_layouts import EMNIST

if TYPE_CHECKING:
    from stragglers.tasks.base import Task


def own_task(task: settings.OwnTask, threads: int = 2) -> "Task":
    """A task of the user's own; its file may load jax, so that threads are settled before."""
    if jax_env.DEVICES not in os.environ:
        jax_env.prepare(max(threads, len(os.sched_getaffinity(0))))
    from stragglers.tasks import from_file

    return from_file.task(task.file, task.function, task.arguments or {})


def data_folder(task: settings.Task) -> str:
    """Where a task's data is; empty if it brings its own."""
    if not isinstance(task, settings.WithData):
        return ""
    if task.path is None:
        name = task.__struct_config__.tag
        raise BadInput(
            f"task {name!r} needs its data; set --path DIR (`stragglers data {name}` says which "
            "files)"
        )
    return task.path


def prepare_data(task: settings.Task, threads: int = 2) -> None:
    """Reads a task's files into the cache, or refuses them, before anything is trained."""
    if isinstance(task, settings.OwnTask):
        own_task(task, threads)
        return
    folder = Path(data_folder(task))
    match task:
        case settings.Emnist():
            images.load(EMNIST, images.find(EMNIST, folder))
        case settings.Cifar100():
            images.load(CIFAR100, images.find(CIFAR100, folder))
        case settings.StackOverflow():
            stackoverflow.prepared(folder, task.straggler_tags, task.vocabulary)


def data_digest(task: settings.Task) -> str | None:
    """Names what a task's files hold, wherever they lie; None if it reads none.

    Of a task of the user's own, it names all that its function has returned.
    """
    if isinstance(task, settings.OwnTask):
        from stragglers.tasks.base import checksum

        return checksum(own_task(task))
    if (found := _digest_of_prepared(task)) is None:
        prepare_data(task)
        found = _digest_of_prepared(task)
    return found


def _digest_of_prepared(task: settings.Task) -> str | None:
    folder = Path(data_folder(task))
    match task:
        case settings.Emnist():
            return images.digest(EMNIST, images.find(EMNIST, folder))
        case settings.Cifar100():
            return images.digest(CIFAR100, images.find(CIFAR100, folder))
        case settings.StackOverflow():
            return stackoverflow.digest(folder, task.straggler_tags, task.vocabulary)
        case _:
            return None
