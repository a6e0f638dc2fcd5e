"""Checkpoints: a run between two chunks on disk, so that no end of the process loses much.

    <folder of the run>/checkpoints/<step>-<digest>/
      state.safetensors  the engine's carry, and the model of each trial as it was last evaluated
      curve-0.jsonl ...  the curve of each trial, up to there
      manifest.json      the step, the clock, each trial's counters, what must be equal to resume,
                         and the SHA-256 of every other file

The name has the digest of the manifest, the manifest has those of the other files, and the name
appears last: a folder is whole, or its damage is detected. The curve inside replaces the one
outside when a run resumes, so no point is repeated and none is missing. Trials of one program share
the checkpoints in the folder of the first; together.json in each folder lists their folders,
relative to its own, and the checkpoints are valid while all of these files agree.
"""

import os
import re
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stragglers._core import files, seals
from stragglers._core.errors import BadInput

if TYPE_CHECKING:
    from stragglers.algorithms.base import Params
    from stragglers.simulator.events import Snapshot
    from stragglers.simulator.server_step import Carry

FORMAT = 3
EVERY_MINUTES = 5.0
KEEP = 2
FOLDER, TOGETHER = "checkpoints", "together.json"
MANIFEST, STATE = "manifest.json", "state.safetensors"
NAME = re.compile(r"\d{10}-([0-9a-f]{16})")
NEVER = ("format", "seeds", "devices")  # must be equal to resume, drift allowed or not


