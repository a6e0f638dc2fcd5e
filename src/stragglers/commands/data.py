"""stragglers data: what a task's data is, and where to get it."""

import argparse

from stragglers.commands import base
from stragglers.errors import BadInput
from stragglers.files import checked_path


def add(commands: base.Commands) -> None:
    parser = base.add(commands, "data", "what a task's data is, and where to get it")
    parser.add_argument("task", metavar="TASK", help="emnist, cifar100, stackoverflow or glyphs")
    parser.add_argument("--path", metavar="DIR", help="its files, default: $STRAGGLERS_DATA")
    parser.add_argument("--download", action="store_true", help="fetches what is not there yet")
    parser.add_argument("--file", metavar="NAME", help="which of the public files to fetch")
    parser.add_argument("--figure", metavar="FILE", help="draws some of it: .png, .pdf or .svg")
    base.add_set(parser)
    parser.set_defaults(run=data)


def data(options: argparse.Namespace) -> None:
    """Prints what a task's data is; fetches it first if asked to."""
    from stragglers import describe

    picture = checked_path(options.figure) if options.figure else None
    place = describe.folder(options.task, options.path)
    if options.download:
        describe.fetch(options.task, place, options.file)
    elif options.file:
        raise BadInput(f"--file {options.file} says what to fetch; add --download")
    opened = describe.opened(options.task, place, options.set)
    summary = describe.summarise(opened)
    if picture:
        from stragglers import samples
        from stragglers.report import figures

        words = describe.words(opened)
        drawn = samples.page(opened.task, words) if words else samples.sheet(opened.task)
        figures.save(drawn, picture)
    if options.json:
        print(base.json(summary))
        return
    from stragglers.report import inventory

    inventory.print_data(summary)
    if picture:
        print(f"picture: {picture}")
