"""Experiments as values: names, hashes and changes from Python."""

import pytest

from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.planning.distributions import LogNormal
from stragglers.planning.faults import Faults
from stragglers.planning.latency import PER_EXAMPLE
from stragglers.planning.policy import Buffer

FEAST = catalog.preset("glyphs/per-domain/feast")
CHANGES = {
    "kappa=0.2": {"kappa": 0.2},
    "schedule.goal=7": {"schedule.goal": 7},
    "late_rounds=5": {"late_rounds": 5},
    "seed=3": {"seed": 3},
    "server.optimizer=sgd": {"server.optimizer": "sgd"},
}


@pytest.mark.parametrize("assignment", CHANGES)
def test_replace_is_set_of_the_command_line(assignment):
    document = documents.override(catalog.read(FEAST.name), assignment)
    assert FEAST.replace(CHANGES[assignment]) == documents.settings_from(document)


def test_neither_names_nor_reprs_change_a_hash():
    assert FEAST.named("other").hash == FEAST.hash and FEAST.named("other") == FEAST
    assert FEAST.replace().hash == FEAST.hash and FEAST.replace(seed=9).hash == FEAST.hash
    assert FEAST.replace(kappa=0.2).hash != FEAST.hash
    assert FEAST.replace(kappa=0.2).replace(kappa=FEAST.algorithm.kappa).hash == FEAST.hash


def test_a_name_stays_through_changes():
    assert FEAST.name == "glyphs/per-domain/feast"
    assert FEAST.replace(kappa=0.2).name == FEAST.name
    assert FEAST.named("mine/feast-2").replace(kappa=0.2).name == "mine/feast-2"
    assert documents.settings_from(FEAST.document).name == "experiment"


def test_whole_sections_are_given_and_taken_away():
    faulty = FEAST.replace(faults=Faults(crash=0.1), latency=PER_EXAMPLE)
    assert faulty.faults == Faults(crash=0.1) and faulty.latency == PER_EXAMPLE
    assert faulty.replace(faults=None).faults is None
    buffered = catalog.preset("glyphs/per-domain/fedbuff-ema").replace(
        schedule=Buffer(size=3, concurrency=5)
    )
    assert buffered.schedule == Buffer(size=3, concurrency=5)


def test_what_is_no_longer_the_papers_has_no_row_of_it():
    paper = catalog.preset("cifar100/per-domain/feast")
    assert paper.paper and paper.replace(seed=4).paper
    assert paper.replace(kappa=0.2).paper is None
    assert paper.replace(faults=Faults(crash=0.1)).paper is None


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../b", ".a", "a b", "ä", 3])
def test_a_name_is_one_of_folders(name):
    with pytest.raises(BadInput, match="not a name of folders"):
        FEAST.named(name)


def test_sections_print_as_one_would_type_them():
    assert repr(LogNormal(median=8, sigma=0.5)) == "LogNormal(median=8, sigma=0.5)"
    assert repr(FEAST.replace(faults=Faults(crash=0.1)).faults) == "Faults(crash=0.1)"


def test_a_file_is_named_by_itself(tmp_path):
    path = tmp_path / "my run.toml"
    source = catalog._folder() / "glyphs/per-domain/feast.toml"
    path.write_text(source.read_text())
    assert catalog.preset(str(path)).name == "my-run" and catalog.preset(str(path)) == FEAST
