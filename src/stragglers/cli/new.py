"""stragglers new: an experiment to start from, with a task, a model and an algorithm of one's own.

The files are those of template/, where NAME stands for the name of the experiment.
"""

import argparse
import re
from importlib import resources
from pathlib import Path

from stragglers._core import files
from stragglers._core.errors import BadInput, shown
from stragglers.cli import common

# From the template to the folder.
FILES = {
    "task.py.txt": "task.py",
    "model.py.txt": "model.py",
    "algorithm.py.txt": "algorithm.py",
    "experiment.toml.txt": "{name}.toml",
    "test_experiment.py.txt": "test_{module}.py",
}
NAME = re.compile(r"[A-Za-z0-9][\w-]*", re.ASCII)


def add(commands: common.Commands) -> None:
    parser = common.add(commands, "new", "a folder with an experiment of your own, to change")
    parser.add_argument("name", metavar="NAME", help="of the folder and of the experiment")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Writes the folder and says what to do with it."""
    folder = Path(options.name)
    if not NAME.fullmatch(folder.name):
        raise BadInput(
            f"{shown(folder.name)}: not a name of an experiment. Give letters, digits, '-' and '_'."
        )
    if folder.exists():
        raise BadInput(f"{folder}: is there already. Choose another name.")
    template = resources.files("stragglers.cli") / "template"
    written = []
    with files.told(folder):
        folder.mkdir(parents=True)
        for source, place in FILES.items():
            module = folder.name.replace("-", "_")
            path = folder / place.format(name=folder.name, module=module)
            text = (template / source).read_text(encoding="utf-8")
            path.write_text(text.replace("NAME", folder.name), encoding="utf-8")
            written.append(str(path))
    if options.json:
        print(common.json({"folder": str(folder), "files": written}))
        return
    print("\n".join(written))
    print(f"train it: stragglers run {folder}\ntest it:  pytest {folder}")
