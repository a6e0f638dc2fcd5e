"""Changes of a document's settings, by the schema that the document must fulfil.

A bare name finds its section; settings that exclude each other replace each other; with a new kind
of section, the settings that the new kind does not have are removed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from stragglers._core import schema
from stragglers._core.errors import BadInput, did_you_mean, shown

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


def with_settings(
    cls: type[Struct], document: Document, settings: Iterable[tuple[str, Any]]
) -> Document:
    """The document with all of these set; kinds come first, since they decide what else exists."""
    for name, value in sorted(settings, key=lambda setting: _leaf(setting[0]) not in KINDS):
        document = with_setting(cls, document, name, value)
    return document


def with_setting(cls: type[Struct], document: Document, name: str, value: Any) -> Document:
    """The document with one setting changed; None removes it, so that its default holds.

    With a new kind of section, the settings that the new kind does not have are removed.
    """
    path = full_path(cls, document, name)
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
    changed = with_value(document, parts, value)
    if _leaf(path) in KINDS:
        section = path.rpartition(".")[0]
        for key in _keys_at(cls, document, section) - _keys_at(cls, changed, section):
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


def _keys_at(cls: type[Struct], document: Document, section: str) -> set[str]:
    found = schema.section_at(cls, document, section)
    return schema.keys(found) if found else set()


def full_path(cls: type[Struct], document: Document, name: str) -> str:
    """The dotted path that a name stands for, such as schedule.goal for goal."""
    paths = list(schema.paths(cls, document))
    if name in paths:
        return name
    matches = [path for path in paths if path.endswith(f".{name}")]
    table, dot, key = name.rpartition(".")  # a key of a table, such as check_in.straggler
    matches += [
        f"{path}.{key}"
        for path in schema.tables(cls, document)
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
        leaves |= {f"{_leaf(path)}.{key}" for path in schema.tables(cls, document)}
    raise BadInput(f"unknown setting {name!r}; {did_you_mean(name, {*paths, *leaves})}")


def with_value(document: Document, path: Sequence[str], value: Any) -> Document:
    """The document with a value at a path, in tables that are made where there are none."""
    head, *rest = path
    if not rest:
        return {**document, head: value}
    inside = document.get(head)
    return {**document, head: with_value(inside if isinstance(inside, dict) else {}, rest, value)}


def without(document: Document, path: Sequence[str]) -> Document:
    """The document without the value or table at a path, if there is one."""
    head, *rest = path
    if head not in document:
        return document
    if rest:
        return {**document, head: without(document[head], rest)}
    return {key: value for key, value in document.items() if key != head}
