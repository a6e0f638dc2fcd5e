"""The command line: parse, build, call, print."""

import argparse
import difflib
import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from stragglers import config, device
from stragglers.errors import BadInput, did_you_mean
from stragglers.report.files import checked_path, output_folder, write

DEFAULT_PRESET = "fleet"
DEMO = ["fedavg", "fedadam", "fedadam-over-selection", "fedbuff-ema", "fare-dust", "feast"]
DEMO_TRIALS = 3


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
    summary, clients, schedule, latencies = _summary(document)
    if picture:
        from stragglers.report import figures

        figures.save(figures.plan_figure(clients, schedule, latencies, options.preset), picture)
    if options.json:
        print(_json({"preset": options.preset, **summary}))
        return
    from stragglers.report import tables

    tables.print_plan(options.preset, summary)
    if picture:
        print(f"picture: {picture}")


def _sweep(options: argparse.Namespace, document: dict[str, Any]) -> None:
    axes = []
    for assignment in options.sweep:
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
    rows = [{"set": chosen, **_summary(swept)[0]} for chosen, swept in documents]
    if options.json:
        print(_json({"preset": options.preset, "sweep": rows}))
        return
    from stragglers.report import tables

    leaves = [path.rsplit(".", 1)[-1] for path in paths]
    keys = leaves if len(set(leaves)) == len(leaves) else paths
    tables.print_sweep(options.preset, keys, rows)


def _summary(document: dict[str, Any]) -> tuple[Any, ...]:
    """A plan's numbers, and the population, schedule and latencies that they come from."""
    from stragglers import build, latency
    from stragglers.plan import summarise

    experiment = config.experiment_from(document)
    clients = build.clients(experiment.task, experiment.seed)
    schedule = build.timetable(experiment, clients)
    communication, overhead, training = latency.one_epoch(
        clients, build.factors(experiment.latency), seed=experiment.seed
    )
    latencies = communication + overhead + training
    summary = {
        **summarise(clients, schedule, latencies),
        "paper_time_s": experiment.paper.time_s if experiment.paper else None,
        "paper_anomaly": experiment.paper.anomaly if experiment.paper else None,
        "policy": build.policy(experiment.schedule),
        "seed": experiment.seed,
    }
    return summary, clients, schedule, latencies


def run(options: argparse.Namespace) -> None:
    """Trains presets, then prints the table and draws the accuracy over time."""
    from stragglers import build

    names = options.presets or [f"glyphs/per-domain/{row}" for row in DEMO]
    trials = options.trials
    if trials is None:
        trials = 1 if options.presets else DEMO_TRIALS
    for name, value in (("trials", trials), ("processes", options.processes or 1)):
        if value < 1:
            raise BadInput(f"{name}={value}, expected at least 1")
    documents = {name: _document(name, options) for name in names}
    # All mistakes come before any training.
    experiments = [config.experiment_from(document) for document in documents.values()]
    for experiment in experiments:
        build.prepare_data(experiment.task)
    threads = {experiment.threads for experiment in experiments}
    if len(threads) > 1:
        raise BadInput(f"threads={sorted(threads)} in one run, expected one number; set it")
    device.prepare(*threads)
    folder = output_folder(options.out)

    from stragglers.trials import processes_for, run_trials

    processes = options.processes or processes_for(trials * len(documents), *threads)

    def save(results: dict[str, Any]) -> None:
        write(folder / "results.json", lambda path: Path(path).write_text(_json(results)))

    results = run_trials(documents, trials, processes, save)
    from stragglers.report import figures, tables

    title = f"{trials} trials: median and range" if trials > 1 else "one trial"
    figures.save(figures.accuracy_figure(results, title), folder / "accuracy.png")
    if options.json:
        print(_json(results))
        return
    tables.print_results(results)
    print(f"results: {folder / 'results.json'}\npicture: {folder / 'accuracy.png'}")


def _document(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A preset with everything that was asked for on the command line."""
    document = config.read(name)
    if options.reading:
        document = config.with_reading(document, options.reading)
    for assignment in options.set:
        document = config.override(document, assignment)
    if options.updates is not None:
        document = config.override(document, f"updates={options.updates}")
    reads = config.takes_data(document)
    if options.path is not None and not reads:
        raise BadInput(f"--path {options.path}: {name} reads no data; leave it out")
    own = document["task"].get("path") if reads else None
    if reads and (folder := options.path or own or os.environ.get("STRAGGLERS_DATA")):
        document = config.override(document, f"task.path={_json(folder)}")
    if options.seed is not None:
        document = config.override(document, f"seed={options.seed}")
    return document


def list_presets(options: argparse.Namespace) -> None:
    """Prints the presets, one a line."""
    names = config.presets()
    if options.json:
        print(_json({"presets": names}))
        return
    print("\n".join(names))


def _json(document: Any) -> str:
    """One line; infinity, which JSON lacks, becomes null."""
    return msgspec.json.encode(document).decode()


def _parser() -> argparse.ArgumentParser:
    parser = _OneLineParser(
        prog="stragglers", description="Federated learning with slow clients: time is data."
    )
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
    running.add_argument("presets", nargs="*", metavar="PRESET", help="presets or .toml files")
    running.add_argument("--path", metavar="DIR", help="the task's data; default: $STRAGGLERS_DATA")
    running.add_argument("--trials", type=int, help="with seeds seed, seed + 1, ...")
    running.add_argument("--processes", type=int, help="trials at once, default: what fits")
    running.add_argument("--out", default="runs", metavar="DIR", help="for results, default runs")
    running.set_defaults(run=run)
    for command in (planning, running):
        command.add_argument(
            "--set", action="append", default=[], metavar="KEY=VALUE", help="changes a setting"
        )
        command.add_argument("--updates", help="the budget, in client updates")
        command.add_argument("--seed", help="of clients, latencies and weights, default 0")
        command.add_argument("--reading", help="another reading of the paper: literal")

    listing = commands.add_parser("list", help="the presets")
    listing.set_defaults(run=list_presets)
    for command in (planning, running, listing):
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
            flags = [
                "--json",
                "--set",
                "--seed",
                "--updates",
                "--path",
                "--sweep",
                "--figure",
                "--trials",
                "--processes",
                "--out",
                "--reading",
                "--help",
            ]
            raise BadInput(_unknown(unknown[0], flags))
        return options


def _unknown(argument: str, flags: Sequence[str]) -> str:
    if difflib.get_close_matches(argument, flags, cutoff=0.7):
        return f"unknown argument {argument!r}; {did_you_mean(argument, flags)}"
    return f"unknown argument {argument!r}; settings are changed with --set KEY=VALUE (see --help)"


if __name__ == "__main__":
    sys.exit(main())