class Trace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The state of a trial, besides its curve and its model."""

    dropped: int
    trained: int
    diverged: str | None


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    step: int
    wall_s: float
    fingerprint: dict[str, Any]
    facts: dict[str, Any]  # for the run that resumes
    trials: list[Trace]
    files: dict[str, str]  # SHA-256 by name


class Found(NamedTuple):
    """A checkpoint that is whole."""

    folder: Path
    manifest: Manifest
    curves: list[bytes]


def save(
    folder: Path,
    snapshot: "Snapshot",
    curves: Sequence[bytes],
    fingerprint: dict[str, Any],
    facts: dict[str, Any],
) -> None:
    """Keeps a snapshot in a claimed run folder, and of older ones the last."""

    def fill(place: Path) -> str:
        _write_state(snapshot, place / STATE)
        for trial, curve in enumerate(curves):
            (place / _curve(trial)).write_bytes(curve)
        traces = [Trace(state.dropped, state.trained, state.diverged) for state in snapshot.trials]
        digests = {path.name: seals.digest_of(path) for path in sorted(place.iterdir())}
        manifest = Manifest(snapshot.step, snapshot.wall_s, fingerprint, facts, traces, digests)
        (place / MANIFEST).write_bytes(msgspec.json.encode(manifest))
        return f"{snapshot.step:010}-{seals.digest_of(place / MANIFEST)[:16]}"

    place = folder / FOLDER
    files.write_folder(place, fill)
    for old in _all(place)[KEEP:]:
        files.remove_folder(old)


def newest(folder: Path) -> tuple[Found | None, list[str]]:
    """The last checkpoint that is whole; damaged ones are removed, with a line for each."""
    place, lines = folder / FOLDER, []
    files.remove_unfinished(place)
    for candidate in _all(place):
        try:
            return _opened(candidate), lines
        except _Damaged as damage:
            lines.append(f"{candidate} is damaged ({damage}) and was removed")
            files.remove_folder(candidate)
    return None, lines


def restore(found: Found, first: "Snapshot") -> "Snapshot":
    """A run as it was, but for its curves; `first` says what it is made of."""
    import jax
    import jax.numpy as jnp
    from safetensors.numpy import load_file

    manifest = found.manifest
    arrays, like = load_file(found.folder / STATE), _state(first)
    shapes = {name: (leaf.shape, leaf.dtype) for name, leaf in _named(like).items()}
    if shapes != {name: (array.shape, array.dtype) for name, array in arrays.items()}:
        raise BadInput(
            f"{found.folder}: holds other arrays than this version trains; delete "
            f"{found.folder.parent} to start anew"
        )
    places = [leaf.sharding for leaf in jax.tree.leaves(like)]
    leaves = [
        jax.device_put(jnp.array(arrays[name]), place)
        for name, place in zip(shapes, places, strict=True)
    ]
    carry, models = jax.tree.unflatten(jax.tree.structure(like), leaves)
    states = (
        state._replace(model=model, **msgspec.structs.asdict(trace))
        for state, model, trace in zip(first.trials, models, manifest.trials, strict=True)
    )
    return first._replace(
        step=manifest.step, wall_s=manifest.wall_s, carry=carry, trials=tuple(states)
    )


def drift(found: Found, fingerprint: dict[str, Any], allowed: bool) -> list[str]:
    """What differs from when the checkpoint was made; refused unless it is allowed."""
    then = found.manifest.fingerprint
    changed = [name for name in fingerprint if then.get(name) != fingerprint[name]]
    lines = [
        f"{name}: {then.get(name)} in the checkpoint, {fingerprint[name]} now" for name in changed
    ]
    for name, line in zip(changed, lines, strict=True):
        if name in NEVER or not allowed:
            otherwise = "" if name in NEVER else "give --allow-drift to resume anyway, or "
            raise BadInput(
                f"{found.folder}: {line}; {otherwise}delete {found.folder.parent} to start anew"
            )
    return lines


def is_left(found: Found, fingerprint: dict[str, Any]) -> bool:
    """Whether its trials have gone on without each other since, and it is of use to none now."""
    then = found.manifest.fingerprint
    together = len(then.get("seeds", [])) > 1 and then.get("format") == FORMAT
    others = any(then.get(key) != fingerprint.get(key) for key in ("settings", "seeds"))
    return together and others and len(bound(found.folder.parents[1])) < 2


def discard(folder: Path) -> None:
    """Removes all of a folder: beside them, new ones of earlier steps would never be the newest."""
    for checkpoint in _all(folder / FOLDER):
        files.remove_folder(checkpoint)


def clear(folder: Path) -> None:
    """Removes what a run that is over needs no more; what cannot be removed now is, next time."""
    with suppress(OSError):
        (folder / TOGETHER).unlink(missing_ok=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


def bind(folders: Sequence[Path]) -> None:
    """Says in each folder whose checkpoints the first one has."""
    for folder in folders:
        if len(folders) > 1:
            names = [os.path.relpath(other, folder.parent) for other in folders]
            content = msgspec.json.encode(names)
            files.write(folder / TOGETHER, lambda path, it=content: Path(path).write_bytes(it))
            continue
        with files.told(folder / TOGETHER):
            (folder / TOGETHER).unlink(missing_ok=True)


def bound(folder: Path) -> list[Path]:
    """The folders that share checkpoints with this one, in order; empty if there are none.

    All of them must agree: a trial that was trained in another bundle since has left this one.
    """
    folders = _together(folder)
    agreed = all(_together(other) == folders for other in folders)
    return folders if agreed and _all(folders[0] / FOLDER) else []


def _together(folder: Path) -> list[Path]:
    try:
        names = msgspec.json.decode((folder / TOGETHER).read_bytes(), type=list[str])
    except (OSError, msgspec.MsgspecError):
        names = []
    return [_seen_from(folder.parent, name) for name in names] or [folder]


def _seen_from(place: Path, name: str) -> Path:
    """The way as it is given, links and all: of `place` no more is gone back than is named."""
    for part in Path(name).parts:
        place = place.parent if part == ".." else place / part
    return place


class _Damaged(Exception):
    """A checkpoint is not what was written."""


def _all(place: Path) -> list[Path]:
    """Newest first."""
    try:
        entries = sorted(place.iterdir(), reverse=True)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BadInput(f"{place}: cannot be read ({error.strerror})") from None
    return [entry for entry in entries if not entry.name.startswith(files.UNFINISHED)]


def _opened(folder: Path) -> Found:
    named = NAME.fullmatch(folder.name)
    if not named:
        raise _Damaged("not a name of one")
    try:
        text = (folder / MANIFEST).read_bytes()
        if not seals.digest(text).startswith(named[1]):
            raise _Damaged(f"{MANIFEST} is not what was written")
        manifest = msgspec.json.decode(text, type=Manifest)
        there = {path.name for path in folder.iterdir()}
        for name in sorted(there ^ {MANIFEST, *manifest.files}):
            raise _Damaged(f"{name} {'does not belong to it' if name in there else 'is missing'}")
        for name, digest in manifest.files.items():
            if seals.digest_of(folder / name) != digest:
                raise _Damaged(f"{name} is not what was written")
        curves = [(folder / _curve(trial)).read_bytes() for trial in range(len(manifest.trials))]
    except OSError as error:
        if error.errno not in seals.ROTTEN:  # it may be whole, and is nothing to remove
            raise BadInput(f"{folder}: cannot be read ({error.strerror})") from None
        raise _Damaged(error.strerror) from None
    except msgspec.MsgspecError as error:  # written by another version
        raise BadInput(
            f"{folder}: cannot be read by this version ({error}); delete {folder.parent} to "
            "start anew"
        ) from None
    return Found(folder, manifest, curves)


def _state(snapshot: "Snapshot") -> tuple["Carry", list["Params"]]:
    return snapshot.carry, [state.model for state in snapshot.trials]


def _named(state: Any) -> dict[str, Any]:
    import jax

    leaves, _ = jax.tree.flatten_with_path(state)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _write_state(snapshot: "Snapshot", path: Path) -> None:
    import numpy as np
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {name: np.asarray(leaf) for name, leaf in _named(_state(snapshot)).items()}
    try:
        save_file(arrays, path)
    except SafetensorError as error:  # its word for a full disk
        raise OSError(str(error)) from None


def _curve(trial: int) -> str:
    return f"curve-{trial}.jsonl"
