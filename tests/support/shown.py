"""What a page shows, as tests take it: its fenced blocks, its commands, and a place to run them.

A command of a page runs without training, on run folders that are made up. A block whose first line
is a comment with a file name, such as `# mine.toml`, is that file.
"""

import re
import shlex
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from stragglers.cli.main import _parser, main
from tests.support.fabricate import demo

FENCE = re.compile(r"^(`{3,}|:{3,})(\S*)[^\n]*\n(.*?)^\1\s*$", re.M | re.S)
NAMED = re.compile(r"# (\S+\.(?:toml|py|csv))\n")
PARSED = ("data ", "tune ")  # commands that fetch, or train all that they find missing


class Block(NamedTuple):
    kind: str
    text: str


def blocks(page: str) -> list[Block]:
    return [Block(kind, text) for _, kind, text in FENCE.findall(page)]


def commands(page: str) -> list[str]:
    """Lines of `sh` blocks, without comments."""
    lines = "".join(block.text for block in blocks(page) if block.kind == "sh").splitlines()
    return [line for line in (line.partition(" #")[0].strip() for line in lines) if line]


def transcripts(page: str) -> list[tuple[str, str]]:
    """Each command of a `console` block, and what it prints."""
    text = "".join(block.text for block in blocks(page) if block.kind == "console")
    return [tuple(part.split("\n", 1)) for part in re.split(r"^\$ ", text, flags=re.M)[1:]]


def furnish(folder: Path, monkeypatch, page: str = "") -> None:
    """Moves to a folder that holds what pages speak of, and where nothing is trained."""
    demo(folder / "runs", trials=2)
    (folder / "my-experiments").mkdir()
    preset = resources.files("stragglers.config") / "presets/glyphs/per-domain/feast.toml"
    (folder / "my-experiments" / "mine.toml").write_text(preset.read_text())
    lines = [
        f"c{i % 40},{'old' if i % 4 else 'new'},{5 + i % 40},{3 + i % 7},2,{1 + i % 11}"
        for i in range(160)
    ]
    header = "client,group,examples,communication,overhead,training"
    (folder / "served").mkdir()
    for name in ("log.csv", "served/log.csv"):
        (folder / name).write_text("\n".join([header, *lines, "c0,new,5,,,"]))
    for block in blocks(page):
        if named := NAMED.match(block.text):
            (folder / named[1]).write_text(block.text)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("stragglers.runs.trials.run_missing", lambda jobs, *_, **__: jobs)
    monkeypatch.setattr("stragglers.config.task_files.prepare_data", lambda task, *_: None)


def run(command: str) -> int:
    """The exit code of a `stragglers` command."""
    _, *arguments = shlex.split(command)
    if command.startswith(tuple(f"stragglers {name}" for name in PARSED)):
        return 0 if callable(_parser().parse_args(arguments).run) else 2
    return main(arguments)


def words(text: str) -> list[list[str]]:
    """A transcript, whatever its spaces and rules."""
    return [line.split() for line in text.splitlines() if line.strip(" ─")]
