"""One page about some runs: a single HTML file that loads nothing from any host.

    page.html.j2   structure; jinja2 escapes all that comes from run folders
    page.css       light and dark, wide and narrow
    page.js        draws with plotly.js, which is part of the file; buttons choose what

A policy inside the page forbids every connection and every script but these two, by their hashes.
"""

import base64
import hashlib
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from stragglers._core import files
from stragglers.planning.faults import STRIKES
from stragglers.report import cells, curves, result_table
from stragglers.report.colours import Look, looks
from stragglers.report.grouping import Experiment, comparison_sets, differences, plain, shown
from stragglers.report.result_table import Options, Row, Table
from stragglers.report.statistics import USUAL, Interval, Summary
from stragglers.runs.records import Record


def page(records: Sequence[Record], interval: Interval = USUAL) -> str:
    """The whole file."""
    from plotly.offline import get_plotlyjs  # a second to load

    final = result_table.tables(records, Options(interval))
    best = result_table.tables(records, Options(interval, best=True))
    scripts = [_unix(get_plotlyjs()), _unix(_resource("page.js"))]
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_resource("page.html.j2")).render(
        hashes=[_hash(script) for script in scripts],
        scripts=[Markup(script) for script in scripts],
        style=Markup(_resource("page.css")),
        trials=len(records),
        experiments=sum(len(table.rows) for table in final),
        legend=cells.legend(Options(interval), compared=False)[0],
        sections=[_section(*pair) for pair in zip(final, best, strict=True)],
        data=[_data(*pair, interval) for pair in zip(final, best, strict=True)],
        environments=_environments(records),
    )


def save(records: Sequence[Record], path: Path) -> None:
    html = page(records)
    files.write(path, lambda temporary: Path(temporary).write_text(html, encoding="utf-8"))


def _section(final: Table, best: Table) -> dict[str, Any]:
    """What the template shows without a script."""
    style = looks(final.section.experiments)
    documents = [row.experiment.settings for row in final.rows]
    return {
        "title": final.section.title,
        "rows": [_row(row, style[row.experiment.label]) for row in final.rows],
        "best": {row.experiment.label: _values(row) for row in best.rows},
        "matched": any(row.is_matched for row in final.rows),
        "published": any(row.experiment.paper for row in final.rows),
        "notes": final.notes,
        "sets": list(comparison_sets(final.section)),
        "part": _part([row.experiment for row in final.rows]),
        "differing": {
            path: [shown(value) for value in values]
            for path, values in differences(documents).items()
        },
        "common": _common(documents),
    }


def _row(row: Row, look: Look) -> dict[str, Any]:
    paper = row.experiment.paper
    return {
        "label": row.experiment.label,
        "look": look,
        "values": _values(row),
        "matched": [text.partition(" [") for text in cells.matched(row)],
        "paper": paper
        and [
            cells.paper_accuracy(paper, "straggler").partition(" ["),
            cells.paper_accuracy(paper, "total").partition(" ["),
            (cells.seconds(paper["time_s"]), "", ""),
        ],
        "trials": cells.trials(row),
    }


def _values(row: Row) -> list[tuple[str, str, str]]:
    """Straggler accuracy, total accuracy and time: the median, a bracket, the interval."""
    accuracies = (
        cells.accuracy(row.metrics[key], row.diverged)
        for key in ("straggler_accuracy", "total_accuracy")
    )
    time = (cells.seconds(row.metrics["time_s"].median), "", "")
    return [*(text.partition(" [") for text in accuracies), time]


def _part(experiments: Sequence[Experiment]) -> dict[str, Any]:
    """Who took part: shares of each group, medians over trials; from the runs' own schedules."""
    rows, names = [], dict[str, None]()
    for experiment in experiments:
        summaries = [s for t in experiment.trials if (s := t.run.get("schedule"))]
        groups = list(dict.fromkeys(g for s in summaries for g in s.get("share", {})))
        names |= dict.fromkeys(map(plain, groups))
        shares = {
            plain(group): [
                _share(s.get("share", {}).get(group, {}).get(what) for s in summaries)
                for what in ("population", "used", "late")
            ]
            for group in groups
        }
        wasted = _share(cells.part(s.get("device_s", {}), "wasted") for s in summaries)
        stale = _middle(s.get("staleness", {}).get("p95") for s in summaries)
        rows.append(
            {
                "label": experiment.label,
                "shares": shares,
                "wasted": wasted,
                "stale": cells.NOTHING if stale is None else f"{stale:,.0f}",
                "faults": _faults(summaries),
            }
        )
    faulty = any(row["faults"] for row in rows)
    return {"groups": list(names), "rows": rows, "faulty": faulty}


