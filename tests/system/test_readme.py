"""What the README shows is what happens."""

import re
import shlex
from importlib import resources
from pathlib import Path

import pytest

from stragglers.cli.main import _parser, main
from tests.support.fabricate import demo

README = (Path(__file__).parents[2] / "README.md").read_text()
HOURS = (Path(__file__).parents[2] / "docs" / "results" / "hours.md").read_text()
LINES = re.findall(r"^stragglers (.*?)(?: +#|$)", README + HOURS, re.M)
INLINE = re.findall(r"`stragglers (\w[^`]+)`", README)
COMMANDS = dict.fromkeys([*LINES, *INLINE])
CONSOLE = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.S)
FLOWER = (Path(__file__).parents[2] / "docs" / "how-to" / "flower.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README + FLOWER, re.S)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder in which there is all that the README speaks of, and where nothing is trained."""
    demo(tmp_path / "runs", trials=2)
    (tmp_path / "my-experiments").mkdir()
    preset = resources.files("stragglers.config") / "presets/glyphs/per-domain/feast.toml"
    (tmp_path / "my-experiments" / "mine.toml").write_text(preset.read_text())
    lines = [
        f"c{i % 40},{'old' if i % 4 else 'new'},{5 + i % 40},{3 + i % 7},2,{1 + i % 11}"
        for i in range(160)
    ]
    header = "client,group,examples,communication,overhead,training"
    (tmp_path / "log.csv").write_text("\n".join([header, *lines, "c0,new,5,,,"]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stragglers.runs.trials.run_missing", lambda jobs, *_, **__: jobs)
    monkeypatch.setattr("stragglers.config.task_files.prepare_data", lambda *given: None)


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command, capsys):
    if command.startswith(("data", "tune")):  # they fetch, or train all that they find missing
        assert callable(_parser().parse_args(shlex.split(command)).run)
    else:
        assert main(shlex.split(command)) == 0, capsys.readouterr().err


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
    assert len(COMMANDS) >= 20 and CONSOLE and PYTHON
