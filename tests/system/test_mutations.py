"""The mutations of benchmarks/mutants.py fit the sources: each has exactly one place."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.mutants import NEAR
from benchmarks.mutations import MUTATIONS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: f"{m.file}: {m.why}")
def test_a_mutation_has_one_place_and_tests_that_are_near(mutation):
    source = (ROOT / "src" / "stragglers" / mutation.file).read_text()
    assert source.count(mutation.old) == 1 and mutation.new != mutation.old
    assert all((ROOT / "tests" / f"{name}.py").exists() for name in NEAR[mutation.file])
    compile(source.replace(mutation.old, mutation.new), mutation.file, "exec")


def test_there_are_enough_of_each_kind():
    kinds = Counter(mutation.kind for mutation in MUTATIONS)
    assert len(MUTATIONS) >= 40 and len(kinds) >= 10 and min(kinds.values()) >= 3
