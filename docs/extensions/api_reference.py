"""The reference of the public API: every name of `stragglers`, with its docstring."""

import inspect
import types
from itertools import groupby

import stragglers

INTRODUCTION = """# Python API

Every public name of the package, imported as `import stragglers as st`. A name is loaded when it is
first used; planning loads neither jax nor matplotlib. Names that are not on this page may change.
"""
TITLES = {
    "planning": "Planning",
    "algorithms": "Algorithms",
    "tasks": "Tasks",
    "simulator": "Simulation",
    "config": "Experiments",
    "runs": "Runs",
    "report": "Results",
    "serving": "Serving",
    "_core": "Errors and version",
}


def page() -> str:
    homes: dict[str, str] = vars(stragglers)["HOMES"]

    def package(name: str) -> str:
        return homes[name].split(".")[1]

    names = sorted(homes, key=lambda name: list(TITLES).index(package(name)))
    parts = [INTRODUCTION]
    for home, members in groupby(names, key=package):
        parts += [f"## {TITLES[home]}", "", *(directive(name) for name in members)]
    return "\n".join(parts)


def directive(name: str) -> str:
    """How autodoc is told of a name; a module is its public functions and classes."""
    found = getattr(stragglers, name)
    if isinstance(found, types.ModuleType):
        own = [key for key, value in vars(found).items() if is_public(key, value, found)]
        lines = [
            line for key in own for line in autodoc(f"{found.__name__}.{key}", vars(found)[key])
        ]
    else:
        lines = autodoc(f"stragglers.{name}", found)
    return "\n".join(["```{eval-rst}", *lines, "```", ""])


def is_public(name: str, value: object, home: types.ModuleType) -> bool:
    return not name.startswith("_") and getattr(value, "__module__", "") == home.__name__


def autodoc(path: str, found: object) -> list[str]:
    if inspect.isclass(found):
        return [f".. autoclass:: {path}", "   :members:"]
    return [f".. {'autofunction' if callable(found) else 'autodata'}:: {path}"]
