"""The reference of the settings, read off the schema: nothing here is typed twice.

Type, range and default of a setting come from its annotation, its meaning from the `#:` comment
beside the field, and its unit from the brackets at the beginning of that comment:

    late_seconds: Annotated[float, Meta(ge=0)] | None = None  #: [s] How long late reports count.
"""

import ast
import inspect
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.inspect import (
    BoolType,
    CustomType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
)

from stragglers.config.settings import Experiment

ENDLESS = 1e300  # a bound that only keeps infinity out
UNIT = re.compile(r"\[([^\]]+)\]\s*")


class Setting(NamedTuple):
    key: str  # its path in a file, such as schedule.goal
    name: str  # the same, unique: other kinds of a section may have a setting of this key
    type: str
    range: str
    unit: str
    default: str
    meaning: str


class Section(NamedTuple):
    title: str
    prefixes: list[str]  # where it stands in a file; distributions stand in several places
    home: type  # the class that it is read into
    settings: list[Setting]


def sections() -> list[Section]:
    """Every section of an experiment, in the order of the schema."""
    places: dict[type, list[str]] = {}
    for struct, prefix in _walk(msgspec.inspect.type_info(Experiment), ""):
        places.setdefault(struct.cls, [])
        if prefix not in places[struct.cls]:
            places[struct.cls].append(prefix)
    taken: set[str] = set()
    return [_section(cls, prefixes, taken) for cls, prefixes in places.items()]


def _walk(info: Type, prefix: str) -> Iterator[tuple[StructType, str]]:
    """All structs that a type consists of, each with its place in a file."""
    match info:
        case StructType():
            yield info, prefix
            for field in info.fields:
                yield from _walk(field.type, f"{prefix}.{field.encode_name}".strip("."))
        case UnionType():
            for each in info.types:
                yield from _walk(each, prefix)
        case DictType():
            yield from _walk(info.value_type, f"{prefix}.<name>")


def _section(cls: type, prefixes: list[str], taken: set[str]) -> Section:
    info = msgspec.inspect.type_info(cls)
    assert isinstance(info, StructType)
    known = meanings(cls)
    settings = []
    for field in info.fields:
        tag = tag_field(field.type)  # of a section of several kinds, its setting is the kind
        key = f"{field.encode_name}.{tag}" if tag else field.encode_name
        path = f"{prefixes[0]}.{key}".strip(".") if len(prefixes) == 1 else key
        kind = info.tag if info.tag is not None else cls.__name__
        name = path if len(prefixes) == 1 and path not in taken else f"{path} [{kind}]"
        taken.add(name)
        text = known.get(field.name, "")
        unit = UNIT.match(text)
        settings.append(
            Setting(
                path,
                name,
                type_words(field.type),
                range_words(field.type),
                unit[1] if unit else "",
                default_words(field),
                UNIT.sub("", text, count=1) if unit else text,
            )
        )
    return Section(_title(info, prefixes), prefixes, info.cls, settings)


def _title(info: StructType, prefixes: list[str]) -> str:
    if not prefixes[0]:
        return "Top level"
    if info.tag is not None:
        where = prefixes[0] if len(prefixes) == 1 else "…"
        return f'`{where}`: `{info.tag_field} = "{info.tag}"`'
    return f"`{prefixes[0]}`"


# Meanings, which stand beside the fields.


def meanings(cls: type) -> dict[str, str]:
    """The `#:` comments of a class and of those that it inherits fields from."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("stragglers."):
            found |= _comments(Path(inspect.getsourcefile(base) or "")).get(base.__qualname__, {})
    return found


@cache
def _comments(file: Path) -> dict[str, dict[str, str]]:
    """By class and field: a comment on the field's line, or the block of comments before it."""
    source = file.read_text(encoding="utf-8")
    lines = {
        token.start[0]: token.string.removeprefix("#:").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and token.string.startswith("#:")
    }

    alone = {line for line in lines if source.splitlines()[line - 1].lstrip().startswith("#:")}
    found: dict[str, dict[str, str]] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        for field in node.body:
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            before, line = [], field.lineno - 1
            while line in alone:
                before.insert(0, lines[line])
                line -= 1
            beside = [lines[field.end_lineno]] if field.end_lineno in lines else []
            if before or beside:
                found.setdefault(node.name, {})[field.target.id] = " ".join([*before, *beside])
    return found


# Types, ranges and defaults in words.


