"""Run folders, read: a `Record` of each, and `put_away`, which keeps what a result needs of it."""

import gzip
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stragglers._core import files, tables, toml_files
from stragglers._core.errors import BadInput
from stragglers.config import attached_files
from stragglers.runs import curve as curves
from stragglers.runs import run_folder
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


def find(paths: Iterable[str | Path]) -> list[Record]:
    """All runs in these folders and below, in one order, each once."""
    folders: dict[Path, Path] = {}
    for path in map(Path, paths):
        below = [Path(place) for place, _, names in os.walk(path) if "run.json" in names]
        if not below:
            what = "no runs in it or below" if path.is_dir() else "no such folder"
            what = "a file, expected a folder of runs" if path.is_file() else what
            raise BadInput(f"{path}: {what}; `stragglers run` writes runs, by default into runs/")
        folders |= {folder.resolve(): folder for folder in below}
    records = map(load, folders.values())
    return sorted(records, key=lambda r: (r.name, r.hash, r.seed, str(r.folder)))


def load(folder: str | Path) -> Record:
    """Reads a run folder; a line of its curve that was cut costs that line only."""
    folder = Path(folder)
    run = _run(folder)
    if run is None:
        raise BadInput(f"{folder}: not a run, it has no run.json")
    head = msgspec.convert(run, _Head)
    curve, warnings = curves.read(folder)
    record = Record(
        folder,
        head.name,
        head.hash,
        head.seed,
        head.status,
        head.diverged,
        _settings(folder / "settings.toml"),
        curve,
        run,
        warnings,
    )
    if record.is_cut:
        warnings.append(f"{folder}: its curve has lost its end; delete the folder to repeat it")
    return record


def origin(folder: Path) -> tuple[str, dict[str, Any]]:
    """A run's name and settings, whatever has become of its curve."""
    run = _run(folder)
    if run is None:
        raise BadInput(f"{folder}: not a run, it has no run.json")
    settings = _settings(folder / "settings.toml")
    return run["name"], attached_files.beside(settings, folder, attached_files.FILES)


def as_json(record: Record) -> dict[str, Any]:
    """All of it, the curve as one object for each evaluation."""
    columns = [column.tolist() for column in record.curve.values()]
    curve = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]
    return {**record._asdict(), "folder": str(record.folder), "curve": curve}


def is_over(folder: Path) -> bool:
    """Whether a run is there and came to its end, good or bad."""
    run = _run(folder)
    return run is not None and run["status"] != "running"


def files_digest(folder: Path) -> str | None:
    """Names the files that a trial has its data from (`build.data_digest`), if it says so."""
    run = _run(folder)
    return ((run or {}).get("data") or {}).get("files")


def seconds(folder: Path) -> float | None:
    """How long a trial took, if it is finished: of a program's time, its share."""
    run = _run(folder)
    if not run or run["status"] != "finished" or run.get("wall_s") is None:
        return None
    return run["wall_s"] / (run.get("device") or {}).get("trials_together", 1)


class _Schedule(msgspec.Struct):
    """What reports take from the numbers of a run's plan."""

    server_steps: int = 0
    time_s: float = np.nan
    share: dict[str, dict[str, float | None]] = {}
    faults: dict[str, float] = {}
    staleness: dict[str, float | None] = {}
    device_s: dict[str, float | None] = {}


class _Head(msgspec.Struct):
    name: str
    hash: str
    seed: int
    status: Literal["running", "finished", "diverged"]
    diverged: str | None = None
    schedule: _Schedule | None = None
    versions: dict[str, Any] | None = None
    device: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    drift: list[str] = []
    dropped: int | None = None


def _run(folder: Path) -> dict[str, Any] | None:
    path = folder / "run.json"
    try:
        run = msgspec.json.decode(path.read_bytes(), type=dict)
        if run.get("format") == run_folder.FORMAT:
            msgspec.convert(run, _Head)
            return run
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: no run's ({error}); delete its folder, or repair it") from None
    raise BadInput(f"{path}: format {run.get('format')!r}, this version reads {run_folder.FORMAT}")


def _settings(path: Path) -> dict[str, Any]:
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
    curve = b"".join(map(curves.line, as_json(record)["curve"]))
    run_folder.write_settings(there / "settings.toml", settings)
    run_folder.write(there / "curve.jsonl.gz", gzip.compress(curve, mtime=0))
    run_folder.write(there / "run.json", run_folder.pretty(record.run))
    return there
