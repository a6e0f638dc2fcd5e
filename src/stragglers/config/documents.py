"""Documents, which are experiments as TOML has them, and changes of their settings.

    document = override(document, "goal=40")         `--set`; a bare name finds its section
    document = with_setting(document, "goal", 40)    the same with a Python value
    settings = settings_from(document)               checked; unknown keys are errors
    document = settings.document                     every default written out

Every mistake is one line that names the key, what was given and what is allowed.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from stragglers._core import schema, toml_files
from stragglers._core.errors import BadInput, did_you_mean, shown
from stragglers.config.settings import Experiment

Document = dict[str, Any]
# Settings that exclude each other: setting one removes the others.
ALTERNATIVES = [
    {"schedule.cohort", "schedule.over_selection"},
    {"schedule.late_seconds", "schedule.late_rounds"},
    {"schedule.time_limit.seconds", "schedule.time_limit.percentile"},
    {"task.csv", "task.groups"},
    {"availability.csv", "availability.groups"},
]
KINDS = ("kind", "model", "name", "optimizer")  # keys that decide which others a section has
FREE = ("seed", "task.path", "evaluations")  # a row of the paper stays one whatever these are
BARE_FRACTION = re.compile(r"[+-]?\.\d+(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)  # not TOML
EXACT = 2.0**53  # floats below it are exact whole numbers


def settings_from(document: Document) -> Experiment:
    """The settings of a document; the first mistake is raised as one line."""
    return schema.convert(Experiment, document)


def completed(document: Document) -> Document:
    """A document of any version, with today's defaults for settings that it lacks."""
    return settings_from(document).document


def override_all(document: Document, assignments: Iterable[str]) -> Document:
    """The document with all of `path.to.key=value` set, whatever their order."""
    return with_settings(document, map(_parsed, assignments))


def override(document: Document, assignment: str) -> Document:
    """The document with `path.to.key=value` set; a path may be given by its end."""
    return with_setting(document, *_parsed(assignment))


def _parsed(assignment: str) -> tuple[str, Any]:
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip():
        raise BadInput(f"{assignment!r} given, expected key=value")
    return name.strip(), value_of(text.strip())


def value_of(text: str) -> Any:
    """A TOML value, or a bare word as a string; .5 is a number too, and 1e4 a whole one."""
    if BARE_FRACTION.fullmatch(text):
        return float(text)
    try:
        value = toml_files.loads(f"value = {text}")["value"]
    except ValueError:
        return text
    whole = isinstance(value, float) and "e" in text.lower() and value.is_integer()
    return int(value) if whole and abs(value) < EXACT else value


def with_settings(document: Document, settings: Iterable[tuple[str, Any]]) -> Document:
    """The document with all of these set; kinds come first, since they decide what else exists."""
    for name, value in sorted(settings, key=lambda setting: _leaf(setting[0]) not in KINDS):
        document = with_setting(document, name, value)
    return document


def with_setting(document: Document, name: str, value: Any) -> Document:
    """The document with one setting changed; None removes it, so that its default holds.

    With a new kind of section, the settings that the new kind does not have are removed.
    """
    path = full_path(document, name)
    _check_key(document, path)
    for group in ALTERNATIVES:
        if path in group and value is not None:
            for other in group - {path}:
                document = without(document, other.split("."))
    if path not in FREE:
        document = without(document, ["paper"])  # no longer the published experiment
    parts = path.split(".")
    if value is None:
        return without(document, parts)
    changed = _with(document, parts, value)
    if _leaf(path) in KINDS:
        section = path.rpartition(".")[0]
        for key in _keys_at(document, section) - _keys_at(changed, section):
            changed = without(changed, [*section.split("."), key])
    return changed


def _check_key(document: Document, path: str) -> None:
    """Rejects one group's number where one number holds for all groups, which it would remove."""
    *parts, key = path.split(".")
    inside: Any = document
    for part in parts:
        inside = inside.get(part, {}) if isinstance(inside, dict) else inside
    if not isinstance(inside, dict | None):
        table = ".".join(parts)
        raise BadInput(
            f"{path} given, but {table} = {shown(inside)} holds for all groups; give a table: "
            f"{table}={{{key} = ...}}"
        )


def _leaf(path: str) -> str:
    return path.strip().rpartition(".")[2]


def _keys_at(document: Document, section: str) -> set[str]:
    found = schema.section_at(Experiment, document, section)
    return schema.keys(found) if found else set()


def takes_data(document: Document) -> bool:
    """Whether the task reads files, from the folder `task.path`."""
    return "task.path" in schema.paths(Experiment, document)


def with_reading(document: Document, name: str) -> Document:
    """The document under another reading of the paper, or as it is if it has no such reading."""
    readings = document.get("readings", {})
    if name not in ("reproducing", "literal", *readings):
        raise BadInput(f"reading {name!r}; {did_you_mean(name, ('reproducing', 'literal'))}")
    for path, value in readings.get(name, {}).items():
        document = _with(document, path.split("."), value)
    return document


def full_path(document: Document, name: str) -> str:
    """The dotted path that a name stands for, such as schedule.goal for goal."""
    paths = list(schema.paths(Experiment, document))
    if name in paths:
        return name
    matches = [path for path in paths if path.endswith(f".{name}")]
    table, dot, key = name.rpartition(".")  # a key of a table, such as check_in.straggler
    matches += [
        f"{path}.{key}"
        for path in schema.tables(Experiment, document)
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
    if dot:  # perhaps a key of a table whose name is mistyped
        leaves |= {f"{_leaf(path)}.{key}" for path in schema.tables(Experiment, document)}
    raise BadInput(f"unknown setting {name!r}; {did_you_mean(name, {*paths, *leaves})}")


def _with(document: Document, path: list[str], value: Any) -> Document:
    head, *rest = path
    inside = document.get(head)
    return {
        **document,
        head: _with(inside if isinstance(inside, dict) else {}, rest, value) if rest else value,
    }


def without(document: Document, path: Sequence[str]) -> Document:
    """The document without the value or table at a path, if there is one."""
    head, *rest = path
    if head not in document:
        return document
    if rest:
        return {**document, head: without(document[head], rest)}
    return {key: value for key, value in document.items() if key != head}
