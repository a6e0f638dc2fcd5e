"""The way of the data, kept by reading the sources: a module imports only from modules above it."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
SRC = TESTS.parent / "src" / "stragglers"

# From top to bottom; a package counts as one entry. A new file needs a place here.
ORDER = [
    "__init__", "errors", "room", "device", "files", "csvfile", "tomlfile", "named", "draws",
    "distributions", "partition", "population", "subset", "data", "handwriting", "latency",
    "faults", "availability", "logs", "totals", "luck", "fit", "schedule", "idle", "tiers",
    "rounds", "buffer", "rows", "together", "lanes", "weights", "shuffle", "trees", "memory",
    "mesh", "programs", "kernels", "models", "tasks", "algorithms", "client", "table", "metrics",
    "moving", "handover", "server", "engine", "setup", "course", "simulate", "coordinator",
    "interpret", "ledger", "live", "flower", "checkpoint", "records", "plan", "settings", "schema",
    "config", "report", "build", "influence", "words", "own", "run", "deploy", "recording",
    "progress", "stopping", "turns", "workers", "sharing", "trials", "tune", "samples", "describe",
    "commands", "cli",
]  # fmt: skip
WITHOUT_JAX = {
    *ORDER[: ORDER.index("trees")], "records", "plan", "report", "settings", "schema",
    "config", "build", "influence", "words",
}  # fmt: skip
JAX = {"jax", "jaxlib", "optax"}  # optax imports jax


def sources(entry: str) -> list[Path]:
    return [*SRC.glob(f"{entry}.py"), *(SRC / entry).rglob("*.py")]


def imports(path: Path) -> Iterator[str]:
    """Dotted names of all that a file imports, also inside functions."""
    package = ("stragglers", *path.relative_to(SRC).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imported_entries(path: Path) -> set[str]:
    """Entries of `ORDER` that a file imports; names of the top package itself are `__init__`."""
    names = (f"{name}.__init__".split(".") for name in imports(path))
    inside = {name[1] for name in names if name[0] == "stragglers"}
    return {name if name in ORDER else "__init__" for name in inside}


def test_every_module_has_a_place():
    found = {path.relative_to(SRC).parts[0].removesuffix(".py") for path in SRC.rglob("*.py")}
    assert not found - set(ORDER)


def test_modules_import_only_from_above():
    wrong = [
        f"{path.relative_to(SRC)} imports {other}"
        for below, entry in enumerate(ORDER)
        for path in sources(entry)
        for other in imported_entries(path) - {entry}
        if ORDER.index(other) > below
    ]
    assert not wrong


def test_planning_never_imports_jax():
    tainted: dict[str, str] = {}
    for entry in ORDER:  # what an entry imports was seen before it
        for path in sources(entry):
            direct = {name.split(".")[0] for name in imports(path)} & JAX
            through = imported_entries(path) & tainted.keys()
            if direct or through:
                tainted[entry] = f"{path.relative_to(SRC)}: {', '.join(direct | through)}"
    assert not {entry: why for entry, why in tainted.items() if entry in WITHOUT_JAX}


def test_algorithms_know_neither_tasks_nor_latency_nor_each_other():
    wrong = [
        f"{path.name} imports {name}"
        for path in sources("algorithms")
        for name in imports(path)
        if name.startswith(("stragglers.tasks", "stragglers.planning.latency"))
        or (
            name.startswith("stragglers.algorithms")
            and not f"{name}.".startswith("stragglers.algorithms.base.")
            and path.name != "__init__.py"  # the one that lists them
        )
    ]
    assert not wrong


def test_planning_loads_nothing_slow():
    code = """if True:
        import sys
        import stragglers.build, stragglers.config, stragglers.schedule
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
