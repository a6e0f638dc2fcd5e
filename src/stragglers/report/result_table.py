"""The paper's table as numbers, before any format.

row         one experiment: straggler, standard and total accuracy, simulated time, trials
order       highest straggler accuracy first, as in the paper; rows without a median last
notes       what a reader must know to believe a row: partial, diverged, anomalous, dropped
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from stragglers._core.errors import BadInput
from stragglers.report import grouping, statistics
from stragglers.report.grouping import Experiment, Section, plain
from stragglers.report.statistics import GROUPS, Interval, Pairs, Reached, Summary
from stragglers.runs.records import Found, Record

# NaN of tasks without straggler classes, and of older runs: see simulator/prior_matching.py.
MATCHED = ("matched_straggler_accuracy", "matched_total_accuracy")
METRICS = (*(f"{group}_accuracy" for group in GROUPS), *MATCHED, "time_s")
COMPARED = ("straggler_accuracy", "total_accuracy")


class Target(NamedTuple):
    group: str
    accuracy: float

    @property
    def text(self) -> str:
        return f"{self.group} accuracy {100 * self.accuracy:g} %"


class Options(NamedTuple):
    interval: Interval = statistics.USUAL
    targets: tuple[Target, ...] = ()
    reference: str | None = None
    best: bool = False
    matched: bool = False  # prior-matched accuracies, too


USUAL = Options()


class Row(NamedTuple):
    experiment: Experiment
    metrics: dict[str, Summary]  # by METRICS
    targets: tuple[Reached, ...]  # one for each of the options'
    pairs: dict[str, Pairs]  # by COMPARED; empty for the reference, or without one

    @property
    def over(self) -> int:
        return len(self.experiment.finished)

    @property
    def diverged(self) -> int:
        return sum(trial.status == "diverged" for trial in self.experiment.trials)

    @property
    def is_matched(self) -> bool:
        """Whether some trial has prior-matched accuracies."""
        return any(map(math.isfinite, self.metrics[MATCHED[0]].values))

    @property
    def unfinished(self) -> int:
        return len(self.experiment.trials) - self.over


class Table(NamedTuple):
    section: Section
    rows: tuple[Row, ...]
    reference: str | None  # the label that the others are compared with
    notes: tuple[str, ...]


def tables(records: Iterable[Record], options: Options = USUAL) -> list[Table]:
    """One table for each task and latency model."""
    found = grouping.sections(records)
    if options.reference is not None:
        grouping.check_reference(found, options.reference)
    left_out = records.damaged if isinstance(records, Found) else ()
    return [_table(section, options, left_out) for section in found]


def parsed_target(text: str) -> Target:
    """`total=0.8` as a target."""
    group, _, share = text.partition("=")
    try:
        accuracy = float(share)
    except ValueError:
        accuracy = math.nan
    if group not in GROUPS or not 0 < accuracy <= 1:
        raise BadInput(
            f"--target {text!r} given, expected straggler, standard or total with a "
            "share, such as total=0.8"
        )
    return Target(group, accuracy)


def _table(section: Section, options: Options, left_out: Iterable[str]) -> Table:
    reference = None
    if options.reference is not None:
        reference = grouping.chosen(section, options.reference)
    rows = [_row(experiment, reference, options) for experiment in section.experiments]
    rows.sort(key=_by_straggler_accuracy)
    notes = [*map(plain, left_out), *_notes(rows)]
    if len({trial.data for e in section.experiments for trial in e.trials}) > 1:
        notes.append("not all runs were made with the same data")
    if options.reference is not None and reference is None:
        notes.append(f"no {plain(options.reference)} here to compare with")
    return Table(section, tuple(rows), reference.label if reference else None, tuple(notes))


def _row(experiment: Experiment, reference: Experiment | None, options: Options) -> Row:
    over = experiment.finished
    metrics = {}
    for key in METRICS:
        values = [trial.outcome(key, options.best) for trial in over]
        metrics[key] = statistics.summarise(values, options.interval)
    pairs = {}
    if reference is not None and reference is not experiment:
        pairs = {
            key: statistics.compare(over, reference.finished, key, options.best) for key in COMPARED
        }
    targets = [statistics.reached(over, *target) for target in options.targets]
    return Row(experiment, metrics, tuple(targets), pairs)


def _by_straggler_accuracy(row: Row) -> tuple[Any, ...]:
    middle = row.metrics["straggler_accuracy"].median
    return (math.isnan(middle), -middle if math.isfinite(middle) else 0.0, row.experiment.label)


def _machine(trial: Record) -> str:
    """What its bits may depend on; not how many trials shared its program."""
    device = trial.run.get("device") or {}
    return str([trial.run.get("versions"), *map(device.get, ("platform", "kind", "threads"))])


def _notes(rows: list[Row]) -> Iterable[str]:
    most = max((len(row.experiment.trials) for row in rows), default=0)
    for row in rows:
        label, trials = row.experiment.label, row.experiment.trials
        if row.unfinished:
            done = ", ".join(_progress(trial) for trial in trials if trial.status == "running")
            yield f"{label}: {row.unfinished} of {len(trials)} unfinished ({done}); left out"
        if len(trials) < most:
            yield f"{label}: partial, {len(trials)} of {most} trials"
        for trial in trials:
            if trial.status == "diverged":
                yield f"{label}: seed {trial.seed} diverged: {plain(trial.diverged or 'no reason')}"
            for warning in trial.warnings:
                yield f"{label}: seed {trial.seed}: {plain(warning)}"
            for change in trial.run.get("drift", []):
                yield f"{label}: seed {trial.seed} went on where not all was equal: {plain(change)}"
        if len({_machine(trial) for trial in trials}) > 1:
            yield f"{label}: trials under different versions or on different devices"
        dropped = sum(trial.run.get("dropped") or 0 for trial in trials)
        if dropped:
            yield f"{label}: {dropped:,} clients dropped, whose reports were not finite"
        if row.experiment.paper and row.experiment.paper.get("anomaly"):
            yield f"{label}: the paper's time: {plain(row.experiment.paper['anomaly'])}"


def _progress(trial: Record) -> str:
    """How far an unfinished trial has come."""
    done, budget = trial.curve["updates"], trial.settings.get("updates")
    if not budget:
        return f"seed {trial.seed}"
    return f"seed {trial.seed} at {done[-1] / budget if len(done) else 0:.0%}"
