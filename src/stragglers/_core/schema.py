"""Settings as closed structs, and documents checked against them.

A document is what a TOML file holds. The first mistake in one is raised as a line that names its
place and a remedy. msgspec checks types and bounds; unknown keys, unknown kinds, words outside a
list and NaN are checked here first, because msgspec says less about them.
"""

import math
import re
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
from msgspec import Meta, Struct

from stragglers._core.errors import BadInput, did_you_mean, shown

Count = Annotated[int, Meta(ge=1, le=10**8)]
Positive = Annotated[float, Meta(gt=0, le=1e300)]  # infinity has no use either
NotNegative = Annotated[float, Meta(ge=0, le=1e300)]
Share = Annotated[float, Meta(ge=0, le=1)]


class Settings(Struct, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """A section of an experiment: immutable, and an unknown key is an error."""

    def replace(self, **changes: Any) -> Self:
        """The same section with other values.

        Raises:
            BadInput: If there is no such field, or a value has a wrong type or is out of range.
        """
        for name in changes.keys() - {*self.__struct_fields__}:
            raise BadInput(f"unknown key {shown(name)}; {did_you_mean(name, keys(type(self)))}")
        return checked(msgspec.structs.replace(self, **changes))


T = TypeVar("T", bound=Struct)
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a table of keys",
    "array": "a list",
    ">=": "of at least",
    ">": "above",
    "<=": "of at most",
    "<": "below",
}


def convert(cls: type[T], document: Any, path: str = "") -> T:
    """The Struct of a document, sections inside first, so that each is named by its path."""
    if isinstance(document, dict):
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(cls)}
        for key, value in document.items():
            where = f"{path}.{key}" if path else key
            if key not in keys(cls):
                raise BadInput(f"unknown key {shown(where)}; {did_you_mean(key, keys(cls))}")
            annotation = fields.get(key, str)  # of a kind, which is no field
            _check_word(annotation, value, where)
            _check_number(value, where)
            _check_table(annotation, value, where)
            for section, inside, place in _sections(annotation, value, where):
                convert(section, inside, place)
    try:
        return msgspec.convert(document, cls)
    except msgspec.ValidationError as error:
        raise BadInput(_in_words(str(error), document, path)) from None


def checked(given: T) -> T:
    """The same Struct, refused like a document if a field has a wrong type or value.

    msgspec checks what it decodes, and nothing that Python code constructs.
    """
    return convert(type(given), msgspec.to_builtins(given, str_keys=True))


def keys(cls: type[Struct]) -> set[str]:
    return {*cls.__struct_encode_fields__, *_tag_fields(cls)}


def paths(cls: type[Struct], document: dict[str, Any]) -> Iterator[str]:
    """Every settable path of the sections that a document has, or may have without a kind."""
    return (path for path, _ in _leaves(cls, document, ""))


def tables(cls: type[Struct], document: dict[str, Any]) -> Iterator[str]:
    """Those of them that are, or may be, tables whose keys are anybody's."""
    for path, annotation in _leaves(cls, document, ""):
        if any(typing.get_origin(option) is dict for option in _options(annotation)):
            yield path


def _leaves(cls: type[Struct], document: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    yield from ((prefix + tag, str) for tag in _tag_fields(cls))
    for field in msgspec.structs.fields(cls):
        path = prefix + field.encode_name
        structs = [option for option in _options(field.type) if _is_struct(option)]
        value = document.get(field.encode_name, {} if len(structs) == 1 else None)
        sections = list(_sections(field.type, value, path))
        if not sections:
            yield path, field.type
            kinds = {tag for option in structs for tag in _tag_fields(option)}
            yield from ((f"{path}.{kind}", str) for kind in sorted(kinds))  # with which it begins
        for section, inside, where in sections:
            yield from _leaves(section, inside, where + ".")


def section_at(cls: type[Struct], document: dict[str, Any], path: str) -> type[Struct] | None:
    """The Struct that the table at a path is to become."""
    for field in msgspec.structs.fields(cls):
        name = field.encode_name
        for section, inside, where in _sections(field.type, document.get(name), name):
            if where == path:
                return section
            if path.startswith(f"{where}."):
                return section_at(section, inside, path.removeprefix(f"{where}."))
    return None


def _check_word(annotation: Any, value: Any, path: str) -> None:
    for option in _options(annotation):
        if typing.get_origin(option) is Literal and value not in typing.get_args(option):
            words = map(str, typing.get_args(option))
            given = value if isinstance(value, str) else ""
            raise BadInput(f"{path}: {shown(value)} given; {did_you_mean(given, words)}")


def _check_number(value: Any, path: str) -> None:
    if isinstance(value, float) and math.isnan(value):
        raise BadInput(f"{path}: nan given, expected a number")


def _check_table(annotation: Any, value: Any, path: str) -> None:
    """A table whose keys are anybody's, value by value: msgspec would not say which."""
    for option in _options(annotation):
        if typing.get_origin(option) is dict and isinstance(value, dict):
            inside = typing.get_args(option)[1]
            for key in value if not any(map(_is_struct, _options(inside))) else ():
                _check_number(value[key], f"{path}.{key}")
                try:
                    msgspec.convert(value[key], inside)
                except msgspec.ValidationError as error:
                    raise BadInput(_in_words(f"{error} - at `$.{key}`", value, path)) from None


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
        known = {key for struct in structs for key in keys(struct)}
        for key in value:
            if key not in known:  # perhaps the kind, mistyped
                raise BadInput(f"unknown key {shown(f'{path}.{key}')}; {did_you_mean(key, known)}")
        raise BadInput(
            f"{path}.{tag_field} is missing; expected one of: {', '.join(map(str, tags))}"
        )
    if not isinstance(tag, str) or tag not in tags:
        given = tag if isinstance(tag, str) else ""
        raise BadInput(
            f"{path}.{tag_field}: {shown(tag)} given; {did_you_mean(given, map(str, tags))}"
        )
    return tags[tag]


def _in_words(message: str, document: Any, path: str) -> str:
    """What msgspec says of a section, as we would."""
    what, _, where = message.partition(" - at `$")
    where = where.strip("`").lstrip(".")
    place = ".".join(filter(None, [path, where]))
    if missing := re.fullmatch(r"Object missing required field `(.+)`", what):
        return f"{'.'.join(filter(None, [place, missing[1]]))} is missing; give it"
    given = f"{_lookup(document, where)} given, " if where else ""
    expected = re.fullmatch(r"Expected `([^`]+)`(?: ([<>]=?) (\S+?))?(?:, got .*)?", what)
    if not expected:
        return f"{place}: {given}{what.replace('`', '')}"
    kinds = [WORDS.get(kind, kind) for kind in expected[1].split(" | ") if kind != "null"]
    bound = f" {WORDS[expected[2]]} {float(expected[3]):.12g}" if expected[2] else ""
    return f"{place or 'the document'}: {given}expected {' or '.join(kinds)}{bound}"


def _lookup(document: Any, path: str) -> str:
    for key in path.split("."):
        if not isinstance(document, dict) or key not in document:
            return "something else"
        document = document[key]
    return shown(document)


def _options(annotation: Any) -> list[Any]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [o for member in typing.get_args(annotation) for o in _options(member)]
    return [annotation]


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def _tag_fields(cls: type[Struct]) -> list[str]:
    field = cls.__struct_config__.tag_field
    return [field] if field else []
