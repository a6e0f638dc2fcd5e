"""python -m reproduction: docs/reproduction.md and its picture, from results/ alone.

python -m reproduction run [NAME ...]: trains what is missing of rows and open points, and keeps it.
"""

import argparse
import os
import sys
from pathlib import Path

from reproduction import document, picture, rows
from stragglers import config, files, records
from stragglers.commands import base
from stragglers.errors import BadInput, about

DOCS = rows.HERE.parent / "docs"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m reproduction", description=__doc__)
    commands = parser.add_subparsers(title="commands")
    train = commands.add_parser("run", help="train what is missing, and keep it in results/")
    train.add_argument(
        "names", nargs="*", metavar="NAME", help="beginnings of presets, open points"
    )
    base.add_training(train)
    train.set_defaults(run=run)
    parser.set_defaults(run=write)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except BadInput as error:
        print(f"reproduction: {error}", file=sys.stderr)
        return 2
    return 0


def write(options: argparse.Namespace) -> None:
    text = document.document()
    files.write(DOCS / "reproduction.md", lambda temporary: Path(temporary).write_text(text))
    picture.save(rows.found(), DOCS / "reproduction.svg")


def run(options: argparse.Namespace) -> None:
    from stragglers import build, trials

    count, terms = base.checked_training(options, default=1)
    out = files.output_folder(options.out)
    folder = options.path or os.environ.get("STRAGGLERS_DATA")
    jobs = []
    for variant in rows.chosen(options.names):
        document = variant.document
        if folder:
            document = config.override(document, f"task.path={base.json(folder)}")
        with about(variant.preset):
            build.prepare_data(config.experiment_from(document).task)
        jobs += [
            job._replace(label=", ".join([job.label, *variant.sets]))
            for job in trials.jobs_of({variant.preset: document}, count, out)
            if not records.is_over(rows.RESULTS / job.name / job.folder.name)
        ]
    left = trials.run_missing(jobs, options.processes, terms, options.together)
    for job in jobs:
        if job not in left:
            print(f"kept: {records.put_away(job.folder, rows.RESULTS)}")
    print(f"{len(jobs) - len(left)} trials kept, {len(left)} left; `python -m reproduction` writes")


if __name__ == "__main__":
    sys.exit(main())