def type_words(info: Type) -> str:
    match info:
        case IntType():
            return "whole number"
        case FloatType():
            return "number"
        case BoolType():
            return "`true` or `false`"
        case StrType():
            return "text"
        case LiteralType():
            return " or ".join(f'`"{value}"`' for value in info.values)
        case VarTupleType() | ListType():
            return f"list of {_plural(type_words(info.item_type))}"
        case DictType():
            return f"table of {_plural(type_words(info.value_type))} by name"
        case StructType():
            return "section"
        case UnionType():
            others = [each for each in info.types if not isinstance(each, NoneType)]
            if tag_field(info):
                kinds = [each.tag for each in others if isinstance(each, StructType)]
                return " or ".join(f'`"{kind}"`' for kind in kinds)
            return " or ".join(type_words(each) for each in others)
        case CustomType():
            return info.cls.__name__
    return "any value"


def tag_field(info: Type) -> str | None:
    """The key that says which kind a section is; None where there is one kind."""
    structs = [each for each in getattr(info, "types", [info]) if isinstance(each, StructType)]
    return structs[0].tag_field if structs else None


def _plural(words: str) -> str:
    plurals = {
        "whole number": "whole numbers",
        "number": "numbers",
        "text": "texts",
        "section": "sections",
        "any value": "values",
    }
    return plurals.get(words, words)


def range_words(info: Type) -> str:
    """The bounds of a number, or of the numbers of a list or table."""
    match info:
        case IntType() | FloatType():
            return _bounds(info)
        case VarTupleType() | ListType():
            return range_words(info.item_type)
        case DictType():
            return range_words(info.value_type)
        case UnionType():
            return next(filter(None, map(range_words, info.types)), "")
    return ""


def _bounds(info: IntType | FloatType) -> str:
    least = info.ge if info.ge is not None else info.gt
    most = info.le if info.le is not None else info.lt
    most = None if most is not None and most >= ENDLESS else most
    if least is not None and most is not None:
        if info.gt is not None or (info.lt is not None and info.le is None):
            low = f"above {_number(least)}" if info.gt is not None else f"from {_number(least)}"
            return f"{low}, {'below' if info.lt is not None else 'up to'} {_number(most)}"
        return f"{_number(least)} to {_number(most)}"
    if least is not None:
        return f"above {_number(least)}" if info.gt is not None else f"{_number(least)} or more"
    return f"up to {_number(most)}" if most is not None else ""


def _number(value: float) -> str:
    if value == 2**63 - 1:
        return "2⁶³ − 1"
    return f"{value:,}" if isinstance(value, int) or abs(value) < 1e6 else f"{value:,.0f}"


def default_words(field: msgspec.inspect.Field) -> str:
    if field.required:
        return "required"
    value = field.default
    if value is msgspec.NODEFAULT:
        value = field.default_factory()
    if value is None:
        return "not set"
    if isinstance(value, msgspec.Struct) or value == {}:
        return "empty"
    if isinstance(value, tuple | list):
        return f"`[{', '.join(_literal(each) for each in value)}]`"
    return f"`{_literal(value)}`"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else f"{value}"


# The page.

INTRODUCTION = """# Settings

Every key of an experiment's TOML file. `--set KEY=VALUE` and `--sweep KEY=V1,V2` change the same
keys; the end of a key is enough where it is unambiguous (`goal` for `schedule.goal`). A section
with a `kind`, `model`, `name` or `optimizer` has the settings of that kind alone. `<name>` stands
for a group of clients. Unknown keys and values out of range are errors.

This page is generated from the schema that files are read into, so it lists every setting there is.
"""


def page() -> str:
    return "\n".join([INTRODUCTION, *(_written(section) for section in sections())])


SECTIONS = re.compile(r"\n(?:Args|Attributes|Example|Raises|Returns):\n.*", re.DOTALL)
EQUATION = re.compile(r"::\n\n((?: {4}.*\n?)+)")


def _description(doc: str) -> str:
    """A docstring without its sections; an equation, a literal block there, is one here."""
    doc = SECTIONS.sub("", doc).strip()
    return EQUATION.sub(lambda found: f":\n\n```text\n{inspect.cleandoc(found[1])}\n```\n", doc)


def _written(section: Section) -> str:
    lines = [f"## {section.title}", ""]
    doc = inspect.getdoc(section.home) or ""
    if doc and section.home.__doc__ != section.home.__base__.__doc__:
        lines += [_description(doc), ""]
    if len(section.prefixes) > 1:
        lines += [f"Stands in {', '.join(f'`{prefix}`' for prefix in section.prefixes)}.", ""]
    lines += [f"Read into `{section.home.__module__}.{section.home.__qualname__}`.", ""]
    if not section.settings:
        lines += ["No further settings.", ""]
    for one in section.settings:
        facts = [one.type, one.range, one.unit, one.default if one.default == "required" else ""]
        if one.default != "required":
            facts.append(f"default {one.default}" if one.default != "not set" else "not set")
        lines += [
            f"```{{setting}} {one.name}",
            "[" + "]{.fact} [".join(filter(None, facts)) + "]{.fact}",
            "",
            one.meaning,
            "```",
            "",
        ]
    return "\n".join(lines)
