"""Files of users that were written for version 0.1.0 work, or are told the new path in one line."""

import importlib
import subprocess
import sys

import pytest

from stragglers._core.moved import NEW_ATTRIBUTES, NEW_NAMES, NEW_PATHS

# What files of users' own algorithms could import by a path that is as it was.
KEPT = {
    "algorithms.base": "Params Open State Sum Starting Download Algorithm Mean BY_WEIGHT download "
    "plus moves descend nothing_to_settle with_ema all_of",
    "algorithms.fedavg": "FedAvgCore fedavg semi_async",
    "algorithms.feast": "FeastCore FeastOpen feast",
    "algorithms.fare_dust": "FareDustCore fare_dust",
    "algorithms.trees": "zeros_like add subtract scale blend where cast finite zero_rows row "
    "set_row of_trial set_trial named from_named copy",
    "tasks.base": "Lesson Task cross_entropy is_right of_clients checksum check",
    "tasks.glyphs": "glyphs ink MODEL",
    "tasks.emnist": "emnist",
    "tasks.cifar100": "cifar100",
    "tasks.stackoverflow": "stackoverflow",
}


@pytest.mark.parametrize("home", KEPT)
def test_what_algorithms_import_is_where_it_was(home):
    module = importlib.import_module(f"stragglers.{home}")
    assert [name for name in KEPT[home].split() if not hasattr(module, name)] == []


@pytest.mark.parametrize("old", NEW_PATHS)
def test_every_way_to_import_an_old_path_names_the_new_one(old):
    told = f"^{old} is {NEW_PATHS[old]} since version 0.2.0; change the import"
    with pytest.raises(ModuleNotFoundError, match=told) as refused:
        importlib.import_module(old)
    assert "\n" not in str(refused.value)
    with pytest.raises(ModuleNotFoundError, match=told):
        exec(f"import {old}.inside", {})
    importlib.import_module(NEW_PATHS[old])


@pytest.mark.parametrize("old", NEW_PATHS)
def test_a_module_that_is_taken_from_the_package(old):
    """`from stragglers import latency`; some old names of modules are public names today."""
    package, _, name = old.rpartition(".")
    import stragglers as st

    if name in st.__all__:
        exec(f"from {package} import {name}", {})
        return
    with pytest.raises(ImportError, match=f"^{old} is {NEW_PATHS[old]} since version 0.2.0"):
        exec(f"from {package} import {name}", {})


@pytest.mark.parametrize("old", NEW_ATTRIBUTES)
def test_every_name_that_a_package_no_longer_has_is_where_it_is_said_to_be(old):
    module, _, name = old.rpartition(".")
    with pytest.raises(AttributeError, match=f"^{old} is {NEW_ATTRIBUTES[old]} since"):
        getattr(importlib.import_module(module), name)
    home, _, name = NEW_ATTRIBUTES[old].rpartition(".")
    assert callable(getattr(importlib.import_module(home), name))


def test_every_new_name_is_of_a_module_that_moved():
    assert NEW_NAMES.keys() <= NEW_PATHS.keys()


@pytest.mark.parametrize("name", ["nothing_like_this", "_private"])
def test_other_names_are_refused_as_python_does(name):
    with pytest.raises(ModuleNotFoundError, match=f"No module named 'stragglers.{name}'"):
        importlib.import_module(f"stragglers.{name}")
    with pytest.raises(ImportError, match="cannot import name"):
        exec(f"from stragglers import {name}", {})
    with pytest.raises(AttributeError, match="has no attribute"):
        getattr(importlib.import_module("stragglers.config"), name)


def test_a_script_ends_with_that_line():
    script = "from stragglers import latency, rounds"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: stragglers.latency is stragglers.planning.latency since version "
        "0.2.0; change the import"
    )
