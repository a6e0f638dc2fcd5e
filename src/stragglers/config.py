"""From TOML to settings. One file is one experiment; presets are the paper's rows.

    document = read("emnist/per-domain/feast")      a plain dict
    document = override(document, "goal=40")        `--set`; bare names find their section
    experiment = experiment_from(document)          checked; unknown keys are errors

Every mistake is one line with the key, what was given and what is allowed.
"""

import math
import tomllib
import types
import typing
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stragglers.errors import BadInput, did_you_mean
from stragglers.settings import Experiment

# Settings of which one replaces another: giving one with `--set` takes the other away.
ALTERNATIVES = [
    {"schedule.cohort", "schedule.over_selection"},
    {"schedule.late_seconds", "schedule.late_rounds"},
    {"schedule.time_limit.seconds", "schedule.time_limit.percentile"},
    {"task.csv", "task.groups"},
]


def presets() -> list[str]:
    """The names of all presets, such as emnist/per-domain/feast."""
    root = resources.files("stragglers") / "presets"
    return sorted(_names(root, ""))


def _names(folder: Any, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml")


def read(name: str) -> dict[str, Any]:
    """The document of a preset, or of a TOML file given by its path."""
    if name.endswith(".toml"):
        source: Any = Path(name)
    elif name in (known := presets()):
        source = resources.files("stragglers") / "presets" / f"{name}.toml"
    else:
        raise BadInput(f"no preset {name!r}; {did_you_mean(name, known)}")
    try:
        document = tomllib.loads(source.read_text(encoding="utf-8"))
        return _beside(document, source.parent) if isinstance(source, Path) else document
    except OSError as error:
        raise BadInput(f"{name}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{name}: not valid TOML ({error})") from None


def _beside(document: Any, folder: Path) -> Any:
    """Files that a document names lie beside it, unless their path is absolute."""
    if not isinstance(document, dict):
        return document
    return {
        key: str(folder / value)
        if key in ("csv", "file", "path") and isinstance(value, str)
        else _beside(value, folder)
        for key, value in document.items()
    }


def override(document: dict[str, Any], assignment: str) -> dict[str, Any]:
    """The document with `path.to.key=value` set; a bare `key` finds its section."""
    name, equals, text = assignment.partition("=")
    if not equals or not name.strip():
        raise BadInput(f"{assignment!r} given, expected key=value")
    path = full_path(document, name.strip())
    for group in ALTERNATIVES:
        if path in group:
            for other in group - {path}:
                document = _without(document, other.split("."))
    if path not in ("seed", "task.path"):
        document = _without(document, ["paper"])  # another experiment than the published one
    return _with(document, path.split("."), value_of(text.strip()))


def takes_data(document: dict[str, Any]) -> bool:
    """Whether the document's task reads files, which task.path names."""
    return "task.path" in _paths(Experiment, document)


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
    paths = list(_paths(Experiment, document))
    if name in paths:
        return name
    matches = [path for path in paths if path.rsplit(".", 1)[-1] == name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise BadInput(f"{name!r} could be any of {', '.join(matches)}; give the whole path")
    leaves = {path.rsplit(".", 1)[-1] for path in paths}
    raise BadInput(f"unknown setting {name!r}; {did_you_mean(name, {*paths, *leaves})}")


def experiment_from(document: dict[str, Any]) -> Experiment:
    """Checks a document; the first mistake is raised as one line."""
    _check(Experiment, document, "")
    try:
        return msgspec.convert(document, Experiment)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        key = where.strip("`").lstrip(".") or "settings"
        given = _lookup(document, key)
        raise BadInput(f"{key}: {what.replace('`', '')}{given}") from None


def _converted(cls: type[Struct], document: dict[str, Any], path: str) -> None:
    """Checks one section by itself, so that its group is named where msgspec would say [...]."""
    try:
        msgspec.convert(document, cls)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        key = path + where.strip("`")
        given = _lookup(document, where.strip("`").lstrip(".")) if where else ""
        raise BadInput(f"{key}: {what.replace('`', '')}{given}") from None


def _check(cls: type[Struct], document: Any, path: str) -> None:
    """Raises on unknown keys, unknown kinds and NaN, which msgspec would say less helpfully."""
    if not isinstance(document, dict):
        return
    fields = {field.name: field for field in msgspec.structs.fields(cls)}
    allowed = {*fields, *_tag_fields(cls)}
    for key, value in document.items():
        if key not in allowed:
            raise BadInput(f"unknown key {path + key!r}; {did_you_mean(key, allowed)}")
        if isinstance(value, float) and math.isnan(value):
            raise BadInput(f"{path + key}: nan given, expected a number")
        if key not in fields:
            continue
        for section, inside, where in _sections(fields[key].type, value, path + key):
            _check(section, inside, where + ".")
            _converted(section, inside, where)


def _sections(
    annotation: Any, value: Any, path: str
) -> Iterator[tuple[type[Struct], dict[str, Any], str]]:
    """The Structs that a value is to become: itself, or each value of a table of them."""
    options = _options(annotation)
    structs = [option for option in options if _is_struct(option)]
    if structs and isinstance(value, dict):
        yield _choose(structs, value, path), value, path
    for option in options:
        if typing.get_origin(option) is dict and isinstance(value, dict):
            for key, inside in value.items():
                yield from _sections(typing.get_args(option)[1], inside, f"{path}.{key}")


def _choose(structs: list[type[Struct]], value: dict[str, Any], path: str) -> type[Struct]:
    """The member of a tagged union that a table names."""
    tags = {struct.__struct_config__.tag: struct for struct in structs}
    tag_field = structs[0].__struct_config__.tag_field
    if tag_field is None:
        return structs[0]
    tag = value.get(tag_field)
    if tag is None:
        raise BadInput(
            f"{path}.{tag_field} is missing; expected one of: {', '.join(map(str, tags))}"
        )
    if not isinstance(tag, str) or tag not in tags:
        raise BadInput(
            f"{path}.{tag_field}: {tag!r} given; {did_you_mean(str(tag), map(str, tags))}"
        )
    return tags[tag]


def _paths(cls: type[Struct], document: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Every settable path of the sections that a document has, or may have without a kind."""
    yield from (prefix + tag for tag in _tag_fields(cls))
    for field in msgspec.structs.fields(cls):
        path = prefix + field.name
        structs = [option for option in _options(field.type) if _is_struct(option)]
        sections = list(
            _sections(field.type, document.get(field.name, {} if len(structs) == 1 else None), path)
        )
        if not sections:
            yield path
        for section, inside, where in sections:
            yield from _paths(section, inside, where + ".")


def _options(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [o for member in typing.get_args(annotation) for o in _options(member)]
    return [annotation]


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def _tag_fields(cls: type[Struct]) -> list[str]:
    field = cls.__struct_config__.tag_field
    return [field] if field else []


def value_of(text: str) -> Any:
    """A TOML value; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _with(document: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    head, *rest = path
    inside = document.get(head)
    return {
        **document,
        head: _with(inside if isinstance(inside, dict) else {}, rest, value) if rest else value,
    }


def _without(document: dict[str, Any], path: list[str]) -> dict[str, Any]:
    head, *rest = path
    if head not in document:
        return document
    if rest:
        return {**document, head: _without(document[head], rest)}
    return {key: value for key, value in document.items() if key != head}


def _lookup(document: Any, path: str) -> str:
    for key in path.split("."):
        if not isinstance(document, dict) or key not in document:
            return ""
        document = document[key]
    return f" ({document!r} given)"
