"""Run folders: one for each trial, readable while it is being written.

    runs/<name>/<hash>-<seed>/
      settings.toml      the resolved experiment, its defaults written out
      copy-*             copies of the files that it names, if any
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

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stragglers._core import files, toml_files
from stragglers.config import attached_files
from stragglers._core.errors import BadInput

FORMAT = 1
NO_RESULT = ("seed", "paper", "readings")  # settings that a result, given the seed, is free of

COLUMNS: dict[str, type] = {
    "step": int, "time_s": float, "updates": int, "local_steps": int, "examples": int,
    "wall_s": float,
    "straggler_accuracy": float, "standard_accuracy": float, "total_accuracy": float,
    "straggler_loss": float, "standard_loss": float, "total_loss": float,
    "dropped": int, "late": int, "test_examples": int,
    "validation_straggler_accuracy": float, "validation_total_accuracy": float,
    "held_out_straggler_accuracy": float, "held_out_total_accuracy": float,
}  # fmt: skip
LATER = ("validation_", "held_out_")  # columns that older curves lack; they are read as NaN


class Record(NamedTuple):
    """A run folder as it was read."""

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


def settings_hash(settings: dict[str, Any]) -> str:
    """Names resolved settings; the same in every process, whatever the order of keys.

    A file that they name counts by what is in it, wherever it lies.
    """
    deciding = {key: value for key, value in settings.items() if key not in NO_RESULT}
    # Nor does it matter where the data lies; run.json says what was there (`files_digest`).
    task = {key: value for key, value in settings["task"].items() if key != "path"}
    content = attached_files.digested({**deciding, "task": task})
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def folder_of(out: Path, name: str, settings: dict[str, Any]) -> Path:
    return out / name / f"{settings_hash(settings)}-{settings['seed']}"


# Writing: claim, begin, append for each evaluation, finish.


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
    run = {"format": FORMAT, **facts, "hash": settings_hash(settings), "seed": settings["seed"],
           "status": "running", "diverged": None}  # fmt: skip
    files.remove_unfinished(folder)
    write_settings(folder / "settings.toml", settings)
    _write(folder / "curve.jsonl", curve)
    _write(folder / "run.json", _pretty(run))
    return run


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """With copies of the files that they name, first: settings without them are none."""
    settings, copies = attached_files.copied(settings)
    for name, content in copies.items():
        _write(path.with_name(name), content)
    _write(path, toml_files.dumps(settings).encode())


def append(folder: Path, evaluation: dict[str, Any]) -> None:
    """Adds a point to the curve."""
    path = folder / "curve.jsonl"
    with files.told(path), path.open("ab") as curve:
        curve.write(line(evaluation))
        curve.flush()
        os.fsync(curve.fileno())


def line(evaluation: dict[str, Any]) -> bytes:
    """A point of the curve, as it is written; of an older curve, as it was."""
    known = {name: evaluation[name] for name in COLUMNS
             if not (name.startswith(LATER) and np.isnan(evaluation[name]))}  # fmt: skip
    return msgspec.json.encode(known) + b"\n"


def evaluations(curve: bytes) -> list[dict[str, Any]]:
    """The points of a curve that is whole; what was not finite is NaN."""
    points = map(msgspec.structs.asdict, _DECODER.decode_lines(curve))
    return [{key: np.nan if value is None else value for key, value in point.items()}
            for point in points]  # fmt: skip


def finish(
    folder: Path, run: dict[str, Any], arrays: dict[str, NDArray[Any]], facts: dict[str, Any]
) -> None:
    """Saves the weights, then says that the run is over; `facts` has its status."""
    from safetensors.numpy import save

    metadata = {key: str(run[key]) for key in ("name", "hash", "seed")}
    _write(folder / "model.safetensors", _in_order(save(arrays, metadata)))
    _write(folder / "run.json", _pretty({**run, **facts}))


def put_away(folder: Path, out: Path) -> Path:
    """Copies what a result needs: no weights, no place of the data, and the curve compressed."""
    record = load(folder)
    there = out / record.name / folder.name
    settings = {**record.document, "task": {**record.document["task"]}}
    settings["task"].pop("path", None)
    with files.told(there):
        there.mkdir(parents=True, exist_ok=True)
    curve = b"".join(map(line, as_json(record)["curve"]))
    write_settings(there / "settings.toml", settings)
    _write(there / "curve.jsonl.gz", gzip.compress(curve, mtime=0))
    _write(there / "run.json", _pretty(record.run))
    return there


def _in_order(weights: bytes) -> bytes:
    """Equal weights as equal bytes: safetensors writes its metadata in an order of chance."""
    end = 8 + int.from_bytes(weights[:8], "little")
    header = msgspec.json.decode(weights[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + weights[end:]


def _write(path: Path, content: bytes) -> None:
    files.write(path, lambda temporary: Path(temporary).write_bytes(content))


def _pretty(document: dict[str, Any]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


# Reading.


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
    curve, warnings = _curve(folder)
    record = Record(folder, head.name, head.hash, head.seed, head.status, head.diverged,
                    _settings(folder / "settings.toml"), curve, run, warnings)  # fmt: skip
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


_Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)] | None


def _field(column: str, kind: type) -> tuple[Any, ...]:
    if kind is int:
        return column, int
    given = _Share if column.endswith("_accuracy") else float | None
    return (column, given, None) if column.startswith(LATER) else (column, given)


_Line = msgspec.defstruct("_Line", [_field(name, kind) for name, kind in COLUMNS.items()])
_DECODER = msgspec.json.Decoder(_Line)


def _run(folder: Path) -> dict[str, Any] | None:
    path = folder / "run.json"
    try:
        run = msgspec.json.decode(path.read_bytes(), type=dict)
        if run.get("format") == FORMAT:
            msgspec.convert(run, _Head)
            return run
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: no run's ({error}); delete its folder, or repair it") from None
    raise BadInput(f"{path}: format {run.get('format')!r}, this version reads {FORMAT}")


def _curve(folder: Path) -> tuple[dict[str, NDArray[Any]], list[str]]:
    path = folder / "curve.jsonl"
    put_away = path.with_name("curve.jsonl.gz")
    if not path.exists() and put_away.exists():
        path = put_away
    try:
        lines = path.read_bytes() if path is not put_away else gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: not a gzip file, or not all of it ({error})") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror})") from None
    warnings = []
    try:
        points = _DECODER.decode_lines(lines)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        points = [point for line in lines.splitlines() for point in _line(line)]
        lost = len(lines.splitlines()) - len(points)
        warnings = [f"{path}: {lost} of {lost + len(points)} lines cannot be read, left out"]
    table = list(zip(*map(msgspec.structs.astuple, points), strict=True)) or [()] * len(COLUMNS)
    kinds = zip(COLUMNS.items(), table, strict=True)
    return {name: np.array(values, kind) for (name, kind), values in kinds}, warnings


def _line(line: bytes) -> list[Any]:
    try:
        return [_DECODER.decode(line)]
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


def _settings(path: Path) -> dict[str, Any]:
    # Resolved, they are longer than what their author wrote.
    return toml_files.read(path, str(path), longest=float("inf"))
