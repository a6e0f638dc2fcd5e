"""TOML as text: Python reads it (tomllib) but does not write it.

Keys with plain values come first, then a [section] for each table. Tables inside lists are inline,
and so are those more than three deep: `overhead = { kind = ... }` of [latency.groups.standard].
"""

import json
import re
import tomllib
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any

from stragglers._core.errors import BadInput, shown

DEEPEST = 20  # tables and lists inside each other
SECTIONS = 3  # names of a [section] at most
LONGEST = 2**14  # characters that a person writes: ten times our longest preset


def read(source: Path, name: str, longest: float = LONGEST) -> dict[str, Any]:
    """The document in a file; a mistake in it is a line with the line that it is in."""
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{name}: cannot be read ({error.strerror})") from None
    except ValueError as error:  # of UTF-8, or a null byte in the path
        raise BadInput(f"{name}: not valid TOML ({error})") from None
    if len(text) > longest:  # tomllib is slow: a list of 10,000 numbers takes it 60 ms
        line = shown(max(text.split("\n"), key=len))
        raise BadInput(
            f"{name}: {len(text):,} characters given, expected at most {longest:,}; shorten it"
            f" (its longest line is {line})"
        )
    try:
        return loads(text)
    except ValueError as error:
        raise BadInput(f"{name}: not valid TOML ({error}{_line(text, str(error))})") from None


def _line(text: str, message: str) -> str:
    """The line that tomllib speaks of, since it names no key."""
    where = re.search(r"\(at (?:line (\d+)|end of document)", message)
    if not where:
        return ""
    return f": {shown(text.rstrip().split(chr(10))[int(where[1] or 0) - 1])}"


def loads(text: str) -> dict[str, Any]:
    """A ValueError says what is wrong, also where tomllib would give up otherwise."""
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's limit, of thousands
        raise ValueError("a number of too many digits") from None
    _check(document, ())
    return document


def _check(value: Any, path: tuple[str, ...]) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{'.'.join(path)}: TOML's whole numbers have 64 bits")
    inside = dict(enumerate(value)) if isinstance(value, list) else value
    if isinstance(inside, dict):
        if len(path) > DEEPEST:
            raise ValueError(f"{'.'.join(path[:3])}: nested too deeply")
        for key, part in inside.items():
            _check(part, (*path, str(key)))


def dumps(document: dict[str, Any]) -> str:
    """Reads back as the same document; None, which TOML lacks, is left out."""
    return "\n".join(_lines(document, ())).lstrip("\n") + "\n"


def _lines(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    sections = tables if len(path) < SECTIONS else {}
    for key, value in table.items():
        if key not in sections and value is not None:
            yield f"{_key(key)} = {inline(value)}"
    for key, inside in sections.items():
        values = len(path) + 1 == SECTIONS or not all(isinstance(v, dict) for v in inside.values())
        if values or not inside:
            yield from ("", f"[{'.'.join(map(_key, (*path, key)))}]")
        yield from _lines(inside, (*path, key))


def inline(value: Any) -> str:
    """A value in one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
        case int() | float():
            return repr(value)
        case date() | time():
            return value.isoformat()
        case dict():
            inside = (f"{_key(k)} = {inline(v)}" for k, v in value.items() if v is not None)
            return f"{{ {', '.join(inside)} }}" if value else "{}"
        case list() | tuple():
            return f"[{', '.join(map(inline, value))}]"
        case _:
            raise TypeError(f"{value!r} has no place in TOML")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(text: str) -> str:
    # JSON's strings are TOML's but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
