"""python -m reproduction: reproduction.md, open-points.md, straggler-accuracy.md, their pictures.

python -m reproduction run [NAME ...]: trains what is missing of rows and open points, and keeps it.

python -m reproduction keep DIR ...: keeps what was trained elsewhere, out of its run folders.
"""

import argparse
import os
import sys
from pathlib import Path

from reproduction import data, document, picture, prior_pictures, rows
from stragglers._core import files
from stragglers._core.errors import BadInput, about
from stragglers.cli import common
from stragglers.config import documents
from stragglers.runs import records
from stragglers.runs.signals import Interrupted

DOCS = rows.HERE.parent / "docs" / "results"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__)
    commands = parser.add_subparsers(title="commands")
    train = commands.add_parser("run", help="train what is missing, and keep it in results/")
    train.add_argument(
        "names", nargs="*", metavar="NAME", help="beginnings of presets, open points"
    )
    common.add_training(train)
    train.set_defaults(run=run)
    take = commands.add_parser("keep", help="keep trials of other run folders in results/")
    take.add_argument("folders", nargs="+", metavar="DIR", help="with run folders in it or below")
    take.set_defaults(run=keep)
    parser.set_defaults(run=write)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except BadInput as error:
        print(f"reproduction: {error}", file=sys.stderr)
        return 2
    except Interrupted as signal:
        print("reproduction: interrupted; the same command resumes", file=sys.stderr)
        return 128 + signal.number
    return 0


def write(options: argparse.Namespace) -> None:
    pages = document.pages()
    for name, text in pages.text.items():
        files.write(DOCS / name, lambda temporary, text=text: Path(temporary).write_text(text))
    for sentence in pages.wrong:
        print(f"reproduction: no longer true, change it: {sentence}", file=sys.stderr)
    there = rows.found()
    picture.save(there, DOCS / "reproduction.svg")
    prior_pictures.save(there, DOCS)


def run(options: argparse.Namespace) -> None:
    from stragglers.runs import trials

    count, terms = common.checked_training(options, default=1)
    out = files.output_folder(options.out)
    folder = options.path or os.environ.get("STRAGGLERS_DATA")
    jobs, there = [], rows.found()
    known = data.checksums(trial for some in there.values() for trial in some)
    for variant in rows.chosen(options.names):
        document = variant.document
        if folder:
            document = documents.override(document, f"task.path={common.json(folder)}")
        with about(variant.preset):
            data.check(document, known)
        seeds = {trial.seed for trial in there.get(variant.key, [])}
        jobs += [
            job._replace(label=", ".join([job.label, *variant.sets]))
            for job in trials.jobs_of(
                {variant.preset: documents.settings_from(document)}, count, out
            )
            if job.experiment.seed not in seeds
        ]
    try:
        trials.run_missing(jobs, options.processes, terms, options.together)
    finally:  # also at a signal
        kept = [job for job in jobs if records.is_over(job.folder)]
        for job in kept:
            records.put_away(job.folder, rows.RESULTS)
        print(f"{len(kept)} of {len(jobs)} trials are kept; `python -m reproduction` has them said")


def keep(options: argparse.Namespace) -> None:
    wanted = {variant.key for variant in rows.chosen([])}
    found = rows.found()
    there = {(key, trial.seed) for key, trials in found.items() for trial in trials}
    known = data.checksums(trial for trials in found.values() for trial in trials)
    kept = 0
    trials = records.find(options.folders)
    trials.say()
    for trial in trials:
        key = rows.key_of(trial)
        if key not in wanted:
            why = "no row of the reproduction"
        elif trial.status == "running" or trial.is_cut or trial.warnings:
            why = "not whole"
        elif (key, trial.seed) in there:
            why = "there already"
        elif trial.data != (expected := known.setdefault(data.key_of(trial), trial.data)):
            why = data.other(trial.data, expected)
        else:
            records.put_away(trial.folder, rows.RESULTS)
            there.add((key, trial.seed))
            kept += 1
            continue
        print(f"{trial.folder}: {why}")
    print(f"{kept} trials are kept; `python -m reproduction` has them said")


if __name__ == "__main__":
    sys.exit(main())