def _faults(summaries: Sequence[dict[str, Any]]) -> str:
    """What struck how many of all clients that were started, and steps that were abandoned."""
    words = []
    for name in STRIKES:
        share = _middle(
            _ratio(s.get("faults", {}).get(name), s.get("dispatches")) for s in summaries
        )
        words += [f"{name} {100 * share:.1f} %"] if share else []
    share = _middle(_ratio(s.get("abandoned"), s.get("server_steps")) for s in summaries)
    return ", ".join(words + ([f"abandoned steps {100 * share:.1f} %"] if share else []))


def _ratio(part: Any, whole: Any) -> float | None:
    if isinstance(part, int | float) and isinstance(whole, int | float) and whole:
        return part / whole
    return None


def _share(values: Iterable[Any]) -> str:
    middle = _middle(values)
    return cells.NOTHING if middle is None else f"{100 * middle:.1f} %"


def _middle(values: Iterable[Any]) -> float | None:
    found = [float(value) for value in values if isinstance(value, int | float)]
    return float(np.median(found)) if found else None


def _common(documents: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Settings that all experiments share: those that differ from none at all."""
    differing = differences(documents).keys()
    every = differences([{}, documents[0]])
    return {path: shown(values[1]) for path, values in every.items() if path not in differing}


def _environments(records: Sequence[Record]) -> list[str]:
    """What the runs ran under, each once."""
    found = dict[str, None]()
    for record in records:
        facts = {**(record.run.get("versions") or {}), **(record.run.get("device") or {})}
        found[", ".join(f"{plain(str(k))} {shown(v)}" for k, v in facts.items())] = None
    return sorted(filter(None, found))


def _data(final: Table, best: Table, interval: Interval) -> dict[str, Any]:
    """What the script draws: numbers and labels, nothing else."""
    size, unit = curves.time_unit(curves.longest(final.section))
    style = looks(final.section.experiments)
    at_best = {row.experiment.label: row for row in best.rows}
    rows = [row.experiment.label for row in final.rows]
    return {
        "unit": {"size": size, "name": unit},
        "sets": {
            name: [rows.index(experiment.label) for experiment in members]
            for name, members in comparison_sets(final.section).items()
        },
        "experiments": [
            {
                "label": row.experiment.label,
                **style[row.experiment.label]._asdict(),
                "trials": row.over,
                "band": _band(row.experiment, interval),
                "loners": [_loner(trial) for trial in curves.loners(row.experiment)],
                "final": _point(row),
                "best": _point(at_best[row.experiment.label]),
                "matched": _point(row, "matched_"),
            }
            for row in final.rows
        ],
    }


def _band(experiment: Experiment, interval: Interval) -> dict[str, Any] | None:
    band = curves.band(experiment, interval)
    if band is None:
        return None
    return {
        **{axis: _numbers(band.x[axis]) for axis in curves.AXES},
        **{
            group: [_numbers(side[group]) for side in (band.median, band.low, band.high)]
            for group in curves.LINES
        },
    }


def _loner(trial: Record) -> dict[str, Any]:
    return {
        "seed": trial.seed,
        "status": trial.status,
        **{axis: _numbers(trial.curve[axis]) for axis in curves.AXES},
        **{group: _numbers(trial.curve[f"{group}_accuracy"]) for group in curves.LINES},
    }


def _point(row: Row, kind: str = "") -> dict[str, list[float | None]]:
    """What the trade-off has on its axes."""

    def three(summary: Summary) -> list[float | None]:
        return _numbers((summary.median, summary.low, summary.high))

    return {
        "straggler_accuracy": three(row.metrics[f"{kind}straggler_accuracy"]),
        "total_accuracy": three(row.metrics[f"{kind}total_accuracy"]),
        "time_s": three(row.metrics["time_s"]),
    }


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Six digits are more than a screen shows; JSON has no NaN."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]


def _resource(name: str) -> str:
    return (resources.files("stragglers.report") / name).read_text(encoding="utf-8")


def _unix(script: str) -> str:
    """Browsers read every line end as a line feed before they hash a script."""
    return script.replace("\r\n", "\n").replace("\r", "\n")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
