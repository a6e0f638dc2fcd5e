"""Small mistakes that the tests must notice, a file for each package of src: see mutants.py.

Each kind has three at least. A mistake is written down before it is tried. Its text follows its
source when that is rewritten; none is changed or left out because it survives, unless a comment
beside it says so and why.
"""

from benchmarks.mutations import (
    algorithms,
    config,
    core,
    planning,
    report,
    runs,
    serving,
    simulator,
)
from benchmarks.mutations.mutation import Mutation as Mutation

PACKAGES = (core, planning, algorithms, simulator, config, runs, report, serving)
MUTATIONS = [mutation for package in PACKAGES for mutation in package.MUTATIONS]
