"""The public API: every name has an example that runs, and loads no more than it needs.

Examples run in one folder and one namespace for each example that others continue: the weights of
`st.simulate` and the run folder of `st.run` are made once.
"""

import ast
import doctest
import importlib
import inspect
import os
import subprocess
import sys
import types
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import stragglers as st
from stragglers.simulator import simulate
from tests.support import tiny

SOURCE = Path(st.__file__).read_text()
NAMES = [name for name in st.__all__ if name != "__version__"]
OPTIONS = simulate.Options.__annotations__
# Examples that go on where another one has ended.
CONTINUES = {
    **dict.fromkeys(
        ["Started", "Progressed", "Evaluated", "Diverged", "ChunkEnded", "Finished"], "simulate"
    ),
    **dict.fromkeys(["simulate_events", "Result"], "simulate"),
    **dict.fromkeys(["load_runs", "Runs", "Record"], "run"),
    "Served": "serve",
}
PLANNING = """
import sys
import stragglers as st
assert not sys.modules.keys() & {"jax", "numpy", "matplotlib"}
fleet = st.Fleet(st.clients(100, examples=st.LogNormal(median=50, sigma=1)), st.PER_EXAMPLE)
schedule = st.schedule(fleet, st.Rounds(goal=5, over_selection=1.2), updates=100)
text = str(st.summarise(schedule)) + repr(schedule) + schedule._repr_html_()
st.plan(st.preset("fleet").replace(updates=1000))
try:
    st.load_runs("no/such/folder")
except st.BadInput:
    pass
print(*sys.modules.keys() & {"jax", "jaxlib", "optax", "matplotlib", "plotly", "scipy.stats"})
"""


@pytest.fixture(scope="module", autouse=True)
def workplace(tmp_path_factory):
    """A folder with tiny files of each task, where examples may write."""
    folder, before = tmp_path_factory.mktemp("api"), Path.cwd()
    (folder / "data").mkdir()
    for task in tiny.TASKS:
        tiny.folder(folder / "data", task)
    os.chdir(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STRAGGLERS_CACHE", str(folder / "cache"))
        yield
    os.chdir(before)


def docstring(name):
    found = getattr(st, name)
    return inspect.getdoc(found) or ""


@cache
def ran(name):
    """Failures of an example, in the namespace that it leaves."""
    space = dict(ran(CONTINUES[name])[1]) if name in CONTINUES else {}
    test = doctest.DocTestParser().get_doctest(docstring(name), space, name, name, 0)
    said = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append, clear_globs=False)
    return "".join(said), test.globs, len(test.examples)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name):
    said, _, examples = ran(name)
    assert examples > 0 and not said, said


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_documented(name):
    first, *rest = docstring(name).splitlines()
    assert first.endswith((".", ":")) and len(first) <= 100 and (not rest or not rest[0])
    found = getattr(st, name)
    if inspect.isroutine(found):  # a class is documented by its fields
        text, parameters = docstring(name), inspect.signature(found).parameters
        for parameter in parameters.values():
            given = "*" if parameter.kind.name == "VAR_POSITIONAL" else ""
            names = OPTIONS if name == "simulate_events" and parameter.name == "options" else ()
            for each in names or [f"{given}{parameter.name}"]:
                assert f"    {each}: " in text.replace("**", "")
        assert "Args:" in text and ("Returns:" in text or "Yields:" in text)


def test_the_names_agree():
    """What is loaded, what `dir` lists, and what type checkers read."""
    assert sorted(st.__all__) == dir(st)
    read = {"__version__": "stragglers._core.version"}
    (checked,) = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.If)]
    for node in checked.body:
        assert isinstance(node, ast.ImportFrom)
        (alias,) = node.names
        assert alias.name == alias.asname
        read[alias.name] = node.module
    assert read == st.HOMES
    with pytest.raises(AttributeError, match="no attribute 'shedule'"):
        st.shedule  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_what_its_module_defines(name):
    found, home = getattr(st, name), st.HOMES[name]
    if isinstance(found, types.ModuleType):
        assert found.__name__ == f"{home}.{name}"
    else:
        assert found is getattr(importlib.import_module(home), name)
        assert getattr(found, "__module__", home) == home


def test_planning_loads_neither_jax_nor_matplotlib():
    run = subprocess.run([sys.executable, "-c", PLANNING], capture_output=True, text=True)
    assert (run.stdout.strip(), run.stderr) == ("", "")


