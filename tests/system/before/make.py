"""Makes the samples beside this file with version 0.1.0; README.md says how."""

import json
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, os.getcwd())  # the checkout of 0.1.0, whose tests have a fleet in virtual time
sys.path.append(str(HERE.parents[1] / "support"))

# As `stragglers run` has it.
os.environ.update(PJRT_NPROC="1", JAX_NUM_CPU_DEVICES="1", JAX_PLATFORMS="cpu")

import numpy as np
from kept_programs import processor

import stragglers
from stragglers import build, checkpoint, config, recording, records, run, settings
from stragglers.cli import main
from stragglers.coordinator import Rounds
from stragglers.models.mlp import mlp
from stragglers.tasks import glyphs

assert stragglers.__version__ == "0.1.0"
SMALL = ["writers=8", "goal=3", "updates=60", "evaluations=4", "curve_examples=100"]
SMALL += ["client.batch_size=4", "client.epochs=0.3"]
ROWS = {
    "fedadam": [],
    "fedbuff-ema": ["buffer=3", "concurrency=5"],
    "fare-dust": ["over_selection=1.7", "late_rounds=3"],
    "feast": ["over_selection=1.7"],
}


def documents():
    """Experiments by name; glyphs with a network of 330 weights, see `trained`."""
    for row, changes in ROWS.items():
        name = f"glyphs/per-domain/{row}"
        common = [given for given in SMALL if row != "fedbuff-ema" or "goal" not in given]
        yield name, config.override_all(config.read(name), [*common, *changes])
    own = config.override_all(config.read("glyphs/per-domain/fedadam"), SMALL)
    own["algorithm"] = {"name": "own", "file": str(HERE / "mine.py"), "function": "halfway"}
    yield "own", own


def record(out, name, document, seeds, stop):
    """Trains seeds in one program, and ends after a few chunks if asked to."""
    experiments = [config.experiment_from({**document, "seed": seed}) for seed in seeds]
    folders = [records.folder_of(out, name, config.resolved(each)) for each in experiments]
    try:
        recording.record(
            folders, [name] * len(seeds), experiments, on_start=lambda start: None,
            on_progress=lambda trial, progress: None, say=print, stop=stop,
        )  # fmt: skip
    except checkpoint.Kept:
        (found, _) = checkpoint.newest(folders[0])
        assert found.manifest.step > 0


def trained():
    glyphs.MODEL = mlp(hidden=(4,), pool=14)
    for name, document in documents():
        seeds = (0, 1) if name.endswith("/fedbuff-ema") else (0,)  # two in one program
        chunks = iter([False, False, True])
        record(HERE / "whole", name, document, seeds, lambda: False)
        record(HERE / "stopped", name, document, seeds, lambda: next(chunks))  # noqa: B023
    for folder in sorted((HERE / "whole").glob("glyphs/*/feast/*")):
        records.put_away(folder, HERE / "put_away")
    for path in HERE.rglob("*.toml"):  # where it was made matters to nobody
        path.write_text(path.read_text().replace(str(HERE), "."))
    for path in HERE.rglob("lock"):
        path.unlink()
    made_on = {name: version(name) for name in ("jax", "jaxlib")}
    (HERE / "made_on.json").write_text(json.dumps({**made_on, "processor": processor()}) + "\n")
    table = HERE / "table.json"
    with table.open("w") as file:
        before, sys.stdout = sys.stdout, file
        try:
            assert main(["table", str(HERE / "whole"), "--format", "json"]) == 0
        finally:
            sys.stdout = before


def served():
    """A server's folder after four of ten steps, and the model that it has after all ten."""
    from tests.fleet import ALGORITHMS, Fleet

    policy, delays, ends = Rounds(goal=3, cohort=3), np.array([1.0, 2, 3] * 50), {}
    for name, algorithm in ALGORITHMS.items():
        folder = HERE / "served" / name
        Fleet(delays).serve(algorithm, policy, seed=1, steps=4, folder=folder)
        whole = Fleet(delays).serve(algorithm, policy, seed=1)
        ends[name] = {leaf: array.tolist() for leaf, array in whole.model.items()}
    (HERE / "served" / "ends.json").write_text(json.dumps(ends, indent=1))


def prepared():
    """Caches of two tasks' files, by a path that is the same wherever they lie."""
    from tests.data import pictures, tiny

    home, here = HERE / "prepared", Path("/proc/self/cwd")
    home.mkdir()
    (home / "emnist").mkdir()
    pictures.emnist_hdf5(
        home / "emnist", pictures.drawings([2] * 3), pictures.drawings([1] * 3, seed=1)
    )
    tiny.folder(home, "stackoverflow")
    for path in home.rglob("*.h5"):
        os.utime(path, (1, 1))
    os.environ["STRAGGLERS_CACHE"] = str(home / "cache")
    os.chdir(home)
    tasks = [
        settings.Emnist(path=str(here / "emnist"), stragglers=1),
        settings.StackOverflow(path=str(here / "stackoverflow")),
    ]
    digests = {}
    for task in tasks:
        run.task(task)
        digests[task.__struct_config__.tag] = build.data_digest(task)
    (home / "digests.json").write_text(json.dumps(digests, indent=1) + "\n")
    for path in (home / "cache").rglob("*.lock"):
        path.unlink()


if __name__ == "__main__":
    for name in ("whole", "stopped", "put_away", "served", "prepared"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    trained()
    served()
    prepared()
