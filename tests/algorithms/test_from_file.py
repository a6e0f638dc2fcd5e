"""Algorithms of one's own, from a file, through the command line."""

import json
import textwrap

import jax
import numpy as np
import optax
import pytest

from stragglers._core import toml_files
from stragglers._core.errors import BadInput
from stragglers.algorithms import from_file
from stragglers.algorithms.base import BY_WEIGHT
from stragglers.cli.main import main
from stragglers.config import catalog, documents
from stragglers.config.settings import settings_hash
from stragglers.runs import records, train

MINE = """
    from stragglers import trees
    from stragglers.algorithms.fedavg import fedavg

    def lazy(server, mean, *, share=1.0):
        \"\"\"FedAvg that goes a share of the way.\"\"\"
        whole = fedavg(server, mean)

        def step(state, on_time):
            there, opened = whole.step(state, on_time)
            moved = trees.blend(1 - share, state.core.params, there.core.params)
            return there._replace(core=there.core._replace(params=moved)), opened

        return whole._replace(step=step)

    def nothing(server, mean):
        return "nothing"

    def broken(server, mean):
        return 1 / 0
"""
PRESET = "glyphs/per-domain/fedadam"
SMALL = ["updates=40", "goal=4", "writers=8", "evaluations=1"]


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(textwrap.dedent(MINE))
    document = documents.override_all(catalog.read(PRESET), SMALL)
    document["algorithm"] = {"name": "own", "file": "mine.py", "function": "lazy"}
    (tmp_path / "mine.toml").write_text(toml_files.dumps(document))
    return tmp_path


def settings(folder, *sets):
    return documents.settings_from(
        documents.override_all(catalog.read(str(folder / "mine.toml")), sets)
    )


def hash_of(folder, *sets):
    return settings_hash(settings(folder, *sets).document)


@pytest.mark.slow
def test_it_trains_like_one_of_the_package(mine, capsys):
    out = mine / "runs"
    command = [
        "run",
        str(mine / "mine.toml"),
        "--out",
        str(out),
        "--sweep",
        "algorithm.arguments.share=0.0,1.0",
    ]
    assert main(command) == 0
    trials = {
        trial.settings["algorithm"]["arguments"]["share"]: trial for trial in records.find([out])
    }
    assert {*trials} == {0.0, 1.0}
    assert all(trial.status == "finished" for trial in trials.values())
    still, whole = (trials[share].curve["total_loss"][-1] for share in (0.0, 1.0))
    assert whole < still - 0.1  # the one stood still
    capsys.readouterr()
    assert main(["table", str(out), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) > 0


def test_it_is_the_function_s(mine):
    given = settings(mine, "algorithm.arguments.share=1.0")
    made = train.algorithm(given.server, given.algorithm, "weight", 1)
    assert made is train.algorithm(
        given.server, settings(mine, "algorithm.arguments.share=1.0").algorithm, "weight", 1
    )
    params = {"w": np.ones(3, np.float32)}
    jax.tree.map(np.testing.assert_array_equal, made.params(made.init(params)), params)


def test_code_counts_by_what_is_in_it(mine):
    before = hash_of(mine)
    path = mine / "mine.py"
    (mine / "elsewhere").mkdir()
    for name in ("mine.py", "mine.toml"):
        (mine / "elsewhere" / name).write_bytes((mine / name).read_bytes())
    assert hash_of(mine / "elsewhere") == before
    assert hash_of(mine, "algorithm.arguments.share=0.5") != before
    path.write_text(path.read_text().replace("1 - share", "share"))
    assert hash_of(mine) != before


def test_changed_code_is_imported_anew(tmp_path):
    path = tmp_path / "mine.py"
    made = []
    for k in (2, 3):
        path.write_text(
            f"from stragglers.algorithms.fare_dust import fare_dust\n"
            f"def build(server, mean): return fare_dust(server, k={k})\n"
        )
        made.append(from_file.algorithm(str(path), "build", optax.sgd(1.0), BY_WEIGHT, {}))
    assert [one.teachers for one in made] == [2, 3]


@pytest.mark.parametrize(
    "change, says",
    [
        (["function=lasy"], "has no function 'lasy'; did you mean 'lazy'"),
        (["function=trees"], "has no function 'trees'; expected one of: broken, lazy, nothing"),
        (
            ["function=nothing"],
            r"nothing\(server, mean\) returned 'nothing', expected an Algorithm",
        ),
        (
            ["function=broken"],
            r"broken\(server, mean\) failed \(ZeroDivisionError: division by zero, at .*py:20\)",
        ),
        (["algorithm.arguments.speed=2"], r"lazy\(server, mean, speed=2\) failed \(TypeError: "),
        (["algorithm.file=none.py"], "none.py: cannot be read as a Python file"),
    ],
)
def test_mistakes_are_one_line(mine, capsys, change, says):
    words = [word for given in change for word in ("--set", given)]
    out = mine / "runs"
    assert main(["run", str(mine / "mine.toml"), "--out", str(out), *words]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(said.strip().splitlines()[-1])
    assert not [*out.rglob("run.json")]


@pytest.mark.parametrize(
    "text, says",
    [
        ("import nowhere_to_be_found", "cannot be imported (ModuleNotFoundError: No module named"),
        ("def build(:", "cannot be imported (SyntaxError: "),
    ],
)
def test_what_cannot_be_imported_is_said(tmp_path, text, says):
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(BadInput) as refused:
        from_file.algorithm(str(path), "build", optax.sgd(1.0), BY_WEIGHT, {})
    assert says in str(refused.value)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("build = 1")
    with pytest.raises(BadInput, match="expected a Python file, with a name that ends in .py"):
        from_file.algorithm(str(path), "build", optax.sgd(1.0), BY_WEIGHT, {})


def test_what_it_refuses_itself_is_left_as_it_is(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from stragglers.algorithms.fare_dust import fare_dust\n"
        "def build(server, mean): return fare_dust(server, k=0)\n"
    )
    with pytest.raises(BadInput, match="^k=0 historical teachers"):
        from_file.algorithm(str(path), "build", optax.sgd(1.0), BY_WEIGHT, {})
