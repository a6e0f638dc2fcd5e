"""The page about tasks of the user's own: what it shows runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-task.md"


def test_its_first_example_trains(capsys):
    (code, *_) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})
    assert "500 clients have trained, 0 dropped" in capsys.readouterr().out
