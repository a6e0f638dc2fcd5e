"""Mistakes in config/ that the tests must notice: see mutants.py."""

from benchmarks.mutations.mutation import Mutation

MUTATIONS = [
    Mutation(
        "models",
        "config/settings.py",
        'ASIDE = ("ema", "average", "beta", "kappa")',
        'ASIDE = ("ema", "average", "beta", "kappa", "history")',
        "training is said not to depend on what teaches",
    ),
    # Copies of files that settings name.
    Mutation(
        "copies",
        "config/attached_files.py",
        'copy = f"copy-{own_files.digest(contents)[:12]}"',
        'copy = "copy"',
        "two files of one name meet",
    ),
]
