"""From TOML to settings. One file is one experiment; presets are the paper's rows.

    document = read("emnist/per-domain/feast")      a plain dict
    document = override(document, "goal=40")        `--set`; bare names find their section
    experiment = experiment_from(document)          checked; unknown keys are errors

Every mistake is one line with the key, what was given and what is allowed.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from stragglers._core import toml_files
from stragglers._core.errors import BadInput, did_you_mean, shown
from stragglers.config import attached_files, validation
from stragglers.config.settings import Experiment

# Settings of which one replaces another: giving one with `--set` takes the other away.
ALTERNATIVES = [
    {"schedule.cohort", "schedule.over_selection"},
    {"schedule.late_seconds", "schedule.late_rounds"},
    {"schedule.time_limit.seconds", "schedule.time_limit.percentile"},
    {"task.csv", "task.groups"},
    {"availability.csv", "availability.groups"},
]
KINDS = ("kind", "model", "name", "optimizer")  # keys that say what else a section has
FREE = ("seed", "task.path", "evaluations")  # whatever these are, a published row is itself
BARE_FRACTION = re.compile(r"[+-]?\.\d+(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)  # no TOML
EXACT = 2.0**53  # below it whole numbers are themselves, as floats


def presets() -> list[str]:
    """The names of all presets, such as emnist/per-domain/feast."""
    root = resources.files("stragglers.config") / "presets"
    return sorted(_names(root, ""))


def _names(folder: Any, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml")


def expand(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """What to read for each name that is asked for, and the names that are asked for twice.

    An argument is a preset, the beginning of several (emnist/per-domain), `all` that can be
    trained, a TOML file, or a folder of them.
    """
    sources: dict[str, str] = {}
    twice: list[str] = []
    for name, source in (one for argument in arguments for one in _named(argument)):
        if sources.get(name, source) != source:
            raise BadInput(
                f"{sources[name]} and {source} share the name {name!r}; rename one, or "
                "run one after the other"
            )
        twice += [name] if name in sources else []
        sources[name] = source
    return sources, twice


def _named(argument: str) -> list[tuple[str, str]]:
    known = presets()
    if argument in known:  # whatever lies here under that name, such as its runs
        return [(argument, argument)]
    inside = [name for name in known if name.startswith(argument.rstrip("/") + "/")]
    if argument == "all":
        return [(name, name) for name in known if read(name)["task"]["name"] != "fleet"]
    if inside:
        return [(name, name) for name in inside]
    if Path(argument).is_dir():
        return _inside(argument)
    if argument.endswith(".toml"):
        return [(_repeated(Path(argument)) or _run_name(Path(argument).name), argument)]
    folders = {str(folder) for name in known for folder in PurePosixPath(name).parents}
    raise BadInput(_no_preset(argument, {*known, *folders}))


def _inside(folder: str) -> list[tuple[str, str]]:
    """A folder's experiments; the settings of runs are repeated by their own name only."""
    every = sorted(Path(folder).rglob("*.toml"))
    files = [file for file in every if not (file.parent / "run.json").exists()]
    if every and not files:
        raise BadInput(
            f"{folder}: runs, expected experiments; to repeat a run under these "
            f"settings, name its file, such as {every[0]}"
        )
    if not files:
        raise BadInput(f"{folder}: no .toml file in this folder, expected experiments")
    return [(_run_name(file.relative_to(folder)), str(file)) for file in files]


def _no_preset(name: str, known: set[str]) -> str:
    nearest = did_you_mean(name, known)
    if nearest.startswith("did") or any(other.startswith(name) for other in known):
        return f"no preset {name!r}; {nearest}"
    return f"no preset {name!r}; `stragglers list` names them, a file's name ends in .toml"


class _Named(msgspec.Struct):
    name: str


def _repeated(file: Path) -> str | None:
    """The name of the run whose settings a file has; None if it is none's."""
    if file.name != "settings.toml":
        return None
    try:
        run = msgspec.json.decode((file.parent / "run.json").read_bytes(), type=_Named)
    except (OSError, ValueError):  # what it says otherwise is no matter here
        return None
    return _safe(Path(run.name).parts) or None


def _run_name(file: str | Path) -> str:
    """A file's name as one of a folder, whatever characters it has."""
    return _safe(Path(file).with_suffix("").parts)


def _safe(parts: Sequence[str]) -> str:
    return "/".join(re.sub(r"[^A-Za-z0-9._-]|^\.+", "-", part) for part in parts)


def read(name: str) -> dict[str, Any]:
    """The document of a preset, or of a TOML file given by its path."""
    if name.endswith(".toml"):
        source: Any = Path(name)
    elif name in (known := presets()):
        source = resources.files("stragglers.config") / "presets" / f"{name}.toml"
    else:
        raise BadInput(_no_preset(name, set(known)))
    document = toml_files.read(source, name)
    return attached_files.beside(document, source.parent) if isinstance(source, Path) else document


