"""What the README shows is what happens."""

import re
import shlex
from pathlib import Path

import pytest

from stragglers.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text()
COMMANDS = re.findall(r"^stragglers plan .*?(?= *#|$)|^stragglers list(?= *#|$)", README, re.M)
CONSOLE = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.S)
PYTHON = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("command, shown", CONSOLE)
def test_output_is_what_it_says(command, shown, capsys):
    def words(text):
        return [line.split() for line in text.splitlines() if line.strip(" ─")]

    assert main(shlex.split(command)[1:]) == 0
    assert words(capsys.readouterr().out) == words(shown)


@pytest.mark.parametrize("code", PYTHON)
def test_python_runs(code):
    exec(compile(code, "README.md", "exec"), {})


def test_there_is_something_to_test():
    assert len(COMMANDS) >= 5 and CONSOLE and PYTHON
