import csv
import io
import json
import math
import time

import pytest

from stragglers.report import formats, result_table
from stragglers.report.result_table import Options, Target
from stragglers.report.statistics import Interval
from stragglers.runs import records
from tests.support.fabricate import changed, demo, run_folder
from tests.support.injections import INJECTIONS

EVERYTHING = Options(targets=(Target("total", 0.7),), reference="fedadam")


def written(tmp_path, form, options=EVERYTHING):
    return formats.FORMATS[form](result_table.tables(records.find([tmp_path]), options), options)


def test_text_has_what_the_paper_has(tmp_path):
    demo(tmp_path / "all", 3, "emnist/per-domain")
    lines = written(tmp_path, "text").splitlines()
    assert lines[0] == "EMNIST, per-domain latency"
    row = next(line for line in lines if line.startswith(" fare-dust"))
    cells = row.split()
    assert "91.7" in cells and "267,541" in cells and cells[-1] == "3"  # the paper's, trials
    assert "5–95 % range over trials (interpolated percentiles)" in lines[-3]
    assert any(line.startswith(" vs fedadam") for line in lines) and "too few" in "".join(lines)


def test_a_diverged_trial_has_no_median(tmp_path):
    run_folder(tmp_path, seed=0)
    run_folder(tmp_path, seed=1, status="diverged", diverged="x")
    text = written(tmp_path, "text", Options())
    assert text.count("diverged in 1 of 2") == 2 and "2, 1 diverged" in text
    (row,) = json.loads(written(tmp_path, "json", Options()))["tables"][0]["rows"]
    assert row["straggler_accuracy"]["median"] is None and row["diverged"] == 1


def test_trials_that_reach_a_target_are_counted(tmp_path):
    run_folder(tmp_path, seed=0, height=0.9)
    run_folder(tmp_path, seed=1, height=0.2)
    options = Options(targets=(Target("straggler", 0.8),))
    assert " 1 of 2 " in written(tmp_path, "text", options)
    (row,) = csv.DictReader(io.StringIO(written(tmp_path, "csv", options)))
    assert (row["time_to_straggler_0.8"], row["time_to_straggler_0.8_trials"]) == ("", "1")


def test_the_method_is_named(tmp_path):
    demo(tmp_path)
    text = written(tmp_path, "text", Options(Interval("median-ci", 0.95), best=True))
    assert "95 % confidence interval of the median (binomial)" in text
    assert "at each trial's best straggler accuracy" in text and "[too few trials]" in text


def test_csv_and_json_have_the_numbers_themselves(tmp_path):
    demo(tmp_path)
    rows = list(csv.DictReader(io.StringIO(written(tmp_path, "csv"))))
    (table,) = json.loads(written(tmp_path, "json"))["tables"]
    assert [row["algorithm"] for row in rows] == [row["algorithm"] for row in table["rows"]]
    for one, other in zip(rows, table["rows"]):
        assert float(one["total_accuracy"]) == other["total_accuracy"]["median"]
        values = sorted(other["total_accuracy"]["values"])
        assert other["total_accuracy"]["median"] == values[1]


@pytest.mark.parametrize("form", formats.FORMATS)
def test_bytes_depend_on_the_folders_alone(tmp_path, form):
    demo(tmp_path / "a", 2)
    demo(tmp_path / "b", 2, "emnist/per-domain")
    found = records.find([tmp_path])
    one = formats.FORMATS[form](result_table.tables(found, EVERYTHING), EVERYTHING)
    other = formats.FORMATS[form](result_table.tables(found[::-1], EVERYTHING), EVERYTHING)
    assert one == other == written(tmp_path, form)


@pytest.mark.parametrize("text", INJECTIONS)
def test_strangers_cannot_write_formulas_markup_or_new_lines(tmp_path, text):
    run_folder(tmp_path, text, 0)
    run_folder(tmp_path, text, 1, status="diverged", diverged=text)
    run_folder(tmp_path, "glyphs/per-domain/fedadam", 0)
    for row in csv.reader(io.StringIO(written(tmp_path, "csv"))):
        for cell in row:
            assert not cell.lstrip().startswith(("=", "+", "@", "|")) or _number(cell)
            assert not cell.lstrip().startswith("-") or _number(cell)
            assert "\n" not in cell and "\t" not in cell
    marked = written(tmp_path, "markdown")
    assert "<" not in marked and "](" not in marked.replace("\\]", "")
    assert "http:" not in marked and "https:" not in marked
    latex = written(tmp_path, "latex")
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == 1
    assert latex.count(r"\input") == latex.count(r"\write") == 0
    plain = written(tmp_path, "text")
    assert "\x1b" not in plain and "\r" not in plain
    json.loads(written(tmp_path, "json"))


def _number(cell):
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


@pytest.mark.slow
def test_a_thousand_runs_take_seconds(tmp_path):
    """100 experiments of 10 trials with 100 evaluations each: 3 s promised."""
    template = run_folder(tmp_path / "one", points=100)
    contents = {path.name: path.read_text() for path in template.iterdir()}
    for experiment in range(100):
        for seed in range(10):
            folder = tmp_path / "many" / f"{experiment}-{seed}"
            folder.mkdir(parents=True)
            for name, content in contents.items():
                fresh = content.replace('"seed": 0', f'"seed": {seed}')
                (folder / name).write_text(fresh.replace("0123abcd", f"{experiment:08x}"))
            changed(folder)
    began = time.process_time()
    text = written(tmp_path / "many", "text", Options())
    assert text.count("\n") > 100
    assert time.process_time() - began < 3


def test_matched_columns_are_asked_for(tmp_path):
    run_folder(tmp_path, "glyphs/per-domain/feast", matched=True)
    run_folder(tmp_path, "glyphs/per-domain/fedavg", height=0.1)
    found = result_table.tables(records.find([tmp_path]))
    without, shown = (
        formats.markdown(found, Options(matched=matched)) for matched in (False, True)
    )
    assert "matched" not in without
    head, _, feast, fedavg = shown.splitlines()[2:6]
    names = [name.strip() for name in head.split("|")[1:-1]]
    assert names[1:5] == ["straggler accuracy", "total accuracy", "matched straggler"] + [
        "matched total"
    ]
    trained, matched = (
        float(cell.strip().removesuffix(" %"))
        for cell in (feast.split("|")[2], feast.split("|")[4])
    )
    assert matched == pytest.approx(trained + 5, abs=0.11)
    assert fedavg.split("|")[4:6] == [" – ", " – "]
    assert "under one bias" in shown
    (table,) = json.loads(formats.json_text(found, Options()))["tables"]
    assert table["rows"][0]["matched_total_accuracy"]["median"] > 0.5
