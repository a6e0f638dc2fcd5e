"""stragglers table, report and export: run folders as numbers, as a page, for other tools."""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stragglers._core.errors import BadInput
from stragglers._core.files import checked_path, output_folder
from stragglers.cli import common

if TYPE_CHECKING:
    from stragglers.config.settings import Experiment
    from stragglers.planning.population import Population

FORMATS = ("text", "markdown", "latex", "csv", "json")
SINKS = ("tensorboard", "wandb")


def add(commands: common.Commands) -> None:
    _add_table(common.add(commands, "table", "the paper's table of runs: medians, intervals"))
    _add_report(common.add(commands, "report", "one page about runs: tables, figures, settings"))
    _add_export(common.add(commands, "export", "hand runs on to TensorBoard or W&B"))


def _add_runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="RUNS", help="folders of runs")


def _add_table(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="default text")
    parser.add_argument(
        "--interval",
        choices=("range", "median-ci"),
        default="range",
        help="range over trials (default), or confidence interval of the median",
    )
    parser.add_argument("--level", type=float, default=0.9, help="of the interval, default 0.9")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="GROUP=SHARE",
        help="adds the time to an accuracy, such as total=0.8",
    )
    parser.add_argument("--compare", metavar="ALGORITHM", help="tests all others against it")
    parser.add_argument("--best", action="store_true", help="best points instead of final ones")
    parser.add_argument(
        "--matched", action="store_true", help="adds prior-matched accuracies, where there are any"
    )
    parser.set_defaults(run=table)


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page")
    parser.add_argument("--figures", metavar="DIR", help="the figures as files, too")
    parser.add_argument(
        "--figure-format", choices=("pdf", "svg", "png"), default="pdf", help="default pdf"
    )
    parser.set_defaults(run=report)


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add_runs(parser)
    parser.add_argument("--to", choices=SINKS, required=True, help="each needs its extra")
    parser.add_argument(
        "--out", default="exported", metavar="DIR", type=common.folder_name, help="default exported"
    )
    parser.set_defaults(run=export)


def table(options: argparse.Namespace) -> None:
    """Prints the paper's table of finished runs."""
    from stragglers.report import formats, result_table, statistics
    from stragglers.runs import records

    chosen = result_table.Options(
        interval=statistics.checked_interval(options.interval, options.level),
        targets=tuple(map(result_table.parsed_target, options.target)),
        reference=options.compare,
        best=options.best,
        matched=options.matched,
    )
    read = records.find(options.runs)
    read.say()
    found = result_table.tables(read, chosen)
    print(formats.FORMATS["json" if options.json else options.format](found, chosen), end="")


def report(options: argparse.Namespace) -> None:
    """Writes one page about finished runs, and the figures as files if asked to."""
    page_path = checked_path(options.out, (".html",))
    folder = output_folder(options.figures) if options.figures else None
    from stragglers.report import page
    from stragglers.runs import records

    found = records.find(options.runs)
    found.say()
    page.save(found, page_path)
    written = [page_path]
    if folder:
        written += _figures(found, folder, options.figure_format)
    if options.json:
        print(common.json({"written": [str(path) for path in written]}))
        return
    print("\n".join(str(path) for path in written))


def _figures(found: list[Any], folder: Path, suffix: str) -> list[Path]:
    """Everything that can be drawn of some runs; plans are made again from their settings."""
    from stragglers.config import documents
    from stragglers.report import figures, figures_plan
    from stragglers.report.plans import summarised

    drawn = figures.result_figures(found)
    for name, trial in figures.to_plan(found).items():
        try:
            experiment = documents.settings_from(trial.document)
            _, schedule = summarised(experiment, _clients(experiment))
            trained = (trial.run.get("schedule") or {}).get("time_s", math.nan)
            if not math.isclose(schedule.end, trained, rel_tol=1e-6):
                raise BadInput("its clients are not those that are known without its data")
        except BadInput as error:
            print(f"stragglers: no {name}: {error}", file=sys.stderr)
            continue
        drawn[name] = figures_plan.plan_figure(schedule, trial.name)
    paths = [folder / f"{name}.{suffix}" for name in drawn]
    for path, figure in zip(paths, drawn.values(), strict=True):
        figures.save(figure, path)
    return paths


def _clients(experiment: "Experiment") -> "Population | None":
    """The clients of the data that a run was made with, if its settings say where that lies."""
    if getattr(experiment.task, "path", None) is None:
        return None
    from stragglers.runs import train

    return train.task(experiment.task).population


def export(options: argparse.Namespace) -> None:
    """Hands the curves of runs on to TensorBoard or Weights & Biases."""
    from stragglers.report import exports
    from stragglers.runs import records

    found = records.find(options.runs)
    found.say()
    new, going = exports.export(found, options.to, output_folder(options.out))
    if options.json:
        print(common.json({"runs": len(found), "new": new, "unfinished": going}))
        return
    print(f"{new} of {len(found)} runs handed on to {options.to}, in {options.out}")
    if going:
        print(f"{going} unfinished; the same command hands them on later")
