"""stragglers tune: a preset's best settings, as a preset and a page about all that was tried."""

import argparse
import math

from stragglers._core.errors import BadInput, about
from stragglers._core.files import output_folder
from stragglers.cli import common


def add(commands: common.Commands) -> None:
    parser = common.add(commands, "tune", "search for a preset's best settings")
    parser.add_argument("preset", metavar="PRESET", help="a preset or a .toml file")
    parser.add_argument("--grid", help="a .toml file of searches; default: what the paper scanned")
    parser.add_argument(
        "--objective",
        default="straggler",
        metavar="WHAT",
        help="on the validation half of the test examples: straggler accuracy (default), total, "
        "balance, or balance=WEIGHT of the former; matched-total and so on: prior-matched ones",
    )
    parser.add_argument(
        "--proposals", type=int, help="so many of Optuna's, instead of the whole grid"
    )
    common.add_training(parser)
    common.add_settings(parser)
    parser.set_defaults(run=tune)


def tune(options: argparse.Namespace) -> None:
    """Searches for the best settings of a preset; leaves a preset and a page about all of them."""
    from stragglers.config import catalog, checks, documents, settings
    from stragglers.report import console_results, page
    from stragglers.runs import run_folder
    from stragglers.runs import tune as tuning

    count, terms = common.checked_training(options, default=1)
    if options.proposals is not None and options.proposals < 1:
        raise BadInput(f"proposals={options.proposals}, expected at least 1")
    objective = tuning.parsed_objective(options.objective)
    sources, _ = catalog.expand([options.preset])
    if len(sources) > 1:
        raise BadInput(f"{options.preset} is {len(sources)} presets; one is tuned at a time")
    ((name, source),) = sources.items()
    document = common.document(source, options)
    papers = f"{document['latency']['model']}/{name.rsplit('/', 1)[-1]}"
    if not options.grid and papers not in tuning.grids():
        raise BadInput(
            f"{source}: no grid {papers!r} among the paper's; give --grid FILE, a .toml "
            "file of [[search]] tables: settings with lists of values"
        )
    searches = options.grid or papers
    grid = tuning.read_grid(searches)
    candidates = sum(options.proposals or math.prod(map(len, search.values())) for search in grid)
    with about(searches):
        common.check_count(candidates, trials=count)
    with about(source):
        experiment = documents.settings_from(document)
        checks.check_trainable(experiment)
        if objective.matched and isinstance(experiment.task, settings.StackOverflow):
            raise BadInput(
                f"--objective {options.objective!r}: task 'stackoverflow' has no straggler "
                "classes. Take straggler, total or balance."
            )
    with about(searches):
        grid = tuning.checked_grid(document, grid)
    folder = output_folder(options.out)
    train = tuning.Trainer(
        name, objective, count, folder, options.processes, terms, options.together
    )
    try:
        best, history = tuning.tune(document, grid, objective, train, options.proposals)
    except tuning.Unfinished as unfinished:
        if options.json:
            print(common.json({"objective": objective._asdict(), "left": unfinished.left}))
        else:
            print("the time is over; the same command trains the rest")
        return
    preset, about_all = folder / name / "tuned.toml", folder / name / "tune.html"
    run_folder.write_settings(preset, documents.completed(best.document))
    page.save(list(train.found.values()), about_all)
    if options.json:
        searches = [[{"set": c.chosen, "value": c.value} for c in tried] for tried in history]
        print(
            common.json(
                {
                    "objective": objective._asdict(),
                    "left": [],
                    "searches": searches,
                    "best": {"value": best.value, "held_out": best.held_out},
                    "preset": str(preset),
                    "page": str(about_all),
                }
            )
        )
        return
    console_results.print_search(name, objective.name, history, best)
    print(f"preset: {preset}\npage: {about_all}")
