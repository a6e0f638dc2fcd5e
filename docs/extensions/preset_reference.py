"""The reference of the presets, read off their files."""

from itertools import groupby
from typing import Any

from stragglers._core import toml_files
from stragglers.config import catalog

INTRODUCTION = """# Presets

A preset is a TOML file that comes with the package. Name it, or the beginning of several names, on
the command line: `stragglers run emnist/per-domain`. `stragglers list` prints a shorter list.
Published rows have the name of the paper's row and its results. [Settings](settings.md) explains
the keys.
"""


def page() -> str:
    names = catalog.presets()
    parts = [INTRODUCTION]
    for folder, members in groupby(names, key=lambda name: name.rpartition("/")[0]):
        parts.append(_table(folder, list(members)))
    return "\n".join(parts)


def _table(folder: str, names: list[str]) -> str:
    flat = {name: flattened(catalog.read(name)) for name in names}
    first, *others = flat.values()
    common = {
        key: value
        for key, value in first.items()
        if len(flat) > 1 and all(other.get(key) == value for other in others)
    }
    lines = [f"## {f'`{folder}`' if folder else 'Fleets without a task'}", ""]
    if common:
        lines += [f"All have {_assignments(common)}.", ""]
    lines += ["| preset | published row | settings |", "| --- | --- | --- |"]
    for name in names:
        row = catalog.read(name).get("paper", {}).get("row", "")
        own = {key: value for key, value in flat[name].items() if key not in common}
        lines.append(f"| `{name.rpartition('/')[2]}` | {row} | {_assignments(own)} |")
    return "\n".join([*lines, ""])


def flattened(document: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by their keys, without the published results and other readings."""
    flat: dict[str, Any] = {}
    for key, value in document.items():
        if not prefix and key in ("paper", "readings"):
            continue
        path = f"{prefix}{key}"
        if isinstance(value, dict) and "kind" not in value:
            flat |= flattened(value, f"{path}.")
        else:
            flat[path] = value
    return flat


def _assignments(settings: dict[str, Any]) -> str:
    return ", ".join(
        f"`{key} = {toml_files.inline(value)}`".replace("|", "\\|")
        for key, value in settings.items()
    )
