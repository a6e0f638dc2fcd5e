"""Prior-matched figures and the controls: the page shows what is stored, and what that is of."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from reproduction import controls, prior, rows
from reproduction.controls import FEDADAM, OVER, Row
from stragglers.report.statistics import USUAL, summarise

PAGE = Path(__file__).parents[2] / "docs" / "results" / "straggler-accuracy.md"


@pytest.fixture(scope="module")
def there():
    return rows.found()


def cells(label, page=None):
    """The first row with this label, as medians."""
    found = re.search(rf"^\| {re.escape(label)} \| (.*) \|$", page or PAGE.read_text(), re.M)
    return [cell.split(" [")[0] for cell in found.group(1).split(" | ")]


def test_the_page_shows_the_stored_trials(there):
    (trials,) = (there[prior.ROWS[prior.EMNIST]["over"][0].key],)
    columns = [
        "held_out_straggler_accuracy",
        "held_out_total_accuracy",
        "matched_straggler_accuracy",
        "matched_total_accuracy",
    ]
    medians = [100 * np.median([trial.curve[name][-1] for trial in trials]) for name in columns]
    shown = cells("**FedAdam + over-selection**")
    assert shown[:4] == [f"{median:.1f}" for median in medians] and shown[-1] == "3"


@pytest.mark.parametrize("control", [name for name in controls.ROWS if name != "plain"])
def test_the_page_shows_the_stored_controls(control):
    for row in controls.ROWS[control]:
        figures = controls.stored()[control][row.name]
        label = prior.CONTROLS[control].format(weight=row.weight)
        algorithm = prior.LABELS[prior.PRESETS[row.preset]]
        straggler, total = (
            f"{100 * np.median(figures[name]):.1f}" for name in controls.FIGURES[:2]
        )
        line = re.search(rf"^\| {label} \| {re.escape(algorithm)} \| .*", PAGE.read_text(), re.M)
        assert line.group().startswith(f"| {label} | {algorithm} | {straggler} [")
        assert f" | {total} [" in line.group() and line.group().endswith(" | 10 |")
        assert all(len(values) == len(controls.SEEDS) for values in figures.values())


def test_every_row_of_a_control_is_stored_and_nothing_else():
    stored = controls.stored()
    assert list(stored) == list(controls.ROWS)
    for control, found in stored.items():
        assert {row.name for row in controls.ROWS[control]} | {"shares"} == {*found}


def test_the_curve_of_a_bias_goes_through_the_stored_trial(there):
    """Without a bias it is what the trials say, on all test examples."""
    found = controls.stored()["plain"]
    nothing = int(np.argmin(np.abs(controls.BIASES)))
    assert controls.BIASES[nothing] == 0
    for row in controls.ROWS["plain"]:
        for name in controls.FIGURES[:2]:
            trials = there[row.variant.key]
            expected = np.median([trial.outcome(name) for trial in trials])
            along = found[row.name][f"{name} by bias"]
            assert along[nothing] == pytest.approx(expected, abs=3e-4)  # one test example
            if name == "straggler_accuracy":
                assert np.all(np.diff(along) >= 0)


# Tasks of controls.


@pytest.fixture(scope="module")
def tasks():
    return {name: make() for name, make in controls.TASKS.items()}


def test_shares_are_what_controls_are_called(tasks):
    shares = {name: controls.shares(task) for name, task in tasks.items()}
    assert shares == {name: found["shares"] for name, found in controls.stored().items()}
    assert shares["plain"]["training"] < 0.5 * shares["plain"]["test"]
    for name in ("frequent", "unsplit"):
        assert shares[name]["training"] == pytest.approx(shares[name]["test"], abs=0.01)
    assert shares["scarce"]["training"] == pytest.approx(shares["plain"]["training"], abs=0.01)
    few = controls.shares(controls.rare(tasks["plain"]))
    assert few["test"] == pytest.approx(few["training"], abs=0.01)


def test_only_without_a_split_standard_clients_have_straggler_classes(tasks):
    def holders(task):
        """Standard clients with an example of a straggler class."""
        owner = np.repeat(np.arange(task.population.clients), task.population.examples)
        mine = np.isin(task.y, controls.plain().straggler_classes)
        return {*owner[mine & (task.population.group[owner] == 0)].tolist()}

    assert holders(tasks["plain"]) == holders(tasks["frequent"]) == set()
    for name in ("scarce", "unsplit"):
        assert len(holders(tasks[name])) > 0.9 * (tasks[name].population.group == 0).sum()
    for name in ("frequent", "scarce", "unsplit"):
        np.testing.assert_array_equal(tasks[name].test_y, tasks["plain"].test_y)
        np.testing.assert_array_equal(tasks[name].population.group, tasks["plain"].population.group)


def test_writers_differ_by_hand_and_not_by_class(tasks):
    slanted, turned = tasks["slanted"], tasks["turned"]
    assert slanted.straggler_classes is turned.straggler_classes is None
    mine = slanted.population.group == 1
    assert mine.sum() == (tasks["plain"].population.group == 1).sum()
    np.testing.assert_array_equal(slanted.test_straggler, mine[slanted.test_client])
    owner = np.repeat(mine, slanted.population.examples)
    np.testing.assert_array_equal(turned.x[~owner], slanted.x[~owner])
    np.testing.assert_array_equal(turned.x[owner][3], np.rot90(slanted.x[owner][3]))
    np.testing.assert_array_equal(turned.y, slanted.y)


def test_a_weight_counts_for_stragglers_alone(monkeypatch):
    seen = {}

    class Caught(Exception):
        pass

    def simulation(task, trials, algorithm, local, *, weigh, devices):
        del algorithm, local, devices
        reports = sum(int(np.sum(trial.schedule.fate == 0)) for trial in trials)
        seen.update(task=task, trials=trials, weights=weigh(None), reports=reports)
        raise Caught

    monkeypatch.setattr(controls, "Simulation", simulation)
    monkeypatch.setattr(controls, "SEEDS", range(2))
    with pytest.raises(Caught):
        controls.trained(controls.plain(), Row("fedadam", (), 4.0))
    assert {*seen["weights"].tolist()} == {1.0, 4.0}
    group = seen["task"].population.group
    started = np.concatenate([group[trial.schedule.client] for trial in seen["trials"]])
    assert len(seen["weights"]) == len(started)  # waiting for all, every report counts
    assert (seen["weights"] == 4).sum() == (started == 1).sum()


# Figures.


def test_trials_without_matched_figures_have_none(there):
    variant = rows.Variant("cifar100/per-domain/fedadam")
    assert there[variant.key] and prior.figures(variant, there) is None
    mixed = {variant.key: [*there[variant.key], *there[prior.ROWS[prior.EMNIST]["adam"][0].key]]}
    assert prior.figures(variant, mixed).trials == 3


def test_claims_are_judged_by_both_on_rows_that_have_both(there):
    judged = prior.judged(there)
    lines = {row[0]: row[1:] for claim in judged for row in claim.rows}
    assert lines and all(name.startswith(("EMNIST, per-domain", "all tables")) for name in lines)
    trained, matched = lines["EMNIST, per-domain, straggler: over-selection, FedAdam"]
    assert trained.startswith("✓") and matched.startswith("✗")
    page = PAGE.read_text()
    assert all(f"| {claim.as_trained} | {claim.matched} |" in page for claim in judged)
    assert not any("time [s]" in name for name in lines)


def test_a_lead_is_over_pairs_of_seeds(there):
    ours, theirs = (
        prior.of_seeds("plain", row, "straggler_accuracy", there) for row in (FEDADAM, OVER)
    )
    lead = prior.ahead("plain", FEDADAM, OVER, there)
    assert lead == summarise(np.subtract(ours, theirs).tolist(), USUAL) and lead.median > 0
    assert prior.of_seeds("plain", Row("fedadam-tiers"), "straggler_accuracy", there) == []


def test_an_interval_needs_two_trials():
    assert prior.interval(summarise([3.0], USUAL)) == "3.0"
    assert prior.interval(summarise([1.0, 3.0], USUAL)) == "2.0 [1.1, 2.9]"
    assert prior.interval(summarise([1.0, math.nan], USUAL)) == "–"
