"""Rows with prior-matched figures: as trained, and under one bias on the straggler classes.

    as trained   accuracy on the held-out half of the test examples
    matched      the same under a bias that is fitted on the validation half for total accuracy
    area         under the curve of straggler against standard accuracy as the bias runs

All of them at the end of training (`stragglers.simulator.prior_matching` has the equations).
straggler-accuracy.md has them as tables, and the paper's claims judged by both.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from reproduction import controls
from reproduction.claims import claims
from reproduction.comparisons import Compared, Numbers
from reproduction.controls import FEDADAM, FIGURES, OVER, RARE, Row, stored
from reproduction.rows import LOSSES, Found, Measured, Variant, by_fifths, measured
from reproduction.tables import Table, percent
from reproduction.verdicts import Claim
from stragglers.report.cells import NOTHING, seconds
from stragglers.report.statistics import USUAL, Summary, summarise
from stragglers.runs.records import Record

LOSS_NAMES = ("as it is", "damped 0.1", "restricted")  # of LOSSES
EMNIST, CIFAR100, GLYPHS = "emnist/per-domain", "cifar100/per-domain", "glyphs/per-domain"
LABELS = {
    "adam": "FedAdam, waiting for all",
    "over": "FedAdam + over-selection",
    "join": "semi-async",
    "dust": "FARe-DUST",
    "feast": "FeAST",
    "small": "FeAST, κ = 0.2",
    "buff": "FedBuff + EMA",
    "buff-adam": "FedBuff + EMA + Adam",
    "avg": "FedAvg, waiting for all",
}
SMALL_KAPPA = ("kappa=0.2",)


def _losses(preset: str, *sets: str) -> tuple[Variant, ...]:
    return tuple(Variant(preset, (*sets, *loss)) for loss in LOSSES)


def _semi_async(table: str) -> tuple[Variant, ...]:
    """The preset that damps, and what it is without, and with removal."""
    alphas = ("label_skew.alpha=1.0",), (), ("label_skew.alpha=0.0",)
    return tuple(Variant(f"{table}/semi-async-damped", sets) for sets in alphas)


def _images(table: str) -> dict[str, tuple[Variant, ...]]:
    return {
        "adam": _losses(f"{table}/fedadam"),
        "over": _losses(f"{table}/fedadam-over-selection"),
        "join": _semi_async(table),
        "dust": _losses(f"{table}/fare-dust"),
        "feast": _losses(f"{table}/feast"),
        "small": _losses(f"{table}/feast", *SMALL_KAPPA),
    }


ROWS = {
    EMNIST: _images(EMNIST) | {"buff-adam": _losses(f"{EMNIST}/fedbuff-ema-adam")},
    CIFAR100: _images(CIFAR100) | {"buff": _losses(f"{CIFAR100}/fedbuff-ema")},
    GLYPHS: {
        "adam": _losses(f"{GLYPHS}/fedadam"),
        "over": _losses(f"{GLYPHS}/fedadam-over-selection"),
        "join": _losses(f"{GLYPHS}/semi-async"),
        "dust": _losses(f"{GLYPHS}/fare-dust"),
        "feast": _losses(f"{GLYPHS}/feast"),
        "buff": _losses(f"{GLYPHS}/fedbuff-ema"),
        "avg": _losses(f"{GLYPHS}/fedavg"),
    },
}


class Figures(NamedTuple):
    """Over trials, in percent and seconds."""

    trials: int
    straggler: Summary
    total: Summary
    matched_straggler: Summary
    matched_total: Summary
    bias: Summary
    area: Summary
    time_s: Summary


KEYS = {  # columns of a curve, and their scale
    "held_out_straggler_accuracy": 100,
    "held_out_total_accuracy": 100,
    "matched_straggler_accuracy": 100,
    "matched_total_accuracy": 100,
    "matched_bias": 1,
    "straggler_auc": 100,
    "time_s": 1,
}


def figures(variant: Variant, there: Found) -> Figures | None:
    """None without a trial that has matched figures."""
    trials = matched_trials(variant, there)
    if not trials:
        return None
    each = (
        summarise([scale * trial.outcome(key) for trial in trials], USUAL)
        for key, scale in KEYS.items()
    )
    return Figures(len(trials), *each)


def matched_trials(variant: Variant, there: Found) -> list[Record]:
    found = there.get(variant.key, [])
    return [trial for trial in found if math.isfinite(trial.outcome("matched_total_accuracy"))]


def every(table: str, there: Found) -> dict[str, tuple[Figures | None, ...]]:
    """Of each row, the figures with each loss."""
    return {
        name: tuple(figures(variant, there) for variant in variants)
        for name, variants in ROWS[table].items()
    }


def table(name: str, there: Found) -> Table:
    rows = [
        [_named(row, loss), *_cells(one)]
        for row, found in every(name, there).items()
        for loss, one in zip(LOSS_NAMES, found, strict=True)
        if one
    ]
    names = ["", "straggler", "total", "matched: straggler", "total", "bias", "area"]
    return Table([*names, "time [s]", "seeds"], rows)


def _named(row: str, loss: str) -> str:
    return f"{LABELS[row]}, {loss}" if loss != LOSS_NAMES[0] else f"**{LABELS[row]}**"


def _cells(one: Figures) -> list[str]:
    return [
        *(interval(summary) for summary in one[1:5]),
        f"{one.bias.median:+.1f}",
        interval(one.area),
        seconds(one.time_s.median),
        str(one.trials),
    ]


def interval(summary: Summary) -> str:
    """Median and interval; of one trial there is none."""
    if math.isnan(summary.low) or len(summary.values) < 2:
        return percent(summary.median)
    return f"{summary.median:.1f} [{summary.low:.1f}, {summary.high:.1f}]"


def spread(found: dict[str, tuple[Figures | None, ...]], field: str, *but: str) -> list[float]:
    """The least and the largest median over rows as they are."""
    values = [
        getattr(one, field).median for name, (one, *_) in found.items() if one and name not in but
    ]
    return [min(values), max(values)]


# CIFAR-100, most of whose trials have no matched figures.


def cifar100(there: Found) -> Table:
    """On all test examples, and where there are matched figures, beside these on the same half."""
    rows = []
    for row, variants in ROWS[CIFAR100].items():
        for loss, variant in zip(LOSS_NAMES, variants, strict=True):
            if ours := measured(variant, there):
                few = figures(variant, there)
                halves = map(interval, few[1:5]) if few else [NOTHING] * 4
                times = seconds(ours.time_s.median), str(ours.trials)
                every = interval(ours.straggler), interval(ours.total)
                rows.append([_named(row, loss), *every, *halves, *times])
    names = ["", "straggler", "total", "held out: straggler", "total", "matched: straggler"]
    return Table([*names, "total", "time [s]", "seeds"], rows)


class Stopped(NamedTuple):
    """Where total accuracy on the validation half is highest: medians in percent."""

    straggler: float  # held out
    total: float
    time_s: float
    updates: float


def stopped(variant: Variant, there: Found) -> Stopped:
    found = []
    for trial in matched_trials(variant, there):
        curve = trial.curve
        at = int(np.argmax(curve["validation_total_accuracy"]))
        accuracies = (100 * curve[f"held_out_{one}_accuracy"][at] for one in ("straggler", "total"))
        found.append([*accuracies, curve["time_s"][at], curve["updates"][at]])
    return Stopped(*np.median(found, axis=0).tolist())


def first_above(variant: Variant, other: Variant, there: Found) -> float:
    """Seconds until both accuracies are what another row ends with: median over trials."""
    ends = measured(other, there)
    assert ends
    times = []
    for trial in there[variant.key]:
        enough = (100 * trial.curve["straggler_accuracy"] >= ends.straggler.median) & (
            100 * trial.curve["total_accuracy"] >= ends.total.median
        )
        times.append(trial.curve["time_s"][np.argmax(enough)] if enough.any() else math.inf)
    return float(np.median(times))


# The paper's claims.


class Judged(NamedTuple):
    where: str
    text: str
    as_trained: str
    matched: str
    rows: list[list[str]]  # what is compared, by both


def judged(there: Found) -> list[Judged]:
    """Claims on accuracies of rows that have matched figures, on the same test examples."""
    ways = [claims(Compared(_numbers(kind, there))) for kind in ("held_out", "matched")]
    found = []
    for trained, matched in zip(*ways, strict=True):
        trained, matched = _of_accuracy(trained), _of_accuracy(matched)
        if trained.checks:
            by_what = {check.what: check for check in matched.checks}
            lines = [
                [check.what, check.said, by_what[check.what].said if check.what in by_what else ""]
                for check in trained.checks
            ]
            ours, theirs = _verdict(trained), _verdict(matched)
            found.append(Judged(trained.where, trained.text, ours, theirs, lines))
    return found


def _numbers(kind: str, there: Found) -> Numbers:
    def found(variant: Variant) -> Measured | None:
        trials = matched_trials(variant, there)
        return measured(variant, {variant.key: trials}, f"{kind}_") if trials else None

    return found


def _of_accuracy(claim: Claim) -> Claim:
    return claim._replace(checks=[check for check in claim.checks if not check.of_time])


def _verdict(claim: Claim) -> str:
    return f"{claim.verdict}, {claim.holding} of {len(claim.checks)}"


# Controls, of which `plain` is in results/.

CONTROLS = {
    "plain": "as it is: absent and rare",
    "weighted": "a straggler's report counts {weight:g} times",
    "frequent": "absent, not rare",
    "scarce": "rare, not absent",
    "unsplit": "neither absent nor rare",
    "slanted": "stragglers slant most",
    "turned": "stragglers turn the paper",
}
BY_CLASS, BY_WRITER = ("plain", "weighted", "frequent", "scarce", "unsplit"), ("slanted", "turned")
PRESETS = {"fedadam": "adam", "fedadam-over-selection": "over", "semi-async": "join"} | {
    "fare-dust": "dust",
    "feast": "feast",
    "fedbuff-ema": "buff",
}


def of_seeds(control: str, row: Row, key: str, there: Found) -> list[float]:
    """Seed after seed, in percent, or a bias; nothing if it was not trained."""
    if control == "plain":
        trials = sorted(there.get(row.variant.key, []), key=lambda trial: trial.seed)
        found = [trial.outcome(key) for trial in trials]
    else:
        found = stored().get(control, {}).get(row.name, {}).get(key, [])
    return [value if key == "matched_bias" else 100 * value for value in found]


def controls_table(names: tuple[str, ...], there: Found) -> Table:
    matched = names == BY_CLASS
    keys = FIGURES[: 5 if matched else 2]
    rows = []
    for control in names:
        for row in (FEDADAM, OVER) if control == "plain" else controls.ROWS[control]:
            values = [of_seeds(control, row, key, there) for key in keys]
            if values[0]:
                label = LABELS[PRESETS[row.preset]]
                cells = [interval(summarise(one, USUAL)) for one in values]
                what = CONTROLS[control].format(weight=row.weight)
                rows.append([what, label, *cells, str(len(values[0]))])
    columns = ["straggler", "total", "matched: straggler", "total", "bias"][: len(keys)]
    return Table(["", "algorithm", *columns, "seeds"], rows)


def rare_table() -> Table:
    """The models of `plain` on a test set with as few straggler examples as training has."""
    found = stored().get("plain", {})
    rows = []
    for row in controls.ROWS["plain"]:
        if row.name in found and not row.sets:
            values = ([100 * one for one in found[row.name][key]] for key in RARE[1:4:2])
            bias = [*found[row.name]["matched_bias"]]
            cells = [interval(summarise(one, USUAL)) for one in (*values, bias)]
            rows.append([LABELS[PRESETS[row.preset]], *cells, str(len(bias))])
    return Table(["", "total", "matched: total", "bias", "seeds"], rows)


def ahead(
    control: str,
    row: Row,
    other: Row,
    there: Found,
    key: str = FIGURES[0],
    than: str | None = None,
) -> Summary:
    """How far a row is above another, of the same control or `than`, seed by seed, in points."""
    ours, theirs = of_seeds(control, row, key, there), of_seeds(than or control, other, key, there)
    return summarise([a - b for a, b in zip(ours, theirs, strict=True)], USUAL)


def moved(found: dict[str, tuple[Figures | None, ...]], *but: str) -> float:
    """The most that a loss moves the matched total accuracy of a row, in points."""
    return max(
        abs(one.matched_total.median - plain.matched_total.median)
        for name, (plain, *others) in found.items()
        for one in others
        if plain and one and name not in but
    )


def comparisons(claims: list[Judged]) -> Table:
    """What claims compare, each once."""
    rows = {row[0]: row for claim in claims for row in claim.rows}
    return Table(["", "as trained", "matched"], [*rows.values()])


def on_the_page(there: Found) -> dict[str, Any]:
    """What straggler-accuracy.md.j2 speaks of."""
    told = judged(there)
    joined, waiting = ROWS[EMNIST]["join"][1], ROWS[EMNIST]["adam"][0]
    return {
        "prior": {name: every(name, there) for name in ROWS},
        "spread": spread,
        "moved": moved,
        "first_above": first_above(joined, waiting, there),
        "stopped": [stopped(variant, there) for variant in ROWS[CIFAR100]["join"][:2]],
        "emnist_table": table(EMNIST, there),
        "glyphs_table": table(GLYPHS, there),
        "cifar100_table": cifar100(there),
        "controls_by_class": controls_table(BY_CLASS, there),
        "controls_by_writer": controls_table(BY_WRITER, there),
        "rare": rare_table(),
        "lead": lambda control, row: ahead(control, Row(row), OVER, there),
        "weighted": [
            ahead("weighted", controls.OFTEN, FEDADAM, there, key, "plain")
            for key in ("straggler_accuracy", "matched_total_accuracy")
        ],
        "shares": {name: one["shares"] for name, one in stored().items()},
        "interval": interval,
        "totals": lambda variant: by_fifths(variant, there, "total"),
        "cifar_row": lambda row: ROWS[CIFAR100][row][0],
        "c_plain": ROWS[CIFAR100]["join"][0],
        "c_damped": ROWS[CIFAR100]["join"][1],
        "judged": told,
        "only_trained": sum(
            one.as_trained.startswith("held") and one.matched.startswith("not held") for one in told
        ),
        "holding_matched": sum(one.matched.startswith("held") for one in told),
        "comparisons": comparisons(told),
    }
