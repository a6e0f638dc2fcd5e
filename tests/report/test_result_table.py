import json
import math

import pytest

from stragglers._core.errors import BadInput
from stragglers.report import result_table
from stragglers.report.result_table import Options, Target
from stragglers.runs import records
from tests.support.fabricate import HEIGHTS, changed, demo, run_folder, unsealed


def one_table(tmp_path, **options):
    (table,) = result_table.tables(records.find([tmp_path]), Options(**options))
    return table


def rows_by_label(table):
    return {row.experiment.label: row for row in table.rows}


def test_rows_fall_in_straggler_accuracy_as_in_the_paper(tmp_path):
    table = one_table(demo(tmp_path))
    assert [row.experiment.label for row in table.rows] == list(HEIGHTS)
    assert not table.notes


def test_a_diverged_trial_is_shown_and_its_row_comes_last(tmp_path):
    demo(tmp_path)
    name = "glyphs/per-domain/mine"
    run_folder(tmp_path, name, 0, height=0.9)
    run_folder(tmp_path, name, 1, height=0.9, status="diverged", diverged="no more numbers")
    run_folder(tmp_path, name, 2, height=0.9)
    table = one_table(tmp_path)
    last = table.rows[-1]
    assert (last.experiment.label, last.over, last.diverged) == ("mine", 3, 1)
    assert last.metrics["straggler_accuracy"].lost == 1
    assert table.notes == ("mine: seed 1 diverged: no more numbers",)


def test_unfinished_trials_are_left_out_and_said(tmp_path):
    demo(tmp_path, 2)
    run_folder(tmp_path, "glyphs/per-domain/fedavg", 2, height=0.99, status="running")
    row = rows_by_label(table := one_table(tmp_path))["fedavg"]
    assert (row.over, row.unfinished) == (2, 1)
    assert row.metrics["straggler_accuracy"].median < 0.6
    assert "fedavg: 1 of 3 unfinished (seed 2 at 50%); left out" in table.notes
    assert "feast: partial, 2 of 3 trials" in table.notes


def test_dropped_clients_anomalies_and_mixed_machines_are_said(tmp_path):
    run_folder(tmp_path, "emnist/per-domain/feast", dropped=1234)
    folder = run_folder(tmp_path, "emnist/per-domain/feast", 1)
    changed(folder, versions={"stragglers": "0.1.0", "python": "3.11.9", "jax": "0.11.2"})
    notes = "\n".join(one_table(tmp_path).notes)
    assert "feast: 1,234 clients dropped" in notes
    assert "feast: the paper's time: equals the published per-example time" in notes
    assert "feast: trials under different versions" in notes
    assert "the same data" not in notes


def test_trials_on_other_data_are_a_row_of_their_own(tmp_path):
    for seed, checksum in ((0, "aaaa"), (0, "bbbb"), (1, "aaaa")):
        folder = run_folder(tmp_path / checksum, "emnist/per-domain/fedadam", seed)
        changed(folder, data={"checksum": checksum})
    table = one_table(tmp_path)
    rows = rows_by_label(table)
    assert {label: row.over for label, row in rows.items()} == {
        "fedadam [data aaaa]": 2,
        "fedadam [data bbbb]": 1,
    }
    assert "not all runs were made with the same data" in table.notes


def test_neither_where_data_lies_nor_how_trials_share_a_program_is_worth_a_note(tmp_path):
    for seed in (0, 1):
        folder = run_folder(tmp_path, "emnist/per-domain/fedadam", seed)
        run = json.loads((folder / "run.json").read_text())
        run["device"] |= {"trials_together": 1 + seed, "lanes": 5 * seed}
        run["data"] = {"checksum": "abc", "origin": f"in folder {seed}"}
        changed(folder, **run)
    assert one_table(tmp_path).notes == ()


def test_cut_curves_are_said(tmp_path):
    folder = unsealed(run_folder(tmp_path))
    curve = (folder / "curve.jsonl").read_text()
    (folder / "curve.jsonl").write_text(curve[:-30])
    run_folder(tmp_path, seed=1)
    table = one_table(tmp_path)
    lines, end = table.notes
    assert "seed 0" in lines and "1 of 10 lines cannot be read" in lines
    assert "seed 0" in end and "has lost its end" in end
    (row,) = table.rows  # an earlier point is no final one
    assert row.metrics["straggler_accuracy"].lost == 1
    assert math.isnan(row.metrics["straggler_accuracy"].median)


def test_a_line_lost_on_the_way_costs_that_line_only(tmp_path):
    folder = unsealed(run_folder(tmp_path))
    lines = (folder / "curve.jsonl").read_text().splitlines(keepends=True)
    (folder / "curve.jsonl").write_text("".join([*lines[:4], lines[4][:20], *lines[6:]]))
    table = one_table(tmp_path)
    (row,) = table.rows
    assert len(table.notes) == 1 and row.metrics["straggler_accuracy"].lost == 0


def test_a_reference_is_compared_with_all_but_itself(tmp_path):
    table = one_table(demo(tmp_path, 6), reference="fedavg")
    rows = rows_by_label(table)
    assert table.reference == "fedavg" and not rows["fedavg"].pairs
    assert rows["fare-dust"].pairs["straggler_accuracy"].p == 2 / 2**6
    assert rows["fare-dust"].pairs["straggler_accuracy"].difference == pytest.approx(0.2, abs=0.03)


def test_a_section_without_the_reference_says_so(tmp_path):
    run_folder(tmp_path, "emnist/per-domain/feast")
    run_folder(tmp_path, "glyphs/per-domain/fedadam")
    emnist, glyphs = result_table.tables(records.find([tmp_path]), Options(reference="fedadam"))
    assert "no fedadam here to compare with" in emnist.notes and emnist.reference is None
    assert glyphs.reference == "fedadam"


@pytest.mark.parametrize("text", ["total", "total=80", "all=0.5", "total=", "total=nan", "=0.5"])
def test_bad_targets_are_refused(text):
    with pytest.raises(BadInput, match="such as total=0.8"):
        result_table.parsed_target(text)


def test_targets():
    assert result_table.parsed_target("straggler=0.5") == Target("straggler", 0.5)


def test_matched_accuracies_are_there_where_they_were_measured(tmp_path):
    run_folder(tmp_path, "glyphs/per-domain/feast", matched=True)
    run_folder(tmp_path, "glyphs/per-domain/fedavg", height=0.1)
    feast, fedavg = one_table(tmp_path).rows
    for group in ("straggler", "total"):
        trained, matched = (
            feast.metrics[f"{kind}{group}_accuracy"].median for kind in ("", "matched_")
        )
        assert matched == pytest.approx(trained + 0.05)
    assert feast.is_matched and not fedavg.is_matched
