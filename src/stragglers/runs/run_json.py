"""run.json, read: what a trial is, and whether its folder is what was written.

read         the document, or nothing if there is none; refuses one whose seal is broken
check_files  refuses a folder whose files are not those that run.json vouches for
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from stragglers._core import seals
from stragglers._core.errors import BadInput
from stragglers._core.seals import Damaged
from stragglers.runs import checkpoint, run_folder
from stragglers.runs import curve as curves


class Schedule(msgspec.Struct):
    """What reports take from the numbers of a run's plan."""

    server_steps: int = 0
    time_s: float = np.nan
    share: dict[str, dict[str, float | None]] = {}
    faults: dict[str, float] = {}
    staleness: dict[str, float | None] = {}
    device_s: dict[str, float | None] = {}


class Head(msgspec.Struct):
    format: int
    name: str
    hash: str
    seed: int
    status: Literal["running", "finished", "diverged"]
    diverged: str | None = None
    schedule: Schedule | None = None
    versions: dict[str, Any] | None = None
    device: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    drift: list[str] = []
    dropped: int | None = None
    files: dict[str, str] = {}


def read(folder: Path) -> dict[str, Any] | None:
    path = folder / run_folder.RUN
    try:
        content = path.read_bytes()
        run = msgspec.json.decode(content, type=dict)
        if run.get("format") == run_folder.UNSEALED and "seal" not in run:
            msgspec.convert(run, Head)
            return run
        if not seals.is_sealed(content):
            raise damaged(folder, "run.json is not what was written")
        if run.get("format") != run_folder.FORMAT:
            known = f"{run_folder.UNSEALED} and {run_folder.FORMAT}"
            raise BadInput(f"{path}: format {run.get('format')!r}, this version reads {known}")
        msgspec.convert(run, Head)
        return run
    except FileNotFoundError:
        if folder.is_dir() and is_run(os.listdir(folder)):
            raise damaged(folder, "run.json is missing") from None
        return None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise damaged(folder, f"run.json is no run's: {error}") from None


def check_files(folder: Path, run: dict[str, Any], weights: bool = False) -> None:
    """The weights are large, and in no table."""
    files = dict(run.get("files", {}))
    if not weights:
        files.pop(run_folder.MODEL, None)
    if what := seals.changed(folder, files):
        raise damaged(folder, what)


def is_run(names: Iterable[str]) -> bool:
    """Whether these are names in a run folder; one that is over may have lost its run.json."""
    there = {*names}
    over = {run_folder.SETTINGS, curves.NAME, run_folder.MODEL} <= there
    return run_folder.RUN in there or (over and checkpoint.FOLDER not in there)


def damaged(folder: Path, what: str) -> Damaged:
    remedy = "Delete the folder to train the trial again."
    if (folder / checkpoint.FOLDER).exists():
        remedy = "Delete its run.json to resume the trial from its checkpoint."
    return Damaged(f"{folder}: damaged, {what}. {remedy}")
