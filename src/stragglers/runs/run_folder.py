"""Run folders, written: one for each trial, readable (records.py) while it is being written.

    runs/<name>/<hash>-<seed>/
      settings.toml      the resolved experiment, its defaults written out
      copy-*             copies of the files that it names, if any; folders of code in several files
      curve.jsonl        one line for each evaluation, on the disk as soon as it is known
                         (curve.jsonl.gz in a result that was put away, without its weights)
      run.json           what it is, on what it ran, and its status: running, finished, diverged
      model.safetensors  at the end: "w/...", the weights, and "model/...", what is evaluated
      checkpoints/       until the end: see checkpoint.py
      lock               held by the process that writes, as long as it lives

The hash is of all settings but the seed that can change a result, so equal experiments share a
name and a trial that is there needs no repetition. run.json comes last, when a run starts and when
it ends: a folder with it is whole. JSON has no NaN and no infinity; both are null.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from stragglers._core import files, toml_files
from stragglers._core.errors import BadInput
from stragglers.config import attached_files
from stragglers.config.settings import Experiment, settings_hash
from stragglers.runs import curve as curves

FORMAT = 1


def folder_of(out: Path, name: str, experiment: Experiment) -> Path:
    return out / name / f"{experiment.hash}-{experiment.seed}"


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Has the folder to itself; the system lets go of it when the process ends, however it does."""
    with files.told(folder):
        files.make_folder(folder)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with files.told(folder):
            free = files.locked(lock)
        if not free:
            raise BadInput(
                f"{folder}: another process is writing this run; wait for it, or give another --out"
            )
        yield
    finally:
        os.close(lock)


def check_free(folder: Path) -> None:
    """Refuses a folder that another process has claimed."""
    if (folder / "lock").exists():
        with claim(folder):
            pass


def begin(
    folder: Path, settings: dict[str, Any], facts: dict[str, Any], curve: bytes = b""
) -> dict[str, Any]:
    """Starts a run in a claimed folder, with what its curve has; the run.json is for `finish`."""
    run = {
        "format": FORMAT,
        **facts,
        "hash": settings_hash(settings),
        "seed": settings["seed"],
        "status": "running",
        "diverged": None,
    }
    files.remove_unfinished(folder)
    write_settings(folder / "settings.toml", settings)
    write(folder / "curve.jsonl", curve)
    write(folder / "run.json", pretty(run))
    return run


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """With copies of the files that they name, first: settings without them are none."""
    settings, copies = attached_files.copied(settings)
    for name, content in copies.items():
        if not (copy := path.parent / name).parent.is_dir():
            files.make_folder(copy.parent)
        write(copy, content)
    write(path, toml_files.dumps(settings).encode())


def append(folder: Path, evaluation: dict[str, Any]) -> None:
    """Adds a point to the curve."""
    path = folder / "curve.jsonl"
    with files.told(path), path.open("ab") as curve:
        curve.write(curves.line(evaluation))
        curve.flush()
        os.fsync(curve.fileno())


def finish(
    folder: Path, run: dict[str, Any], arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> None:
    """Saves the weights, then says that the run is over; `facts` has its status."""
    from safetensors.numpy import save

    metadata = {key: str(run[key]) for key in ("name", "hash", "seed")}
    write(folder / "model.safetensors", _in_order(save(arrays, metadata)))
    write(folder / "run.json", pretty({**run, **facts}))


def _in_order(weights: bytes) -> bytes:
    """Equal weights as equal bytes: safetensors writes its metadata in an order of chance."""
    end = 8 + int.from_bytes(weights[:8], "little")
    header = msgspec.json.decode(weights[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + weights[end:]


def write(path: Path, content: bytes) -> None:
    files.write(path, lambda temporary: Path(temporary).write_bytes(content))


def pretty(document: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
