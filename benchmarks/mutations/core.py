"""Mistakes in _core/ that the tests must notice: see mutants.py."""

from benchmarks.mutations.mutation import Mutation

MUTATIONS = [
    Mutation(
        "keys",
        "_core/random_streams.py",
        "generator(seed, purpose, block).random(BLOCK)",
        "generator(seed, purpose, 0).random(BLOCK)",
        "every block of draws is the first",
    ),
    # What is on the disk, and when.
    Mutation(
        "disk",
        "_core/files.py",
        "    sync(temporary)\n"
        "    if inside is not None and place.is_dir():  # which a rename would not replace\n"
        "        _remove(place)\n    os.replace(temporary, place)\n",
        "    os.replace(temporary, place)\n    sync(place)\n",
        "a name may point to an empty file",
    ),
    Mutation(
        "disk",
        "_core/files.py",
        "    for file in inside or ():\n        sync(file)\n",
        "",
        "a checkpoint's files may be empty",
    ),
    # Algorithms of one's own.
    Mutation(
        "own",
        "_core/own_files.py",
        "module = _module(file, digest(sources(file)))",
        'module = _module(file, "")',
        "changed code is the old one",
    ),
    Mutation(
        "seals",
        "_core/seals.py",
        "    return content == _with_seal(content[: -len(_with_seal(END))] + END)\n",
        "    return b'\"seal\"' in content\n",
        "any seal is whole",
    ),
]
