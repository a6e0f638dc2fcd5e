"""Python files of the user's own: what they are made of, and functions from them.

    sources(file)          the file and the local files that it imports, by their names
    digest(sources)        names them by what they hold
    function(file, name)   a function, from the file as it is now

Local files are those that lie beside the file or in folders there. Their imports are read off their
text, so a file is known without running it. A file is imported once for all that its sources hold,
and runs with all rights of the user who names it.
"""

import ast
import hashlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from stragglers._core.errors import BadInput, did_you_mean, raised, shown

Sources = dict[str, bytes]  # by their names relative to the first one's folder
PACKAGE = __name__.partition(".")[0]


def sources(file: str | Path) -> Sources:
    """The file, which comes first, and all local files that it imports, also through others."""
    main, root = Path(file), Path(file).parent
    try:
        found = {main.name: main.read_bytes()}
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"{file}: cannot be read as a Python file ({why})") from None
    todo = [main.name]
    while todo:
        name = todo.pop()
        for path in _imports(root, Path(name), found[name]):
            if str(path) not in found:
                found[str(path)] = (root / path).read_bytes()
                todo.append(str(path))
    return found


def _imports(root: Path, name: Path, source: bytes) -> Iterator[Path]:
    """Files below `root` that a source imports."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # said when it is imported
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = [*name.parent.parts] if node.level else []
            base = package[: len(package) + 1 - node.level] if node.level else []
            base += node.module.split(".") if node.module else []
            modules = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for parts in modules:
            for end in range(1, len(parts) + 1) if parts[0] != PACKAGE else ():
                place = Path(*parts[:end])
                for path in (place / "__init__.py", place.with_suffix(".py")):
                    if (root / path).is_file():
                        yield path


def digest(given: Sources) -> str:
    """SHA-256 of a file's content; of several, of their names too, but for the first one's."""
    (_, first), *others = given.items()
    if not others:
        return hashlib.sha256(first).hexdigest()
    parts = [("", first), *sorted(others)]
    listed = [f"{hashlib.sha256(content).hexdigest()} {name}" for name, content in parts]
    return hashlib.sha256("\n".join(listed).encode()).hexdigest()


def function(file: str, name: str) -> Callable[..., Any]:
    """A function that a file defines.

    Raises:
        BadInput: If the file cannot be imported, or defines no such function.
    """
    module = _module(file, digest(sources(file)))
    found = getattr(module, name, None)
    if callable(found):
        return found
    known = [
        key
        for key, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]
    raise BadInput(f"{file} has no function {name!r}; {did_you_mean(name, known)}")


def called(file: str, name: str, first: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """What a function returns; a mistake of its own is one line.

    `first` are positional arguments, with the names by which messages know them.
    """
    build = function(file, name)
    try:
        with _beside(file):
            return build(*first.values(), **arguments)
    except BadInput:
        raise
    except Exception as error:  # a user's code
        raise BadInput(f"{call(file, name, first, arguments)} failed ({raised(error)})") from error


def call(file: str, name: str, first: dict[str, Any], arguments: dict[str, Any]) -> str:
    """A call as a message shows it."""
    given = [*first, *(f"{key}={shown(value)}" for key, value in arguments.items())]
    return f"{file}: {name}({', '.join(given)})"


@cache
def _module(file: str, digest: str) -> types.ModuleType:
    if not file.endswith(".py"):
        raise BadInput(f"{file}: expected a Python file, with a name that ends in .py")
    module = types.ModuleType(f"{PACKAGE}_own_{digest[:16]}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # where classes are looked up by their module
    try:
        with _beside(file):
            exec(compile(Path(file).read_bytes(), file, "exec"), vars(module))
    except Exception as error:  # a user's code
        del sys.modules[module.__name__]
        raise BadInput(f"{file}: cannot be imported ({raised(error)})") from error
    return module


# Modules that a file has imported, by where it lies and by its digest.
_local: dict[tuple[str, str], dict[str, types.ModuleType]] = {}


@contextmanager
def _beside(file: str) -> Iterator[None]:
    """Local files can be imported inside, each as it is now, and not afterwards."""
    given, folder = sources(file), str(Path(file).absolute().parent)
    names, held = {Path(name).parts[0].removesuffix(".py") for name in given}, (file, digest(given))
    names.discard(Path(file).stem)

    def taken() -> dict[str, types.ModuleType]:
        own = [name for name in sys.modules if name.partition(".")[0] in names]
        return {name: sys.modules.pop(name) for name in own}

    before, writes = taken(), sys.dont_write_bytecode
    sys.modules.update(_local.get(held, {}))
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    sys.dont_write_bytecode = True  # which is known by seconds, and a file may change sooner
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        sys.path.remove(folder)
        _local[held] = taken()
        sys.modules.update(before)
