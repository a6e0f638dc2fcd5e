"""TOML as text: Python reads it (tomllib) but does not write it.

Keys with plain values come first, then a [section] for each table. Tables inside lists are inline.
"""

import json
import re
from collections.abc import Iterator
from typing import Any


def dumps(document: dict[str, Any]) -> str:
    """Reads back as the same document; None, which TOML lacks, is left out."""
    return "\n".join(_lines(document, ())).lstrip("\n") + "\n"


def _lines(table: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    sections = {key: value for key, value in table.items() if isinstance(value, dict)}
    for key, value in table.items():
        if key not in sections and value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, inside in sections.items():
        if not inside or not all(isinstance(value, dict) for value in inside.values()):
            yield from ("", f"[{'.'.join(map(_key, (*path, key)))}]")
        yield from _lines(inside, (*path, key))


def _value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
        case int() | float():
            return repr(value)
        case dict():
            inside = (f"{_key(k)} = {_value(v)}" for k, v in value.items() if v is not None)
            return f"{{ {', '.join(inside)} }}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            raise TypeError(f"{value!r} has no place in TOML")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(text: str) -> str:
    # JSON's strings are TOML's but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
