"""stragglers run: what is missing is trained; then a table, a picture and a page."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stragglers._core.errors import BadInput, about
from stragglers._core.files import output_folder
from stragglers.cli import common

if TYPE_CHECKING:
    from stragglers.config.settings import Experiment

DEMO = [
    "fedavg",
    "fedadam",
    "fedadam-over-selection",
    "fedbuff-ema",
    "semi-async",
    "semi-async-damped",
    "fare-dust",
    "feast",
]
DEMO_TRIALS = 3


def add(commands: common.Commands) -> None:
    parser = common.add(commands, "run", "train: by default, eight algorithms on glyphs")
    parser.add_argument(
        "presets",
        nargs="*",
        metavar="PRESET",
        help="presets, beginnings of presets such as glyphs, .toml files, folders of them, or all",
    )
    common.add_sweep(parser)
    common.add_training(parser)
    common.add_settings(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Trains what is missing, then prints the table, draws the accuracy and writes the page."""
    count, terms = common.checked_training(options, default=1 if options.presets else DEMO_TRIALS)
    experiments = _experiments(options, count)
    folder = output_folder(options.out)
    # A mistake does not wait for these.
    from stragglers.report import console_results, figures, page
    from stragglers.runs import records, trials
    from stragglers.runs.run import train

    every = [
        job._replace(label=", ".join(filter(None, [job.label, common.as_sets(chosen)])))
        for name, chosen, experiment in experiments
        for job in trials.jobs_of({name: experiment}, count, folder)
    ]
    # Values of a sweep that are equal, such as 1 and 1.0, are one experiment.
    jobs = list({job.folder: job for job in reversed(every)}.values())[::-1]
    left = train(jobs, options.processes, terms, options.together)
    found = [records.load(job.folder) for job in jobs if records.is_over(job.folder)]
    records.say_unsealed(found)
    picture, about_all = folder / "accuracy.png", folder / "report.html"
    if found:
        figures.save(figures.accuracy_figure(found), picture)
        page.save(_all_in(folder, found), about_all)
    if options.json:
        print(
            common.json(
                {
                    "runs": [records.as_json(record) for record in found],
                    "left": [job.label for job in left],
                }
            )
        )
        return
    if found:
        console_results.print_results(found)
        print(f"runs: {folder}\npicture: {picture}\npage: {about_all}")
    if left:
        print(f"{len(left)} of {len(jobs)} trials are left; the same command trains them")


def _all_in(folder: Path, found: list[Any]) -> list[Any]:
    """The page is about all runs of its folder, other commands' among them."""
    from stragglers.runs import records

    try:
        every = records.find([folder])
        for line in every.damaged:
            print(f"stragglers: {line}", file=sys.stderr)
        return every
    except BadInput as error:
        print(f"stragglers: the page is about these runs alone: {error}", file=sys.stderr)
        return found


def _experiments(
    options: argparse.Namespace, trials: int
) -> list[tuple[str, common.Chosen, "Experiment"]]:
    """Names, what a sweep has chosen, and experiments; mistakes are found before any training."""
    from stragglers.config import catalog, checks, documents, task_files

    demo = [f"glyphs/per-domain/{row}" for row in DEMO]
    sources, twice = catalog.expand(options.presets or demo)
    common.check_count(len(sources), options.sweep, trials)
    for name in twice:
        print(f"stragglers: {name} is given twice; it is trained once", file=sys.stderr)
    found, read = [], set()
    for name, source in sources.items():
        document = common.document(source, options)
        with about(source):
            for chosen, swept in common.swept(options.sweep, document):
                with about(common.as_sets(chosen)) if chosen else nullcontext():
                    experiment = documents.settings_from(swept)
                    checks.check_trainable(experiment)
                    if experiment.task not in read:
                        task_files.prepare_data(experiment.task, experiment.threads)
                read.add(experiment.task)
                found.append((name, chosen, experiment))
    return found
