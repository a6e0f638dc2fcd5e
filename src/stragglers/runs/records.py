"""Run folders, read: a `Record` of each, and `put_away`, which keeps what a result needs of it.

A folder that is not what was written is damaged: it is named, left out, and never trained over.
The weights are large and in no table; `verify.py` reads them, too.
"""

import gzip
import math
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stragglers._core import files, seals, tables, toml_files
from stragglers._core.errors import BadInput
from stragglers._core.seals import Damaged
from stragglers.config import attached_files
from stragglers.runs import curve as curves
from stragglers.runs import run_folder, run_json
from stragglers.runs.curve import COLUMNS


class Record(NamedTuple):
    """A trial as it was read from its run folder; it prints as its curve.

    Example:
        >>> import stragglers as st
        >>> record = st.load_runs("runs")[0]  # where the example of `st.run` has trained
        >>> record.outcome("updates"), record.curve["updates"]
        (40.0, array([20, 40]))
    """

    folder: Path
    name: str
    hash: str
    seed: int
    status: Literal["running", "finished", "diverged"]
    diverged: str | None  # what happened
    settings: dict[str, Any]
    # COLUMNS, each [evaluations]; what was not finite, or not measured then, is NaN.
    curve: dict[str, NDArray[Any]]
    run: dict[str, Any]  # all of run.json
    warnings: list[str]

    def _parts(self) -> Iterator[str | tables.Block]:
        yield f"{self.name}, seed {self.seed}: {self.diverged or self.status}"
        yield tables.of_curve(self.curve)

    __repr__ = tables.as_text
    _repr_html_ = tables.as_html

    @property
    def document(self) -> dict[str, Any]:
        """The settings, with the copies of files that they name where these lie."""
        return attached_files.beside(self.settings, self.folder, attached_files.FILES)

    @property
    def data(self) -> str:
        """Names what it was trained and tested on, wherever that lay (`tasks.base.checksum`)."""
        return str((self.run.get("data") or {}).get("checksum", "unknown"))

    @property
    def is_sealed(self) -> bool:
        """Whether damage to its files would show; not in folders of versions before 0.2.0."""
        return self.run["format"] != run_folder.UNSEALED

    @property
    def is_cut(self) -> bool:
        """Whether it is finished, but its curve has lost its end, and so its final values."""
        steps = (self.run.get("schedule") or {}).get("server_steps", 0)
        return self.status == "finished" and self.curve["step"].max(initial=0) < steps

    @property
    def best_point(self) -> int:
        """The evaluation of highest straggler accuracy."""
        return int(np.argmax(np.nan_to_num(self.curve["straggler_accuracy"], nan=-1.0)))

    def outcome(self, key: str, best: bool = False) -> float:
        """The final value, or that at the best point; NaN if there is none."""
        if self.status == "diverged" or self.is_cut or not len(self.curve[key]):
            return math.nan
        return float(self.curve[key][self.best_point if best else -1])


class Found(list[Record]):
    """The runs below some folders, and a line for each that is damaged and was left out."""

    def __init__(self, records: Iterable[Record] = (), damaged: Iterable[str] = ()) -> None:
        super().__init__(records)
        self.damaged = tuple(damaged)

    def say(self) -> None:
        """Names what is damaged, and says how many are unsealed, on standard error."""
        for line in self.damaged:
            print(f"stragglers: {line}", file=sys.stderr)
        say_unsealed(self)


def say_unsealed(found: Iterable[Record]) -> None:
    """Once for all of them, on standard error."""
    sealed = [record.is_sealed for record in found]
    if not all(sealed):
        print(
            f"stragglers: {sealed.count(False)} of {len(sealed)} runs are unsealed (of a version "
            "before 0.2.0): damage to them would not show; `stragglers verify --seal` seals them",
            file=sys.stderr,
        )


def find(paths: Iterable[str | Path]) -> Found:
    """All runs in these folders and below, in one order, each once; without damaged ones."""
    found, damaged = [], []
    for folder in folders_in(paths):
        try:
            found.append(load(folder))
        except Damaged as error:
            damaged.append(f"left out: {error}")
    if damaged and not found:
        more = f" (and {len(damaged) - 1} more damaged runs)" if len(damaged) > 1 else ""
        raise Damaged(damaged[0].removeprefix("left out: ") + more)
    found.sort(key=lambda r: (r.name, r.hash, r.seed, str(r.folder)))
    return Found(found, sorted(damaged))


