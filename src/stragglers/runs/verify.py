"""Run folders, read whole: their weights, too, which no table needs.

whole     its seal holds, and so do the files that it is of
running   in training, or interrupted: its settings and its curve are what was written
unsealed  of a version before 0.2.0: it can be read, and its settings have the hash of its name
damaged   anything else
"""

from pathlib import Path
from typing import Literal, NamedTuple

from stragglers._core import seals
from stragglers._core.errors import BadInput
from stragglers.config.settings import settings_hash
from stragglers.runs import curve as curves
from stragglers.runs import records, run_folder, run_json
from stragglers.runs.records import Record

State = Literal["whole", "running", "unsealed", "damaged"]


class Verified(NamedTuple):
    """What has become of a run folder."""

    folder: Path
    state: State
    what: str = ""  # of a damaged one: a line


def verified(folder: Path) -> Verified:
    """Reads all of a run folder."""
    try:
        record = records.load(folder)
        if not record.is_sealed:
            _check_unsealed(record)
            return Verified(folder, "unsealed")
        if record.status == "running":
            _check_curve(folder)
            return Verified(folder, "running")
        run_json.check_files(folder, record.run, weights=True)
        ours = {curves.NAME, curves.PUT_AWAY, run_folder.MODEL}
        for name in sorted(ours - record.run["files"].keys()):
            if (folder / name).exists():
                raise run_json.damaged(folder, f"{name} does not belong to it")
        return Verified(folder, "whole")
    except BadInput as error:
        return Verified(folder, "damaged", str(error))


def seal(folder: Path) -> Verified:
    """Seals a folder of a version before 0.2.0 that is over and can be read whole."""
    found = verified(folder)
    record = records.load(folder) if found.state == "unsealed" else None
    if record is None or record.status == "running":  # which is sealed when it ends
        return found
    digests = {name: seals.digest_of(folder / name) for name in sorted(_files_of(record))}
    run = {**record.run, "format": run_folder.FORMAT, "files": digests}
    run_folder.write(folder / run_folder.RUN, seals.sealed(run))
    return verified(folder)


def _files_of(record: Record) -> set[str]:
    files = (path for path in record.folder.rglob("*") if path.is_file())
    there = {path.relative_to(record.folder).as_posix() for path in files}
    curve = curves.NAME if curves.NAME in there else curves.PUT_AWAY
    copies = {name for name in there if name.startswith("copy-")}
    return {run_folder.SETTINGS, curve, *copies, *({run_folder.MODEL} & there)}


def _check_curve(folder: Path) -> None:
    if curves.is_damaged((folder / curves.NAME).read_bytes()):
        raise run_json.damaged(folder, f"{curves.NAME} is not what was written")


def _check_unsealed(record: Record) -> None:
    """What there is to hold it against: its hash, its lines, the header of its weights."""
    if settings_hash(record.document) != record.hash:
        raise run_json.damaged(record.folder, "settings.toml has not the hash of the trial")
    if record.warnings and record.status != "running":
        raise run_json.damaged(record.folder, f"{curves.NAME} has lost lines")
    model = record.folder / run_folder.MODEL
    if model.exists() and not _opens(model):
        raise run_json.damaged(record.folder, f"{run_folder.MODEL} cannot be read")


def _opens(model: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(model, "numpy") as file:
            return bool(file.metadata())
    except (SafetensorError, OSError):
        return False
