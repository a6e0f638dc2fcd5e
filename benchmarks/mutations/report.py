"""Mistakes in report/ that the tests must notice: see mutants.py."""

from benchmarks.mutations.mutation import Mutation

MUTATIONS = [
    # Statistics and units.
    Mutation(
        "numbers",
        "report/statistics.py",
        "        tail = 50 * (1 - interval.level)",
        "        tail = 100 * (1 - interval.level)",
        "a range of 90 % is one of 80 %",
    ),
    Mutation(
        "numbers",
        "report/statistics.py",
        "share = (target - before) / (after - before)",
        "share = 1.0",
        "the time to a target is that of the next point",
    ),
]
