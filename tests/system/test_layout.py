"""The architecture, read off the sources: a package imports only from packages on its left."""

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SRC = TESTS.parent / "src" / "stragglers"

PACKAGES = [
    "_core",
    "planning",
    "algorithms",
    "tasks",
    "simulator",
    "config",
    "runs",
    "report",
    "serving",
    "cli",
]
TOP = {"__init__", "__main__"}  # the public API and the command line import any package
JAX = {"jax", "jaxlib", "optax"}  # optax imports jax
WITHOUT_JAX = ("_core", "planning", "config", "report", "tasks.datasets", "runs.results")


def sources(*parts: str) -> list[Path]:
    folder = SRC.joinpath(*parts)
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def module(path: Path) -> str:
    """planning.rounds, or planning for its __init__."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in SRC.rglob("*.py")}


def imports(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, also inside functions and for type checkers."""
    package = ("stragglers", *path.relative_to(SRC).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            source = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


def imported_modules(path: Path) -> set[str]:
    """Modules of this package that a file imports; `from stragglers import x` is the API's."""
    found = set()
    for name in imports(path):
        if name.split(".")[0] == "stragglers":
            inside = name.split(".")[1:]
            while inside and ".".join(inside) not in MODULES:
                inside.pop()
            found.add(".".join(inside))
    return found


def test_the_package_shows_its_architecture():
    entries = {path.name for path in SRC.iterdir() if path.name != "__pycache__"}
    assert entries == {*PACKAGES, "__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_lives_there(package):
    text = ast.get_docstring(ast.parse((SRC / package / "__init__.py").read_text()))
    assert text and 1 <= len(text.splitlines()) <= 6


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_from_its_left(package):
    allowed = {*PACKAGES[: PACKAGES.index(package) + 1], ""}
    wrong = [
        f"{path.relative_to(SRC)} imports {other}"
        for path in sources(package)
        for other in imported_modules(path)
        if other.split(".")[0] not in allowed
    ]
    assert not wrong


def test_no_module_imports_itself_through_others():
    graph = {name: imported_modules(path) - {name} for name, path in MODULES.items() if name}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError, which names them


def test_planning_never_imports_jax():
    """Not by an import at the top of any module that it reaches."""
    reached = {name: tops(path) for name, path in MODULES.items()}
    for start in (n for n in MODULES if any(n == p or n.startswith(f"{p}.") for p in WITHOUT_JAX)):
        seen, todo = set(), [start]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                outside, inside = reached[name]
                assert not outside & JAX, f"{start} reaches {name}, which imports {outside & JAX}"
                todo += inside


def tops(path: Path) -> tuple[set[str], set[str]]:
    """What a file imports at its top: other packages, and modules of this one."""
    outside, inside = set(), set()
    tree = ast.parse(path.read_text())
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    for name in names:
        first, *rest = name.split(".")
        if first != "stragglers":
            outside.add(first)
            continue
        while rest and ".".join(rest) not in MODULES:
            rest.pop()
        inside |= {".".join(rest[:end]) for end in range(1, len(rest) + 1)}
    return outside, inside


def test_algorithms_know_neither_latency_nor_each_other():
    shared = {"algorithms.base", "algorithms.trees", "algorithms.combinators"}
    wrong = [
        f"{path.name} imports {name}"
        for path in sources("algorithms")
        for name in imported_modules(path)
        if name == "planning.latency" or (name.startswith("algorithms.") and name not in shared)
    ]
    assert not wrong


def test_planning_loads_nothing_slow():
    code = """if True:
        import sys
        import stragglers.config.build, stragglers.config.catalog, stragglers.planning.schedule
        print(*sys.modules.keys() & {"jax", "matplotlib", "scipy.stats"})
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("", "")


def test_no_test_is_empty():
    """A test has more than a docstring, `pass` or `...`."""
    empty = [
        f"{path.name}: {node.name}"
        for path in TESTS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test")
        and all(
            isinstance(line, ast.Pass)
            or (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant))
            for line in node.body
        )
    ]
    assert not empty
