"""The command line: parse, build, call, print."""

import argparse
import difflib
import itertools
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from stragglers import __version__, config
from stragglers.checkpoint import EVERY_MINUTES
from stragglers.errors import BadInput, about, did_you_mean
from stragglers.files import checked_path, output_folder
from stragglers.stopping import Interrupted

if TYPE_CHECKING:
    from stragglers.workers import Terms

DEFAULT_PRESET = "fleet"
DEMO = ["fedavg", "fedadam", "fedadam-over-selection", "fedbuff-ema", "fare-dust", "feast"]
DEMO_TRIALS = 3
SINKS = ("tensorboard", "wandb")
FORMATS = ("text", "markdown", "latex", "csv", "json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; bad input is one line on standard error and exit code 2."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
        options.run(options)
        sys.stdout.flush()
    except BadInput as error:
        print(f"stragglers: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        print("stragglers: interrupted", file=sys.stderr)
        return 130
    except Interrupted as signal:
        print("stragglers: interrupted; the same command goes on", file=sys.stderr)
        return 128 + signal.number
    return 0


def plan(options: argparse.Namespace) -> None:
    """Prints the schedule's consequences: no data, no training."""
    document = _document(options.preset, options)
    if options.sweep:
        if options.figure:
            raise BadInput("--figure draws one plan; leave out --sweep")
        _sweep(options, document)
        return
    picture = checked_path(options.figure) if options.figure else None
    with about(options.preset):
        summary, clients, schedule, latencies = _summary(document)
    if picture:
        from stragglers.report import figures, timeline

        figures.save(timeline.plan_figure(clients, schedule, latencies, options.preset), picture)
    if options.json:
        print(_json({"preset": options.preset, **summary}))
        return
    from stragglers.report import tables

    tables.print_plan(options.preset, summary)
    if picture:
        print(f"picture: {picture}")


def _sweep(options: argparse.Namespace, document: dict[str, Any]) -> None:
    with about(options.preset):
        paths, rows = _swept(options.sweep, document)
    if options.json:
        print(_json({"preset": options.preset, "sweep": rows}))
        return
    from stragglers.report import tables

    leaves = [path.rsplit(".", 1)[-1] for path in paths]
    keys = leaves if len(set(leaves)) == len(leaves) else paths
    tables.print_sweep(options.preset, keys, rows)


def _swept(
    sweep: Sequence[str], document: dict[str, Any]
) -> tuple[list[str], list[dict[str, Any]]]:
    """The paths that are swept, and a plan's numbers for each combination of their values."""
    axes = []
    for assignment in sweep:
        name, _, values = assignment.partition("=")
        if not values:
            raise BadInput(f"--sweep {assignment!r} given, expected key=value,value,...")
        path = config.full_path(document, name.strip())
        axes.append([(path, value.strip()) for value in values.split(",")])
    paths = [axis[0][0] for axis in axes]
    for one, other in itertools.combinations(paths, 2):
        if one == other or any({one, other} <= group for group in config.ALTERNATIVES):
            raise BadInput(f"--sweep {one} and --sweep {other} exclude each other; give one")
    documents = []
    for chosen in itertools.product(*axes):
        swept = document
        for path, value in chosen:
            swept = config.override(swept, f"{path}={value}")
        documents.append(({path: config.value_of(value) for path, value in chosen}, swept))
    return paths, [{"set": chosen, **_summary(swept)[0]} for chosen, swept in documents]


def _summary(document: dict[str, Any]) -> tuple[Any, ...]:
    """A plan's numbers, and the population, schedule and latencies that they come from."""
    from stragglers import build
    from stragglers.plan import summarise

    experiment = config.experiment_from(document)
    clients = build.clients(experiment.task, experiment.seed)
    schedule = build.timetable(experiment, clients)
    latencies = build.latencies(experiment, clients)
    summary = {
        **summarise(clients, schedule, latencies),
        "paper_time_s": experiment.paper.time_s if experiment.paper else None,
        "paper_anomaly": experiment.paper.anomaly if experiment.paper else None,
        "policy": build.policy(experiment.schedule),
        "seed": experiment.seed,
    }
    return summary, clients, schedule, latencies


def run(options: argparse.Namespace) -> None:
    """Trains what is missing, then prints the table, draws the accuracy and writes the page."""
    from stragglers import records, trials
    from stragglers.report import figures, page, tables

    count, terms = _checked_run(options, default=1 if options.presets else DEMO_TRIALS)
    experiments = _experiments(options)
    folder = output_folder(options.out)
    jobs = trials.jobs_of(experiments, count, folder)
    there = len(jobs) - len(trials.missing(jobs))
    if there:
        print(
            f"stragglers: {there} of {len(jobs)} trials are there already; "
            "to repeat one, delete its folder",
            file=sys.stderr,
        )
    left = trials.run_missing(jobs, options.processes, terms, options.together)
    found = [records.load(job.folder) for job in jobs if records.is_over(job.folder)]
    picture, about_all = folder / "accuracy.png", folder / "report.html"
    if found:
        figures.save(figures.accuracy_figure(found), picture)
        page.save(found, about_all)
    if options.json:
        print(_json({"runs": [records.as_json(record) for record in found],
                     "left": [job.label for job in left]}))  # fmt: skip
        return
    if found:
        tables.print_results(found)
        print(f"runs: {folder}\npicture: {picture}\npage: {about_all}")
    if left:
        print(f"{len(left)} of {len(jobs)} trials are left; the same command goes on with them")


def _checked_run(options: argparse.Namespace, default: int) -> tuple[int, "Terms"]:
    """How many trials, and on which terms."""
    from stragglers.workers import Terms

    count = default if options.trials is None else options.trials
    for name, value in (
        ("trials", count),
        ("processes", options.processes or 1),
        ("together", options.together or 1),
    ):
        if value < 1:
            raise BadInput(f"{name}={value}, expected at least 1")
    if not options.minutes > 0:
        raise BadInput(f"minutes={options.minutes:g}, expected more than 0")
    if not options.checkpoint_minutes >= 0:
        raise BadInput(f"checkpoint-minutes={options.checkpoint_minutes:g}, expected 0 or more")
    deadline = time.time() + 60 * options.minutes
    return count, Terms(deadline, 60 * options.checkpoint_minutes, options.allow_drift)


def _experiments(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The documents to train on, by name; mistakes are found before any training."""
    from stragglers import build

    demo = [f"glyphs/per-domain/{row}" for row in DEMO]
    sources, twice = config.expand(options.presets or demo)
    for name in twice:
        print(f"stragglers: {name} is given twice; it is trained once", file=sys.stderr)
    documents = {name: _document(source, options) for name, source in sources.items()}
    for name, document in documents.items():
        with about(sources[name]):
            experiment = config.experiment_from(document)
            build.check_trainable(experiment)
            build.prepare_data(experiment.task)
    return documents


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
        print(_json(summary))
        return
    from stragglers.report import inventory

    inventory.print_data(summary)
    if picture:
        print(f"picture: {picture}")


def _document(source: str, options: argparse.Namespace) -> dict[str, Any]:
    """A preset with everything that was asked for on the command line, checked."""
    document = config.read(source)
    with about(source):
        if options.reading:
            document = config.with_reading(document, options.reading)
        document = config.override_all(document, options.set)
        if options.updates is not None:
            document = config.override(document, f"updates={options.updates}")
        document = _with_data(document, source, options.path)
        if options.seed is not None:
            document = config.override(document, f"seed={options.seed}")
        config.experiment_from(document)
    return document


def _with_data(document: dict[str, Any], source: str, path: str | None) -> dict[str, Any]:
    """The document with the folder of its task's data: given, its own, or of the environment."""
    if not config.takes_data(document):
        if path is not None:
            raise BadInput(f"--path {path}: {source} reads no data; leave it out")
        return document
    folder = path or document["task"].get("path") or os.environ.get("STRAGGLERS_DATA")
    return config.override(document, f"task.path={_json(folder)}") if folder else document


def list_presets(options: argparse.Namespace) -> None:
    """Prints the presets, one a line."""
    names = config.presets()
    if options.json:
        print(_json({"presets": names}))
        return
    print("\n".join(names))


def table(options: argparse.Namespace) -> None:
    """Prints the paper's table of finished runs."""
    from stragglers import records
    from stragglers.report import formats, results, statistics

    chosen = results.Options(
        interval=statistics.checked_interval(options.interval, options.level),
        targets=tuple(map(results.parsed_target, options.target)),
        reference=options.compare,
        best=options.best,
    )
    found = results.tables(records.find(options.runs), chosen)
    print(formats.FORMATS["json" if options.json else options.format](found, chosen), end="")


def report(options: argparse.Namespace) -> None:
    """Writes one page about finished runs, and the figures as files if asked to."""
    page_path = checked_path(options.out, (".html",))
    folder = output_folder(options.figures) if options.figures else None
    from stragglers import records
    from stragglers.report import page

    found = records.find(options.runs)
    page.save(found, page_path)
    written = [page_path]
    if folder:
        written += _figures(found, folder, options.figure_format)
    if options.json:
        print(_json({"written": [str(path) for path in written]}))
        return
    print("\n".join(str(path) for path in written))


def _figures(found: list[Any], folder: Path, suffix: str) -> list[Path]:
    """Everything that can be drawn of some runs; plans are made again from their settings."""
    from stragglers.report import figures, timeline

    drawn = figures.result_figures(found)
    for name, trial in figures.to_plan(found).items():
        try:
            _, clients, schedule, latencies = _summary(trial.settings)
        except BadInput as error:
            print(f"stragglers: no {name}: {error}", file=sys.stderr)
            continue
        drawn[name] = timeline.plan_figure(clients, schedule, latencies, trial.name)
    paths = [folder / f"{name}.{suffix}" for name in drawn]
    for path, figure in zip(paths, drawn.values(), strict=True):
        figures.save(figure, path)
    return paths


def export(options: argparse.Namespace) -> None:
    """Hands the curves of runs on to TensorBoard or Weights & Biases."""
    from stragglers import records
    from stragglers.report import sinks

    found = records.find(options.runs)
    new, going = sinks.export(found, options.to, output_folder(options.out))
    if options.json:
        print(_json({"runs": len(found), "new": new, "unfinished": going}))
        return
    print(f"{new} of {len(found)} runs handed on to {options.to}, in {options.out}")
    if going:
        print(f"{going} unfinished; the same command hands them on later")


def tune(options: argparse.Namespace) -> None:
    """Searches for the best settings of a preset; leaves a preset and a page about all of them."""
    from stragglers import build, files, tomlfile
    from stragglers import tune as tuning
    from stragglers.report import page, tables

    count, terms = _checked_run(options, default=1)
    if options.proposals is not None and options.proposals < 1:
        raise BadInput(f"proposals={options.proposals}, expected at least 1")
    objective = tuning.parsed_objective(options.objective)
    sources, _ = config.expand([options.preset])
    if len(sources) > 1:
        raise BadInput(f"{options.preset} is {len(sources)} presets; one is tuned at a time")
    ((name, source),) = sources.items()
    document = _document(source, options)
    row = name.rsplit("/", 1)[-1]
    grid = tuning.read_grid(options.grid or f"{document['latency']['model']}/{row}")
    with about(source):
        build.check_trainable(config.experiment_from(document))
        grid = tuning.checked_grid(document, grid)
    folder = output_folder(options.out)
    train = tuning.Trainer(name, count, folder, options.processes, terms, options.together)
    try:
        best, history = tuning.tune(document, grid, objective, train, options.proposals)
    except tuning.Unfinished:
        print("the time is over; the same command goes on with what is left")
        return
    preset, about_all = folder / name / "tuned.toml", folder / name / "tune.html"
    text = tomlfile.dumps(config.resolved(config.experiment_from(best)))
    files.write(preset, lambda path: Path(path).write_text(text, encoding="utf-8"))
    page.save(list(train.found.values()), about_all)
    if options.json:
        searches = [[{"set": c.chosen, "value": c.value} for c in tried] for tried in history]
        print(_json({"objective": objective._asdict(), "searches": searches,
                     "preset": str(preset), "page": str(about_all)}))  # fmt: skip
        return
    tables.print_search(name, objective.name, history)
    print(f"preset: {preset}\npage: {about_all}")


def _json(document: Any) -> str:
    """One line; infinity, which JSON lacks, becomes null."""
    return msgspec.json.encode(document).decode()


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="stragglers", description="Federated learning with slow clients: time is data."
    )
    parser.add_argument("--version", action="version", version=f"stragglers {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    planning = commands.add_parser(
        "plan",
        help="how long training takes, who takes part and who is too late: no data, no training",
    )
    planning.add_argument(
        "preset",
        nargs="?",
        default=DEFAULT_PRESET,
        help=f"a preset (see `stragglers list`) or a .toml file; default {DEFAULT_PRESET}",
    )
    planning.add_argument(
        "--sweep", action="append", default=[], metavar="KEY=V1,V2,...",
        help="a table over several values of a setting; give it twice for all combinations",
    )  # fmt: skip
    planning.add_argument("--figure", metavar="FILE", help="draws it: .png, .pdf or .svg")
    planning.set_defaults(run=plan, path=None)

    running = commands.add_parser("run", help="train: by default, six algorithms on glyphs")
    looking = commands.add_parser("data", help="what a task's data is, and where to get it")
    looking.add_argument("task", metavar="TASK", help="emnist, cifar100, stackoverflow or glyphs")
    looking.add_argument("--path", metavar="DIR", help="its files, default: $STRAGGLERS_DATA")
    looking.add_argument("--download", action="store_true", help="fetches what is not there yet")
    looking.add_argument("--file", metavar="NAME", help="which of the public files to fetch")
    looking.add_argument("--figure", metavar="FILE", help="draws some of it: .png, .pdf or .svg")
    looking.set_defaults(run=data)

    running.add_argument(
        "presets", nargs="*", metavar="PRESET",
        help="presets, beginnings of presets such as glyphs, .toml files, folders of them, or all",
    )  # fmt: skip
    running.set_defaults(run=run)

    tuning = commands.add_parser("tune", help="search for a preset's best settings")
    tuning.add_argument("preset", metavar="PRESET", help="a preset or a .toml file")
    tuning.add_argument("--grid", help="a .toml file of searches; default: what the paper scanned")
    tuning.add_argument(
        "--objective", default="straggler", metavar="WHAT",
        help="straggler accuracy (default), total, balance, or balance=WEIGHT of the former",
    )  # fmt: skip
    tuning.add_argument(
        "--proposals", type=int, help="so many of Optuna's, instead of the whole grid"
    )
    tuning.set_defaults(run=tune)
    for command in (running, tuning):
        command.add_argument(
            "--path", metavar="DIR", help="the task's data; default: $STRAGGLERS_DATA"
        )
        command.add_argument("--trials", type=int, help="with seeds seed, seed + 1, ...")
        command.add_argument("--processes", type=int, help="trials at once, default: what fits")
        command.add_argument(
            "--together",
            type=int,
            help="trials in one program, default: what fills an accelerator, 1 on a CPU",
        )
        command.add_argument(
            "--minutes", type=float, default=math.inf,
            help="stops then; what is under way is kept, and the same command goes on",
        )  # fmt: skip
        command.add_argument(
            "--checkpoint-minutes", type=float, default=EVERY_MINUTES, metavar="M",
            help=f"between two checkpoints of a trial, default {EVERY_MINUTES:g}",
        )  # fmt: skip
        command.add_argument(
            "--allow-drift", action="store_true",
            help="goes on from checkpoints of other versions or devices, and says so in run.json",
        )  # fmt: skip
        command.add_argument(
            "--out", default="runs", metavar="DIR",
            help="for run folders, default runs; trials that are there are not repeated",
        )  # fmt: skip
    for command in (planning, running, tuning, looking):
        command.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="changes a setting"
        )
    for command in (planning, running, tuning):
        command.add_argument("--updates", help="the budget, in client updates")
        command.add_argument("--seed", help="of clients, latencies and weights, default 0")
        command.add_argument("--reading", help="another reading of the paper: literal")

    showing = commands.add_parser("table", help="the paper's table of runs: medians, intervals")
    showing.add_argument("--format", choices=FORMATS, default="text", help="default text")
    showing.add_argument(
        "--interval", choices=("range", "median-ci"), default="range",
        help="range over trials (default), or confidence interval of the median",
    )  # fmt: skip
    showing.add_argument("--level", type=float, default=0.9, help="of the interval, default 0.9")
    showing.add_argument(
        "--target", action="append", default=[], metavar="GROUP=SHARE",
        help="adds the time to an accuracy, such as total=0.8",
    )  # fmt: skip
    showing.add_argument("--compare", metavar="ALGORITHM", help="tests all others against it")
    showing.add_argument("--best", action="store_true", help="best points instead of final ones")
    showing.set_defaults(run=table)

    reporting = commands.add_parser("report", help="one page about runs: tables, figures, settings")
    reporting.add_argument("--out", default="report.html", metavar="FILE", help="the page")
    reporting.add_argument("--figures", metavar="DIR", help="the figures as files, too")
    reporting.add_argument(
        "--figure-format", choices=("pdf", "svg", "png"), default="pdf", help="default pdf"
    )
    reporting.set_defaults(run=report)

    exporting = commands.add_parser("export", help="hand runs on to TensorBoard or W&B")
    exporting.add_argument("--to", choices=SINKS, required=True, help="each needs its extra")
    exporting.add_argument("--out", default="exported", metavar="DIR", help="default exported")
    exporting.set_defaults(run=export)
    for command in (showing, reporting, exporting):
        command.add_argument("runs", nargs="+", metavar="RUNS", help="folders of runs")

    listing = commands.add_parser("list", help="the presets")
    listing.set_defaults(run=list_presets)
    for command in (planning, running, tuning, looking, showing, reporting, exporting, listing):
        command.add_argument("--json", action="store_true", help="prints one JSON object instead")
    return parser


class _OneLineParser(argparse.ArgumentParser):
    """argparse, with mistakes as one line and the nearest option named."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see {self.prog} --help)")

    def parse_args(self, args: Any = None, namespace: Any = None) -> argparse.Namespace:  # pyright: ignore
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            commands = [a for a in self._actions if isinstance(a, argparse._SubParsersAction)]
            parsers = [parser for command in commands for parser in command.choices.values()]
            flags = {flag for parser in parsers for flag in parser._option_string_actions}
            raise BadInput(_unknown(unknown[0], flags))
        return options


def _unknown(argument: str, flags: set[str]) -> str:
    if argument in flags:
        return f"{argument!r} is an option of another command (see --help)"
    if difflib.get_close_matches(argument, flags, cutoff=0.7):
        return f"unknown argument {argument!r}; {did_you_mean(argument, flags)}"
    return f"unknown argument {argument!r}; settings are changed with --set KEY=VALUE (see --help)"


if __name__ == "__main__":
    sys.exit(main())
