"""What the README shows is what happens."""

import re
from pathlib import Path

import pytest

from stragglers.cli.main import main
from tests.support import shown

README = (Path(__file__).parents[2] / "README.md").read_text()
LINES = [line for line in shown.commands(README) if line.startswith("stragglers")]
INLINE = [f"stragglers {found}" for found in re.findall(r"`stragglers (\w[^`]+)`", README)]
COMMANDS = dict.fromkeys([*LINES, *INLINE])
TRANSCRIPTS = shown.transcripts(README)
PYTHON = [block.text for block in shown.blocks(README) if block.kind == "python"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, tmp_path, monkeypatch, capsys):
    shown.furnish(tmp_path, monkeypatch)
    assert shown.run(command) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command, output", TRANSCRIPTS)
def test_output_is_what_it_says(command, output, capsys):
    assert main(command.split()[1:]) == 0
    assert shown.words(capsys.readouterr().out) == shown.words(output)


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(code):
    exec(compile(code, "README.md", "exec"), {})


def test_there_is_something_to_test():
    assert len(COMMANDS) >= 6 and TRANSCRIPTS and PYTHON
