"""What the sources may not do, kept by reading them; and that nothing is fetched unasked."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stragglers

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])

LOADERS = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "joblib", "dill", "cloudpickle"}
# The one reader of pickles admits NumPy's arrays alone (tests/data/test_cifar.py).
RESTRICTED = "src/stragglers/tasks/datasets/cifar_files.py"
# The one place that runs a file: the user's own task or algorithm, which settings name.
OWN = "src/stragglers/_core/own_files.py"
NETWORK = {
    "urllib",
    "http",
    "socket",
    "ssl",
    "socketserver",
    "ftplib",
    "smtplib",
    "telnetlib",
    "xmlrpc",
    "requests",
    "httpx",
    "aiohttp",
    "urllib3",
    "asyncio",
    "webbrowser",
}
FETCHES = "src/stragglers/tasks/datasets/fetch.py"


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level packages that a file imports, also inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]


def unsafe(tree: ast.AST) -> Iterator[str]:
    """Calls that run, or write, what a file says."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        last = called.rsplit(".", 1)[-1]
        options = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if called in ("eval", "exec", "compile", "__import__", "os.system", "os.popen"):
            yield called
        if last in ("extractall", "extract", "unpack_archive", "unsafe_load", "full_load"):
            yield called
        if called in ("yaml.load", "torch.load"):
            yield called
        if options.get("allow_pickle", "False") != "False" or options.get("shell") == "True":
            yield ast.unparse(node)
        if called in ("np.load", "numpy.load", "jnp.load") and "allow_pickle" not in options:
            yield ast.unparse(node)


def trees() -> Iterator[tuple[str, ast.AST]]:
    for path in SOURCES:
        yield name(path), ast.parse(path.read_text())


def test_no_source_loads_what_could_run():
    found = [(file, call) for file, tree in trees() for call in unsafe(tree)]
    assert found == [(OWN, "exec"), (OWN, "compile")]
    loads = {file for file, tree in trees() if LOADERS & {*imported(tree)}}
    assert loads == {RESTRICTED}


def test_the_one_reader_of_pickles_admits_what_it_names():
    tree = ast.parse((ROOT / RESTRICTED).read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle"
    }
    assert used == {"Unpickler"}
    (reader,) = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and "pickle.Unpickler" in map(ast.unparse, node.bases)
    )
    assert [part.name for part in reader.body if isinstance(part, ast.FunctionDef)] == [
        "find_class"
    ]


def test_the_reading_finds_what_it_looks_for():
    code = """if True:
        import pickle, yaml
        from marshal import loads
        eval("1"); exec("1"); np.load(f); np.load(f, allow_pickle=True); yaml.load(f)
        tar.extractall(p); subprocess.run("x", shell=True); os.system("x")
    """
    tree = ast.parse(code)
    assert LOADERS & {*imported(tree)} == {"pickle", "marshal"}
    assert len(set(unsafe(tree))) == 8
    assert not [*unsafe(ast.parse("np.load(f, allow_pickle=False); re.compile('x'); x.eval()"))]


def test_one_source_alone_speaks_to_the_network():
    assert {file for file, tree in trees() if NETWORK & {*imported(tree)}} == {FETCHES}


# Heard by every Python process, also those that a command starts; nothing can take it back.
GUARD = """
import os, sys

def hook(event, arguments):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo",
                 "socket.gethostbyname", "urllib.Request"):
        os.write(2, f"a connection: {event} {arguments}".encode())
        os._exit(66)

sys.addaudithook(hook)
"""
TINY = "--set writers=12 --set goal=3 --set updates=12 --set evaluations=2"
COMMANDS = [
    "list",
    "new mine",
    "plan glyphs/per-domain/feast --figure plan.png",
    "fit log.csv --out fleet.toml --figure fit.png",
    "data glyphs --figure glyphs.png",
    f"run glyphs/per-domain/fedavg {TINY} --set threads=1 --trials 2 --processes 2",
    f"tune glyphs/per-domain/fedavg --grid grid.toml {TINY} --set threads=1",
    "verify runs",
    "table runs",
    "report runs --figures figures",
    "export runs --to tensorboard",
]
EVERY = """
import shlex, sys
from stragglers.cli.main import main
if __name__ == "__main__":
    for command in sys.argv[1:]:
        if main(shlex.split(command)):
            sys.exit(f"failed: {command}")
"""


def guarded(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "guard").mkdir()
    (folder / "guard" / "sitecustomize.py").write_text(GUARD)
    path = os.pathsep.join([str(folder / "guard"), str(Path(stragglers.__file__).parents[1])])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.slow
def test_no_command_opens_a_connection(tmp_path):
    (tmp_path / "grid.toml").write_text("[[search]]\nbatch_size = [10, 20]\n")
    log = [f"{client},{10 * client},{client + 5}" for client in range(1, 20)]
    (tmp_path / "log.csv").write_text("\n".join(["client,examples,seconds", *log]))
    (tmp_path / "every.py").write_text(EVERY)
    done = guarded(tmp_path, "every.py", *COMMANDS)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists() and (tmp_path / "exported").exists()


def test_the_guard_hears_connections(tmp_path):
    code = "import socket; socket.create_connection(('127.0.0.1', 9))"
    assert guarded(tmp_path, "-c", code).returncode == 66


def test_every_command_is_guarded():
    import argparse

    from stragglers.cli.main import _parser

    (commands,) = (
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    assert {command.split()[0] for command in COMMANDS} == set(commands.choices)
