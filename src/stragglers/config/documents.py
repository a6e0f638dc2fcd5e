"""Documents, which are experiments as TOML has them, and changes of their settings.

    document = override(document, "goal=40")         `--set`; a bare name finds its section
    document = with_setting(document, "goal", 40)    the same with a Python value
    settings = settings_from(document)               checked; unknown keys are errors
    document = settings.document                     every default written out

Every mistake is one line that names the key, what was given and what is allowed.
"""

import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from stragglers._core import schema, toml_files
from stragglers._core.errors import BadInput, did_you_mean
from stragglers.config import overrides
from stragglers.config.overrides import Document, with_value
from stragglers.config.settings import Experiment

BARE_FRACTION = re.compile(r"[+-]?\.\d+(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)  # not TOML
EXACT = 2.0**53  # floats below it are exact whole numbers

with_setting = partial(overrides.with_setting, Experiment)
with_settings = partial(overrides.with_settings, Experiment)
full_path = partial(overrides.full_path, Experiment)


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


def flat(document: Mapping[str, Any], prefix: str = "") -> Document:
    """Every setting by its path, such as schedule.goal."""
    found = {}
    for key, value in document.items():
        path = f"{prefix}{key}"
        found |= flat(value, f"{path}.") if isinstance(value, Mapping) else {path: value}
    return found


def takes_data(document: Document) -> bool:
    """Whether the task reads files, from the folder `task.path`."""
    return "task.path" in schema.paths(Experiment, document)


def with_data(document: Document, folder: str | None) -> Document:
    """The document with the folder of its task's data: given, its own, or of the environment."""
    if not takes_data(document):
        return document
    folder = folder or document["task"].get("path") or os.environ.get("STRAGGLERS_DATA")
    return with_setting(document, "task.path", folder) if folder else document


def with_reading(document: Document, name: str) -> Document:
    """The document under another reading of the paper, or as it is if it has no such reading."""
    readings = document.get("readings", {})
    if name not in ("reproducing", "literal", *readings):
        raise BadInput(f"reading {name!r}; {did_you_mean(name, ('reproducing', 'literal'))}")
    for path, value in readings.get(name, {}).items():
        document = with_value(document, path.split("."), value)
    return document
