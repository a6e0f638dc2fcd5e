"""stragglers fit: a fleet to plan with, from a log of its participations."""

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stragglers._core import files, toml_files
from stragglers._core.errors import BadInput
from stragglers.cli import common

if TYPE_CHECKING:
    from stragglers.planning.fit.logs import Log

PERCENTILES = (50, 95, 99)  # of T, to compare
DRAWS = 20_000  # of T in a group, at least


def add(commands: common.Commands) -> None:
    parser = common.add(commands, "fit", "a fleet to plan with, from a log of its participations")
    parser.add_argument(
        "log",
        metavar="CSV",
        help="a line for each client that was started: client, group, examples, and seconds or "
        "communication, overhead, training; empty if it never reported",
    )
    parser.add_argument(
        "--out", metavar="FILE", help="writes a .toml file for `plan`, and its clients beside it"
    )
    parser.add_argument(
        "--figure", metavar="FILE", help="draws measured beside fitted times: .png, .pdf or .svg"
    )
    parser.set_defaults(run=fit)


def fit(options: argparse.Namespace) -> None:
    """Prints what was fitted beside what was measured; writes it if asked to."""
    from stragglers.planning.fit import estimate as fitting
    from stragglers.planning.fit import logs

    place = None if options.out is None else _checked(options.out)
    picture = files.checked_path(options.figure) if options.figure else None
    log = logs.read(options.log)
    fitted = fitting.fit(log)
    document = fitting.document(fitted, log, _clients(place).name if place else "clients.csv")
    summary = summarised(log, fitted, document)
    if picture:
        from stragglers.report import figures, figures_plan

        percent = tuple(range(1, 100))
        drawn = figures_plan.fit_figure(_times(log, document, percent), percent, log.path.name)
        figures.save(drawn, picture)
    if place:
        _write(place, document, log)
    if options.json:
        print(common.json({**summary, "written": str(place) if place else None}))
        return
    from stragglers.report.console_data import print_fit

    print_fit(summary)
    if picture:
        print(f"picture: {picture}")
    if place:
        print(f"written: {place}, {_clients(place)}; `stragglers plan {place}` is next")
    else:
        print("--out FILE writes it as a fleet for `stragglers plan`")


def summarised(log: "Log", fitted: Any, document: dict[str, Any]) -> dict[str, Any]:
    """What there is in a log, what was fitted to it, and times of both."""
    import numpy as np

    clients = np.bincount(log.group).tolist()
    times = _times(log, document, PERCENTILES)
    return {
        "log": str(log.path),
        "participations": len(log.client),
        "reports": int(log.came.sum()),
        "clients": len(log.names),
        "persistence": fitted.persistence,
        "correlation": fitted.correlation,
        "groups": {
            name: {
                "clients": clients[index],
                "few": name in fitted.few,
                "drop_out": fitted.drop_out[name],
                "factors": {
                    factor: {**one.setting, "misfit": one.misfit}
                    for factor, one in fitted.factors[name].items()
                },
                "seconds": {
                    which: dict(zip(map(str, PERCENTILES), values.tolist(), strict=True))
                    for which, values in times[name].items()
                },
            }
            for index, name in enumerate(log.groups)
        },
    }


def _times(
    log: "Log", document: dict[str, Any], percentiles: tuple[int, ...]
) -> dict[str, dict[str, Any]]:
    """Of T by group: of the log, and of what a plan would draw for its clients."""
    import numpy as np

    from stragglers.config import documents
    from stragglers.planning import latency
    from stragglers.planning.fit.estimate import quantiles
    from stragglers.planning.fit.persistence import each_once

    given = documents.settings_from(document).latency
    who, found = log.population(), {}
    came, total, group = log.came, log.total, log.group[log.client]
    for index, name in enumerate(who.groups):
        lines = came & (group == index)
        weight = each_once(log.client[lines])
        members = np.flatnonzero(who.group == index)
        some = np.tile(members, -(-DRAWS // len(members)))  # of few clients many draws
        some = who._replace(examples=who.examples[some], group=who.group[some])
        drawn = latency.one_epoch(some, given, seed=0)
        found[name] = {
            "log": quantiles(total[lines], weight, np.array(percentiles) / 100),
            "fitted": np.percentile(np.sum(drawn, axis=0), percentiles),
        }
    return found


# Files.


def _checked(out: str) -> Path:
    place = files.checked_path(out, (".toml",))
    if place.suffix != ".toml" or not place.name.isprintable():  # `plan` would not know it
        raise BadInput(f"{out}: expected a name that ends in .toml, of characters that are seen")
    for file in (place, _clients(place)):
        if file.exists():
            raise BadInput(
                f"{file}: is there already; expected a new name after --out, since "
                "you may have changed it"
            )
    return place


def _clients(place: Path) -> Path:
    return place.with_name(f"{place.stem}-clients.csv")


def _write(place: Path, document: dict[str, Any], log: "Log") -> None:
    """The clients first: a fleet without them is none."""
    from stragglers.report.grouping import plain

    who = log.population()

    def clients(file: str) -> None:
        with open(file, "w", newline="", encoding="utf-8") as handle:
            lines = csv.writer(handle)
            lines.writerow(["client", "examples", "group"])
            groups = (who.groups[index] for index in who.group)
            lines.writerows(zip(log.names, who.examples.tolist(), groups, strict=True))

    text = (
        f"# Fitted to {plain(log.path.name)}: {len(log.client):,} participations of "
        f"{who.clients:,} clients.\n# The schedule is a beginning: change it.\n"
        f"{toml_files.dumps(document)}"
    )
    if len(text) > toml_files.LONGEST:
        raise BadInput(
            f"{log.path}: names of groups are too long for a file that `plan` reads, of "
            f"{toml_files.LONGEST:,} characters; shorten them"
        )
    files.write(_clients(place), clients)
    try:
        files.write(place, lambda file: Path(file).write_text(text, encoding="utf-8"))
    except BaseException:
        _clients(place).unlink(missing_ok=True)
        raise
