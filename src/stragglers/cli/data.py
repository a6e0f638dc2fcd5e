"""stragglers data: what a task's data is, and where to get it."""

import argparse

from stragglers._core.errors import BadInput
from stragglers._core.files import checked_path
from stragglers.cli import common


def add(commands: common.Commands) -> None:
    parser = common.add(commands, "data", "what a task's data is, and where to get it")
    parser.add_argument("task", metavar="TASK", help="emnist, cifar100, stackoverflow or glyphs")
    parser.add_argument("--path", metavar="DIR", help="its files, default: $STRAGGLERS_DATA")
    parser.add_argument("--download", action="store_true", help="fetches what is not there yet")
    parser.add_argument("--file", metavar="NAME", help="which of the public files to fetch")
    parser.add_argument("--figure", metavar="FILE", help="draws some of it: .png, .pdf or .svg")
    common.add_set(parser)
    parser.set_defaults(run=data)


def data(options: argparse.Namespace) -> None:
    """Prints what a task's data is; fetches it first if asked to."""
    from stragglers.runs import task_data

    picture = checked_path(options.figure) if options.figure else None
    place = task_data.folder(options.task, options.path)
    if options.download:
        task_data.fetch(options.task, place, options.file)
    elif options.file:
        raise BadInput(f"--file {options.file} says what to fetch; add --download")
    opened = task_data.opened(options.task, place, options.set)
    summary = task_data.summarise(opened)
    if picture:
        from stragglers.cli import data_figure
        from stragglers.report import figures

        words = task_data.words(opened)
        drawn = data_figure.page(opened.task, words) if words else data_figure.sheet(opened.task)
        figures.save(drawn, picture)
    if options.json:
        print(common.json(summary))
        return
    from stragglers.report import console_data

    console_data.print_data(summary)
    if picture:
        print(f"picture: {picture}")
