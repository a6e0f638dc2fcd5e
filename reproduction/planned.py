"""What schedules say without training: times, who is on time, how long clients train.

Clients have the published sizes, EMNIST's 3,400 writers as well. The checks are as in
comparisons.py; published tables have nothing to put beside them but times.
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from reproduction.comparisons import NAMES, STACKOVERFLOW, Check, Numbers, title
from reproduction.rows import Measured, Variant
from stragglers.config import build, documents, step_weights
from stragglers.planning.schedule import Fate, batches
from stragglers.report.plans import summarised
from stragglers.report.statistics import Summary


def or_planned(numbers: Numbers) -> Numbers:
    """With the times of StackOverflow's rows, which are not trained here."""

    def found(variant: Variant) -> Measured | None:
        is_row = not variant.sets and variant.preset.startswith(STACKOVERFLOW)
        return numbers(variant) or (_planned(variant) if is_row else None)

    return found


@cache
def _planned(variant: Variant) -> Measured:
    """A row's time, and no accuracies."""
    time_s, none = seconds(variant, 0), Summary((), math.nan, math.nan, math.nan, 0)
    time = Summary((time_s,), time_s, time_s, time_s, 0)
    return Measured(0, none, none, time, math.nan, math.nan, math.nan)


@cache
def seconds(variant: Variant, seed: int) -> float:
    experiment = documents.settings_from(documents.override(variant.document, f"seed={seed}"))
    return build.schedule_of(experiment, build.clients(experiment.task, experiment.seed)).end


@cache
def summary(variant: Variant) -> dict[str, Any]:
    return summarised(documents.settings_from(variant.document))[0]


@cache
def epochs(variant: Variant) -> dict[str, float]:
    """Over a client's own examples, before a report on time: the median of each group."""
    experiment = documents.settings_from(variant.document)
    assert experiment.client
    clients = build.clients(experiment.task, experiment.seed)
    schedule = build.schedule_of(experiment, clients)
    whole = batches(clients.examples[schedule.client], experiment.client.batch_size, False)
    made = step_weights.local_steps(experiment, schedule) / np.maximum(whole, 1)
    group, on_time = clients.group[schedule.client], schedule.fate == Fate.ON_TIME
    return {
        name: float(np.median(made[on_time & (group == index)]))
        for index, name in enumerate(clients.groups)
    }


def nobody_slow(tables: Iterable[str], row: str) -> list[Check]:
    """No report on time is a straggler's."""
    checks = []
    for table in tables:
        share = summary(Variant(f"{table}/{row}"))["share"]["straggler"]
        said = f"{100 * share['used']:.1f} %, of clients {100 * share['population']:.1f} %"
        what = f"{title(table)}, stragglers among reports on time: {NAMES[row]}"
        checks.append(Check(what, said, share["used"] == 0))
    return checks


def part_of_an_epoch(tables: Iterable[str], row: str) -> list[Check]:
    """Stragglers train for less than one in the median, others for more."""
    checks = []
    for table in tables:
        for group, made in epochs(Variant(f"{table}/{row}")).items():
            what = f"{title(table)}, epochs of {group} clients: {NAMES[row]}"
            held = made < 1 if group == "straggler" else made > 1
            checks.append(Check(what, f"{made:.1f} in the median", held))
    return checks


def slower_by(tables: Iterable[str], row: str, setting: str, values: Iterable[int]) -> list[Check]:
    """The larger a setting, the longer it takes."""
    checks = []
    for table in tables:
        times = {v: seconds(Variant(f"{table}/{row}", (f"{setting}={v}",)), 0) for v in values}
        said = "; ".join(f"{value}: {time:,.0f} s" for value, time in times.items())
        held = bool(np.all(np.diff([*times.values()]) > 0))
        what = f"{title(table)}, time by {setting}: {NAMES[row]}"
        checks.append(Check(what, said, held, of_time=True))
    return checks
