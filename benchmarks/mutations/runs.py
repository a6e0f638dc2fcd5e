"""Mistakes in runs/ that the tests must notice: see mutants.py."""

from benchmarks.mutations.mutation import Mutation

MUTATIONS = [
    # Checkpoints.
    Mutation(
        "resume",
        "runs/recorder.py",
        "state._replace(curve=tuple(map(_point, evaluations(curve))))",
        "state._replace(curve=())",
        "a run that goes on forgets its points",
    ),
    Mutation(
        "resume",
        "runs/checkpoint.py",
        "if seals.digest_of(folder / name) != digest:",
        "if False:",
        "damaged files are taken",
    ),
    Mutation(
        "resume",
        "runs/checkpoint.py",
        "if name in NEVER or not allowed:",
        "if not allowed:",
        "another seed's checkpoint goes on",
    ),
    Mutation(
        "resume",
        "runs/checkpoint.py",
        "for old in _all(place)[KEEP:]:",
        "for old in _all(place)[KEEP - 1 :]:",
        "no older checkpoint to fall back to",
    ),
    Mutation(
        "disk",
        "runs/run_folder.py",
        "        os.fsync(curve.fileno())\n",
        "",
        "a point of the curve may be lost",
    ),
    Mutation(
        "numbers",
        "runs/run.py",
        "60 * checkpoint_minutes",
        "checkpoint_minutes",
        "minutes are taken for seconds",
    ),
    Mutation(
        "copies",
        "runs/run_folder.py",
        "        write(copy, content)\n    text = toml_files.dumps(settings).encode()\n",
        "        write(path, toml_files.dumps(settings).encode())\n"
        "        write(copy, content)\n    text = toml_files.dumps(settings).encode()\n",
        "settings may name a copy that is not there yet",
    ),
    Mutation(
        "copies",
        "runs/recorder.py",
        "if _hashes(experiments) != hashes:",
        "if False:",
        "a copy may be of what was not trained on",
    ),
    Mutation(
        "seals",
        "runs/run_json.py",
        "    if not weights:\n",
        "    if True:\n",
        "damaged weights are whole",
    ),
    Mutation(
        "seals",
        "runs/records.py",
        "    run_json.check_files(folder, run)\n    return True\n",
        "    return True\n",
        "a damaged trial counts as finished",
    ),
    Mutation(
        "seals",
        "runs/curve.py",
        "    whole = list(filter(_is_checked, every)) if is_checked else every\n",
        "    whole = every\n",
        "lines of a growing curve are not checked",
    ),
    Mutation(
        "seals",
        "runs/run_folder.py",
        "    if curves.is_damaged(curve):",
        "    if not curve:",
        "what was damaged in training is sealed",
    ),
    Mutation(
        "seals",
        "runs/run_folder.py",
        "    if _are_others(folder / SETTINGS, settings):",
        "    if not folder.exists():",
        "settings lie beside the seal of others",
    ),
    Mutation(
        "seals",
        "runs/verify.py",
        "    if settings_hash(record.document) != record.hash:",
        "    if not record.hash:",
        "damaged settings of older versions are sealed",
    ),
]
