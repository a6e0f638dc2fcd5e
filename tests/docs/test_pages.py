"""What the pages of the site show is what happens: every fenced block is run, or says why not."""

from pathlib import Path

import pytest

from docs.extensions import generated
from stragglers.cli.main import main
from tests.support import shown

DOCS = Path(__file__).parents[2] / "docs"
GENERATED = {f"reference/{name}" for name in generated.PAGES}
PAGES = {
    name: file.read_text(encoding="utf-8")
    for file in sorted(DOCS.rglob("*.md"))
    if (name := str(file.relative_to(DOCS))) not in GENERATED
}
# Lines of `sh` blocks that no test runs, by how they begin.
NOT_RUN = {
    "pip install": "changes the environment",
    "make run": "trains the demo; `make` is tested by hand",
    "python examples/flower/fleet.py": "tests/serving/flower/test_fleet.py runs it",
    "python -m reproduction": "tests/reproduction/test_document.py runs it",
}
KINDS = {"sh", "console", "python", "toml", "text", ""}  # a directive of MyST has braces


def every(what):
    found = [(name, each) for name, page in PAGES.items() for each in what(page)]
    return pytest.mark.parametrize("name, shows", found, ids=[name for name, _ in found])


def code(page):
    return [block.text for block in shown.blocks(page) if block.kind == "python"]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if shown.commands(page)])
def test_commands_run(name, tmp_path, monkeypatch, capsys):
    shown.furnish(tmp_path, monkeypatch, PAGES[name])
    for command in shown.commands(PAGES[name]):
        if command.startswith("stragglers"):
            assert shown.run(command) == 0, f"{command}: {capsys.readouterr().err}"
        else:
            assert command.startswith(tuple(NOT_RUN)), command


@every(shown.transcripts)
def test_output_is_what_it_says(name, shows, capsys):
    command, output = shows
    assert main(command.split()[1:]) == 0
    assert shown.words(capsys.readouterr().out) == shown.words(output)


@every(code)
def test_python_runs(name, shows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(shows, name, "exec"), {})


@every(lambda page: [block for block in shown.blocks(page) if block.kind == "toml"])
def test_files_have_names(name, shows):
    assert shown.NAMED.match(shows.text), "its first line is no `# name.toml`"


def test_every_kind_of_block_is_known():
    kinds = {block.kind for page in PAGES.values() for block in shown.blocks(page)}
    assert {kind for kind in kinds if not kind.startswith("{")} <= KINDS


def test_there_is_something_to_test():
    assert sum(len(shown.commands(page)) for page in PAGES.values()) >= 40
    assert sum(len(shown.transcripts(page)) for page in PAGES.values()) >= 4