def override_all(document: dict[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """Kinds first, so that settings of a new kind are known, whatever the order of `--set`."""
    for assignment in sorted(assignments, key=lambda a: _leaf(a.partition("=")[0]) not in KINDS):
        document = override(document, assignment)
    return document


def override(document: dict[str, Any], assignment: str) -> dict[str, Any]:
    """The document with `path.to.key=value` set; the end of a path finds its beginning.

    With another kind of section go those of its settings that the new kind has no use for.
    """
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip():
        raise BadInput(f"{assignment!r} given, expected key=value")
    path = full_path(document, name.strip())
    _check_key(document, path)
    for group in ALTERNATIVES:
        if path in group:
            for other in group - {path}:
                document = _without(document, other.split("."))
    if path not in FREE:
        document = _without(document, ["paper"])  # another experiment than the published one
    changed = _with(document, path.split("."), value_of(text.strip()))
    if _leaf(path) in KINDS:
        section = path.rpartition(".")[0]
        for key in _keys_at(document, section) - _keys_at(changed, section):
            changed = _without(changed, [*section.split("."), key])
    return changed


def _check_key(document: dict[str, Any], path: str) -> None:
    """Refuses a group's number where everybody has one: it would take the others' away."""
    *parts, key = path.split(".")
    inside: Any = document
    for part in parts:
        inside = inside.get(part, {}) if isinstance(inside, dict) else inside
    if not isinstance(inside, dict | None):
        table = ".".join(parts)
        raise BadInput(
            f"{path} given, but {table} is {shown(inside)} for everybody; give a table: "
            f"{table}={{{key} = ...}}"
        )


def _leaf(path: str) -> str:
    return path.strip().rpartition(".")[2]


def _keys_at(document: dict[str, Any], section: str) -> set[str]:
    found = validation.section_at(Experiment, document, section)
    return validation.keys(found) if found else set()


def takes_data(document: dict[str, Any]) -> bool:
    """Whether the document's task reads files, which task.path names."""
    return "task.path" in validation.paths(Experiment, document)


def with_reading(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The document under another reading of the paper; its own, if it knows no other."""
    readings = document.get("readings", {})
    if name not in ("reproducing", "literal", *readings):
        raise BadInput(f"reading {name!r}; {did_you_mean(name, ('reproducing', 'literal'))}")
    for path, value in readings.get(name, {}).items():
        document = _with(document, path.split("."), value)
    return document


def full_path(document: dict[str, Any], name: str) -> str:
    """The dotted path that a name stands for, such as schedule.goal for goal."""
    paths = list(validation.paths(Experiment, document))
    if name in paths:
        return name
    matches = [path for path in paths if path.endswith(f".{name}")]
    table, dot, key = name.rpartition(".")  # a key of a table, such as check_in.straggler
    matches += [
        f"{path}.{key}"
        for path in validation.tables(Experiment, document)
        if dot and key and f".{path}".endswith(f".{table}")
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise BadInput(f"{name!r} could be any of {', '.join(matches)}; give the whole path")
    if inside := [path for path in paths if f".{name}." in f".{path}"]:
        raise BadInput(f"{name!r} is a section; set one of {', '.join(inside)}")
    paths = [path for path in paths if not path.startswith(("paper.", "readings"))]
    leaves = {path.rsplit(".", 1)[-1] for path in paths}
    if dot:  # perhaps a table, mistyped
        leaves |= {f"{_leaf(path)}.{key}" for path in validation.tables(Experiment, document)}
    raise BadInput(f"unknown setting {name!r}; {did_you_mean(name, {*paths, *leaves})}")


def experiment_from(document: dict[str, Any]) -> Experiment:
    """Checks a document; the first mistake is raised as one line."""
    return validation.convert(Experiment, document)


def resolved(experiment: Experiment) -> dict[str, Any]:
    """The document of an experiment, defaults written out; reading it gives the experiment."""
    return _without_none(msgspec.to_builtins(experiment))


def completed(document: dict[str, Any]) -> dict[str, Any]:
    """Settings of any time as today's: what was no setting then has its default."""
    return resolved(experiment_from(document))


def published(name: str, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The paper's row of a preset, as it is today, if these completed settings are the preset's."""
    preset = _preset(name)
    return preset.get("paper") if preset and _row(preset) == _row(settings) else None


@cache
def _preset(name: str) -> dict[str, Any] | None:
    return completed(read(name)) if name in presets() else None


def _row(settings: dict[str, Any]) -> dict[str, Any]:
    """What tells a row from others."""
    for path in (*FREE, "paper", "readings"):
        settings = _without(settings, path.split("."))
    return settings


def _without_none(document: Any) -> Any:
    """TOML has no null: what is not given is not there."""
    if not isinstance(document, dict):
        return document
    return {key: _without_none(value) for key, value in document.items() if value is not None}


def value_of(text: str) -> Any:
    """A TOML value; a bare word is a string. .5 is a number as well, and 1e4 a whole one."""
    if BARE_FRACTION.fullmatch(text):
        return float(text)
    try:
        value = toml_files.loads(f"value = {text}")["value"]
    except ValueError:
        return text
    whole = isinstance(value, float) and "e" in text.lower() and value.is_integer()
    return int(value) if whole and abs(value) < EXACT else value


def _with(document: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    head, *rest = path
    inside = document.get(head)
    return {
        **document,
        head: _with(inside if isinstance(inside, dict) else {}, rest, value) if rest else value,
    }


def _without(document: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    head, *rest = path
    if head not in document:
        return document
    if rest:
        return {**document, head: _without(document[head], rest)}
    return {key: value for key, value in document.items() if key != head}