def folders_in(paths: Iterable[str | Path]) -> list[Path]:
    """All run folders in these folders and below, each once."""
    folders: dict[Path, Path] = {}
    for path in map(Path, paths):
        below = [Path(at) for at, inside, names in os.walk(path) if run_json.is_run(inside + names)]
        if not below:
            what = "no runs in it or below" if path.is_dir() else "no such folder"
            what = "a file, expected a folder of runs" if path.is_file() else what
            raise BadInput(f"{path}: {what}; `stragglers run` writes runs, by default into runs/")
        folders |= {folder.resolve(): folder for folder in below}
    return list(folders.values())


def load(folder: str | Path) -> Record:
    """Reads a run folder; a line of a curve that is being written costs that line only."""
    folder = Path(folder)
    run = run_json.read(folder)
    if run is None:
        raise BadInput(f"{folder}: not a run, it has no run.json")
    run_json.check_files(folder, run)
    head = msgspec.convert(run, run_json.Head)
    curve, warnings = curves.read(*_curve_of(folder, head))
    record = Record(
        folder,
        head.name,
        head.hash,
        head.seed,
        head.status,
        head.diverged,
        _settings(folder),
        curve,
        run,
        warnings,
    )
    if record.is_cut:
        warnings.append(f"{folder}: its curve has lost its end; delete the folder to repeat it")
    return record


def origin(folder: Path) -> tuple[str, dict[str, Any]]:
    """A run's name and settings, whatever has become of its curve."""
    run = run_json.read(folder)
    if run is None:
        raise BadInput(f"{folder}: not a run, it has no run.json")
    run_json.check_files(folder, run)
    settings = _settings(folder)
    return run["name"], attached_files.beside(settings, folder, attached_files.FILES)


def as_json(record: Record) -> dict[str, Any]:
    """All of it, the curve as one object for each evaluation."""
    columns = [column.tolist() for column in record.curve.values()]
    curve = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
    return {**record._asdict(), "folder": str(record.folder), "curve": curve}


def is_over(folder: Path) -> bool:
    """Whether a run is there and came to its end, good or bad."""
    run = run_json.read(folder)
    if run is None or run["status"] == "running":  # resumed, it is written anew
        return False
    run_json.check_files(folder, run)
    return True


def files_digest(folder: Path) -> str | None:
    """Names the files that a trial has its data from (`build.data_digest`), if it says so."""
    run = run_json.read(folder)
    return ((run or {}).get("data") or {}).get("files")


def seconds(folder: Path) -> float | None:
    """How long a trial took, if it is finished: of a program's time, its share."""
    run = run_json.read(folder)
    if not run or run["status"] != "finished" or run.get("wall_s") is None:
        return None
    return run["wall_s"] / (run.get("device") or {}).get("trials_together", 1)


def _curve_of(folder: Path, head: run_json.Head) -> tuple[Path, bool]:
    """Its file, and whether its lines have checksums, on which alone a trial that trains relies."""
    if head.format == run_folder.UNSEALED:
        there = (folder / curves.NAME).exists() or not (folder / curves.PUT_AWAY).exists()
        return folder / (curves.NAME if there else curves.PUT_AWAY), False
    is_put_away = curves.PUT_AWAY in head.files
    return folder / (curves.PUT_AWAY if is_put_away else curves.NAME), head.status == "running"


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / run_folder.SETTINGS
    # Resolved, they are longer than what their author wrote.
    return toml_files.read(path, str(path), longest=float("inf"))


def put_away(folder: Path, out: Path) -> Path:
    """Copies what a result needs: no weights, no place of the data, and the curve compressed."""
    record = load(folder)
    there = out / record.name / folder.name
    settings = {**record.document, "task": {**record.document["task"]}}
    settings["task"].pop("path", None)
    with files.told(there):
        there.mkdir(parents=True, exist_ok=True)
    curve = gzip.compress(b"".join(map(curves.line, as_json(record)["curve"])), mtime=0)
    written = run_folder.write_settings(there / run_folder.SETTINGS, settings)
    run_folder.write(there / curves.PUT_AWAY, curve)
    written[curves.PUT_AWAY] = seals.digest(curve)
    run = {**record.run, "format": run_folder.FORMAT, "files": written}
    run_folder.write(there / run_folder.RUN, seals.sealed(run))
    return there