FLEET = st.Fleet(st.clients(10, examples=st.Constant(5)), st.PER_EXAMPLE)
ROUNDS = st.Rounds(goal=2)
WRONG = {
    "clients('many', examples=st.Constant(5))": "number = 'many': expected a whole number",
    "clients(10, examples=st.Constant(5), groups={'a': 'half'})": "groups: a = 'half'",
    "schedule(FLEET, 'rounds', updates=10)": "policy = 'rounds': expected Rounds or Buffer",
    "schedule(FLEET.clients, ROUNDS, updates=10)": "fleet = Clients(",
    "schedule(FLEET, ROUNDS, updates=10.5)": "updates=10.5, expected a whole number",
    "schedule(FLEET, ROUNDS, updates=10, seed=-1)": "seed=-1",
    "schedule(FLEET, ROUNDS, updates=10, epochs='two')": "epochs = 'two'",
    "schedule(FLEET, st.Rounds(goal='two'), updates=10)": "goal: 'two' given",
    "schedule(FLEET._replace(clients=10), ROUNDS, updates=10)": "clients = 10: expected",
    "schedule(FLEET._replace(latency=3), ROUNDS, updates=10)": "latency=3, expected",
    "schedule(FLEET._replace(faults=0.1), ROUNDS, updates=10)": "faults = 0.1: expected Faults",
    "summarise(FLEET)": "schedule = Fleet(",
    "plan('fleet')": "experiment = 'fleet': expected what st.preset returns",
    "preset(3)": "name = 3: expected",
    "preset('fleet').replace(goal='x')": "schedule.goal: 'x' given",
    "preset('fleet').replace(gaol=3)": "did you mean",
    "preset('fleet').named('../x')": "name = '../x': not a name of folders",
    "PER_DOMAIN.replace(persistence=2)": "persistence: 2 given",
    "PER_DOMAIN.replace(persistance=1)": "did you mean 'persistence'?",
    "run(st.preset('fleet'))": "experiments = Experiment(",
    "run([st.preset('fleet')])": "a fleet has no data",
    "run([st.preset('fleet')], path='data')": "path = 'data': fleet reads no data",
    "run([st.preset('fleet')], trials=0)": "trials=0, expected at least 1",
    "run([st.preset('fleet')], out=None)": "out = None: expected a folder",
    "load_runs('data')": "data: no runs in it or below",
    "load_runs(None)": "folder = None: expected a folder",
    "glyphs(writers='many')": "writers = 'many'",
    "emnist(None)": "path = None: expected a folder",
    "fedavg(1.0)": "server = 1.0: expected an optimizer",
    "semi_async('sgd')": "server = 'sgd': expected an optimizer",
    "fadas(st.amsgrad(0.1), learning_rate=0, threshold=5)": "learning_rate=0, expected a number",
    "fadas(st.amsgrad(0.1), learning_rate=0.1, threshold=-1)": "threshold=-1, expected a number",
    "ca2fl(1.0, clients=9)": "server = 1.0: expected an optimizer",
    "mifa(st.amsgrad(0.1), clients=0)": "clients=0, expected a whole number >= 1",
    "with_ema('fedavg', 0.5)": "algorithm = 'fedavg'",
    "all_of([])": "algorithms: none given",
    "simulate('glyphs', None, None, None)": "task = 'glyphs': expected a task",
    "serve('fleet', None, ROUNDS, {}, steps=1)": "link = 'fleet': expected a Link",
}


@pytest.mark.parametrize("call", WRONG)
def test_what_is_wrong_is_one_line(call):
    with pytest.raises(st.BadInput) as refused:
        eval(f"st.{call}", {"st": st, "FLEET": FLEET, "ROUNDS": ROUNDS})
    said = str(refused.value)
    assert WRONG[call] in said and "\n" not in said


def test_options_of_simulate_are_checked_before_anything_is_compiled():
    space = dict(ran("simulate")[1])
    arguments = [space[name] for name in ("task", "schedule", "algorithm", "local")]
    with pytest.raises(st.BadInput, match="unknown option 'lane'; did you mean 'lanes'?"):
        st.simulate_events(*arguments, lane=2)
    with pytest.raises(st.BadInput, match="local = 0.05: expected st.Local"):
        st.simulate_events(*arguments[:3], 0.05)


class Frame(dict):
    """Stands for a pandas frame: columns of equal lengths."""

    def __init__(self, columns):
        super().__init__(columns)
        assert len({len(column) for column in columns.values()}) == 1


@pytest.fixture
def frames(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=Frame))


@pytest.mark.usefixtures("frames")
def test_tables_become_frames():
    schedule = st.schedule(FLEET, ROUNDS, updates=10)
    frame = schedule.to_pandas()
    np.testing.assert_array_equal(frame["start"], schedule.start)
    assert set(frame["fate"]) == {"on time"} and set(frame["group"]) == {"all"}
    result = ran("simulate")[1]["result"]
    assert result.to_pandas()["step"] == [4]
    runs = ran("run")[1]["runs"]
    frame, curves = runs.to_pandas(), runs.curves()
    assert frame["schedule.goal"] == [2] and frame["updates"] == [40] and frame["seed"] == [0]
    assert frame["total_accuracy"] == [runs[0].curve["total_accuracy"][-1]]
    np.testing.assert_array_equal(curves["step"], [10, 20])
    np.testing.assert_array_equal(curves["seed"], [0, 0])


def test_without_pandas_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for give in (st.schedule(FLEET, ROUNDS, updates=10).to_pandas, st.Runs().to_pandas):
        with pytest.raises(st.BadInput, match="pip install pandas"):
            give()


def test_experiments_of_one_name_have_folders_of_their_own(monkeypatch):
    """Trials that are there are not repeated; those of other settings are."""
    asked = []
    monkeypatch.setattr(
        "stragglers.runs.trials.run_missing", lambda jobs, *_: asked.extend(jobs) or []
    )
    experiment = ran("run")[1]["experiment"]
    other = experiment.replace({"client.batch_size": 10})
    runs = st.run([experiment, other, experiment], out="runs", trials=2)
    assert len({job.folder for job in asked}) == len(asked) == 4
    assert all(job.experiment.hash in job.label for job in asked if job.experiment.seed == 0)
    assert [(run.hash, run.seed) for run in runs] == [(experiment.hash, 0)]


def test_a_table_in_a_notebook_is_html_and_escaped():
    clients = st.clients(10, examples=st.Constant(5), groups={"<b>": 1.0})
    schedule = st.schedule(st.Fleet(clients, st.PER_EXAMPLE), ROUNDS, updates=10)
    page = st.summarise(schedule)._repr_html_()
    assert ">&lt;b&gt;</td>" in page and page.count("<table>") == 1
