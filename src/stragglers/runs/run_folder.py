"""Run folders, written: one for each trial, readable (records.py) while it is being written.

    runs/<name>/<hash>-<seed>/
      settings.toml      the resolved experiment, its defaults written out
      copy-*             copies of the files that it names, if any; folders of code in several files
      curve.jsonl        one line for each evaluation, on the disk as soon as it is known
                         (curve.jsonl.gz in a result that was put away, without its weights)
      run.json           what it is, on what it ran, its status (running, finished, diverged), the
                         SHA-256 of the files above, of those below at the end, and its own
      model.safetensors  at the end: "w/...", the weights, and "model/...", what is evaluated
      checkpoints/       until the end: see checkpoint.py
      lock               held by the process that writes, as long as it lives

The hash is of all settings but the seed that can change a result, so equal experiments share a
name and a trial that is there needs no repetition. run.json comes last, when a run starts and when
it ends: a folder with it is whole, or was damaged, which shows (`_core/seals.py`). Until the end,
each line of the curve has a checksum. JSON has no NaN and no infinity; both are null.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from stragglers._core import files, seals, toml_files
from stragglers._core.errors import BadInput
from stragglers.config import attached_files
from stragglers.config.settings import Experiment, settings_hash
from stragglers.runs import curve as curves

FORMAT = 2
UNSEALED = 1  # of versions before 0.2.0: without `files` and `seal`
RUN, SETTINGS, MODEL = "run.json", "settings.toml", "model.safetensors"


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
    files.remove_unfinished(folder)
    if _are_others(folder / SETTINGS, settings):  # for which the run.json there does not vouch
        with files.told(folder / RUN):
            for name in (MODEL, RUN):
                (folder / name).unlink(missing_ok=True)
    run = {
        "format": FORMAT,
        **facts,
        "hash": settings_hash(settings),
        "seed": settings["seed"],
        "status": "running",
        "diverged": None,
        "files": write_settings(folder / SETTINGS, settings),
    }
    write(folder / curves.NAME, b"".join(map(curves.checked, curve.splitlines())))
    write(folder / RUN, seals.sealed(run))
    return run


def _are_others(path: Path, settings: dict[str, Any]) -> bool:
    named, _ = attached_files.copied(settings)
    with files.told(path):
        return path.exists() and path.read_bytes() != toml_files.dumps(named).encode()


def write_settings(path: Path, settings: dict[str, Any]) -> dict[str, str]:
    """With copies of the files that they name, first: settings without them are none.

    Returns the SHA-256 of each file.
    """
    settings, copies = attached_files.copied(settings)
    for name, content in copies.items():
        if not (copy := path.parent / name).parent.is_dir():
            files.make_folder(copy.parent)
        write(copy, content)
    text = toml_files.dumps(settings).encode()
    write(path, text)
    return {name: seals.digest(content) for name, content in {**copies, path.name: text}.items()}


def append(folder: Path, evaluation: dict[str, Any]) -> None:
    """Adds a point to the curve."""
    path = folder / curves.NAME
    with files.told(path), path.open("ab") as curve:
        curve.write(curves.checked(curves.line(evaluation)[:-1]))
        curve.flush()
        os.fsync(curve.fileno())


def finish(
    folder: Path, run: dict[str, Any], arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> None:
    """Saves the weights, then says that the run is over; `facts` has its status."""
    from safetensors.numpy import save

    metadata = {key: str(run[key]) for key in ("name", "hash", "seed")}
    model = _in_order(save(arrays, metadata))
    with files.told(folder):
        curve = (folder / curves.NAME).read_bytes()
    if curves.is_damaged(curve):  # which a seal would hide
        raise BadInput(
            f"{folder / curves.NAME}: not what was written during training. Run the command again: "
            "the trial resumes from its last checkpoint."
        )
    write(folder / MODEL, model)
    ended = {curves.NAME: seals.digest(curve), MODEL: seals.digest(model)}
    write(folder / RUN, seals.sealed({**run, **facts, "files": run["files"] | ended}))


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
