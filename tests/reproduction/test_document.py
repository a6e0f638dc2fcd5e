"""The page is what its results say, and every part of it can be made again."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from reproduction import __main__ as command
from reproduction import document, picture, prior_pictures, rows
from stragglers.report.result_table import tables
from stragglers.runs import records
from stragglers.runs.signals import Interrupted

ROOT = Path(__file__).parents[2]
WRITTEN = {
    name: (ROOT / "docs" / "results" / name).read_text()
    for name in (*document.PAGES, "straggler-accuracy.md")
}


def joined(text):
    """The pages of the reproduction, without open points."""
    return "".join(text[name] for name in text if name.startswith("reproduction"))


PAGE = joined(WRITTEN)


def page():
    return joined(document.pages().text)


@pytest.fixture(scope="module")
def there():
    return rows.found()


def test_the_pages_are_what_the_command_writes():
    text, wrong = document.pages()
    assert text == WRITTEN, "run `make reproduction`"
    assert not wrong, "what the template says is not what the results show"


@pytest.mark.slow
def test_a_sentence_that_is_no_longer_true_is_named(there, monkeypatch, tmp_path, capsys):
    over, limited = (
        rows.Variant(f"cifar100/per-domain/{row}").key
        for row in ("fedadam-over-selection", "fedavg-time-limit")
    )
    monkeypatch.setattr(document, "found", lambda: there | {over: there[limited]})
    monkeypatch.setattr(command, "DOCS", tmp_path)
    assert command.main([]) == 0
    said = capsys.readouterr().err
    assert "no longer true, change it: no straggler accuracy in the end" in said
    assert "change it: With a fifth of the step, it has" in said  # which was drawn from more trials


def test_the_picture_is_of_these_results(there):
    drawn = (ROOT / "docs" / "results" / "reproduction.svg").read_text()
    assert f"curves {picture.digest(there)}" in drawn, "run `make reproduction`"
    for name in prior_pictures.PICTURES:
        drawn = (ROOT / "docs" / "results" / name).read_text()
        assert f"figures {prior_pictures.digest(name, there)}" in drawn, "run `make reproduction`"


def test_the_readme_shows_it():
    first_screen = (ROOT / "README.md").read_text().split("## ")[0]
    assert "(docs/results/straggler-accuracy-matched.svg)" in first_screen
    assert "(docs/results/straggler-accuracy.md)" in first_screen


def test_what_the_readme_says_about_it(there):
    """One number lifts over-selection from 66 / 80 to 97 / 89; on the glyphs a gap shrinks."""
    text = " ".join((ROOT / "README.md").read_text().split())
    figures = ("held_out_straggler", "held_out_total", "matched_straggler", "matched_total")
    over = rows.Variant("emnist/per-domain/fedadam-over-selection", ())
    found = [medians(over, there, f"{figure}_accuracy") for figure in figures]
    said = re.search(r"from (\d+) / (\d+) % to (\d+) / (\d+) %", text)
    assert [f"{100 * value:.0f}" for value in found] == list(said.groups())
    gaps = []
    for figure in ("held_out_straggler", "matched_straggler"):
        waiting, closing = (
            medians(rows.Variant(f"glyphs/per-domain/{row}", ()), there, f"{figure}_accuracy")
            for row in ("fedadam", "fedadam-over-selection")
        )
        gaps.append(f"{100 * (waiting - closing):.0f}")
    assert gaps == list(re.search(r"gap of (\d+) points shrinks to (\d+)", text).groups())


def medians(variant, there, column):
    return float(np.median([trial.curve[column][-1] for trial in there[variant.key]]))


def test_the_readme_leads_to_it():
    text = (ROOT / "README.md").read_text()
    assert "(docs/results/reproduction.md)" in text
    places = re.findall(r"\]\(docs/results/([^)#]+)#?([^)]*)\)", text)
    assert all((ROOT / "docs" / "results" / file).exists() for file, _ in places)
    assert all(anchor in anchors(WRITTEN[file]) for file, anchor in places if anchor)


def test_the_command_table_has_the_numbers_of_the_page(there):
    """`stragglers table reproduction/results`: medians and trials of every published row."""
    trials = [trial for some in there.values() for trial in some]
    found = [row for table in tables(trials) for row in table.rows if row.experiment.paper]
    assert sorted(row.experiment.name for row in found) == sorted(
        variant.preset for variant in rows.published()
    )
    for row in found:
        straggler, total, time = (
            row.metrics[key].median for key in ("straggler_accuracy", "total_accuracy", "time_s")
        )
        ours = rows.measured(rows.Variant(row.experiment.name), there)
        assert row.over == ours.trials and time == ours.time_s.median
        assert (100 * straggler, 100 * total) == (ours.straggler.median, ours.total.median)
        shown = (
            re.escape(row.experiment.paper["row"]),
            f"{100 * straggler:.1f}",
            (f"{100 * total:.1f}"),
            f"{time:,.0f}",
            str(row.over),
        )
        assert re.search(r"^\| {}.* {} .* {} .* {} .* {} \|$".format(*shown), PAGE, re.M), shown
    every = sum(len(table.rows) for table in tables(trials))
    assert every == len(there)  # variants are rows as well, each once


def test_results_are_whole_small_and_belong(there):
    wanted = {variant.key for variant in rows.chosen([])}
    assert there.keys() <= wanted
    for trial in (trial for trials in there.values() for trial in trials):
        assert trial.status == "finished" and not trial.warnings
        assert trial.settings["updates"] == trial.curve["updates"][-1] or "feast" in trial.name
        assert "path" not in trial.settings["task"]
        assert len(trial.curve["step"]) == rows.Variant(trial.name).evaluations
        assert {file.name for file in trial.folder.iterdir()} == {
            "curve.jsonl.gz",
            "run.json",
            "settings.toml",
        }
    assert sum(file.stat().st_size for file in rows.RESULTS.rglob("*.*")) < 6e6


def test_links_lead_somewhere():
    places = {name: anchors(text) for name, text in WRITTEN.items()}
    for name, text in WRITTEN.items():
        for target, anchor in re.findall(r"\]\(([^)#]*)#?([^)]*)\)", text):
            assert (ROOT / "docs" / "results" / target).exists()
            assert not anchor or anchor in places.get(target or name, {anchor}), (name, anchor)


def anchors(text):
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_first_page_takes_two_minutes():
    text = WRITTEN["reproduction.md"]
    prose = re.sub(r"\]\([^)]*\)|^\|.*$", "", text, flags=re.M)
    assert len(prose.split()) < 600
    assert len(re.findall(r"^\d\. ", text, re.M)) == 5


@pytest.mark.slow
def test_other_results_make_another_page(there, monkeypatch):
    """Whatever stands in the page comes from the results, not from the template."""
    gone = rows.Variant("emnist/per-domain/fedbuff").key
    fewer = {key: trials for key, trials in there.items() if key != gone}
    left = sum(len(trials) for key, trials in fewer.items() if "glyphs" not in key[0])
    monkeypatch.setattr(document, "found", lambda: fewer)
    other = page()
    rows_of = {text: re.findall(r"^\| FedBuff(?: †)? \|.*$", text, re.M) for text in (PAGE, other)}
    assert len(rows_of[other]) == len(rows_of[PAGE]) - 1 and f"\n{left} trials from " in other
    assert picture.digest(fewer) == picture.digest(there)  # which has it not


def test_what_diverged_is_shown_and_compared_with_nothing(there, monkeypatch):
    key = rows.Variant("cifar100/per-domain/fare-dust").key
    lost = [trial._replace(status="diverged", diverged="so it is") for trial in there[key]]
    monkeypatch.setattr(document, "found", lambda: there | {key: lost})
    other = page()
    assert "nan" not in other
    (row,) = re.findall(r"^\| FARe-DUST \| 51\.9.*$", other, re.M)
    assert row.count("diverged") == 2 and "| – |" in row
    compared = re.findall(r"^\| CIFAR-100, per-domain, straggler: FARe-DUST.*$", other, re.M)
    assert compared and all("|  |  | " in line for line in compared)  # by the paper's tables alone


@pytest.mark.slow
def test_stack_exchange_has_a_section_of_its_own(there, monkeypatch):
    (trial, *_), (first, *others) = (
        there[rows.Variant("emnist/per-domain/fedadam").key],
        (rows.exchange()),
    )
    without = {key: trials for key, trials in there.items() if "stackoverflow" not in key[0]}
    monkeypatch.setattr(document, "found", lambda: without)
    assert "Not yet run: `python -m reproduction run stackoverflow --path DATA`" in page()
    monkeypatch.setattr(document, "found", lambda: without | {first.key: [trial]})
    other = page()
    section = other.split("### StackOverflow's shape")[1].split("\n## ")[0]
    (row,) = re.findall(r"^\| FedAdam \|.*$", section, re.M)
    assert row.startswith("| FedAdam | 25.6 [25.5, 25.7] | 82.7 | 79.3 |")
    assert row.endswith("| 85.2 | 84.0 | 6,086,590 | 726,555 | 1 |")
    assert f"Not yet run: {', '.join(rows.Variant(v.preset).paper.row for v in others)}." in section
    assert "Not yet run: `python" not in other and "nothing yet" not in other
    assert "python -m reproduction run stackoverflow --path DATA" in other  # in any case


@pytest.mark.slow
def test_the_command_writes_all(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "DOCS", tmp_path)
    assert command.main([]) == 0
    assert {name: (tmp_path / name).read_text() for name in WRITTEN} == WRITTEN
    for name in ("reproduction.svg", *prior_pictures.PICTURES):
        assert (tmp_path / name).read_text().startswith("<?xml")


@pytest.mark.parametrize("signal", [None, 15])
def test_run_trains_what_is_missing_and_keeps_what_is_over(
    there, tmp_path, monkeypatch, capsys, signal
):
    asked, kept = [], []
    variant = rows.Variant("emnist/per-domain/feast", ("kappa=0.05",))
    (folder,) = (trial.folder for trial in there[variant.key] if trial.seed == 0)
    shutil.copytree(folder, tmp_path / "results" / variant.preset / folder.name)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")

    def train(jobs, *_):
        asked.extend(jobs)
        if signal:
            raise Interrupted(signal)

    monkeypatch.setattr("stragglers.runs.trials.run_missing", train)
    monkeypatch.setattr("reproduction.data.check", lambda document, known: None)
    is_over = records.is_over
    monkeypatch.setattr(
        records, "is_over", lambda folder: folder == asked[0].folder if asked else is_over(folder)
    )
    monkeypatch.setattr(records, "put_away", lambda folder, out: kept.append(folder))
    code = command.main(["run", "kappa", "--out", str(tmp_path), "--trials", "2"])
    assert code == (143 if signal else 0)
    seeds = [(job.experiment.algorithm.kappa, job.experiment.seed) for job in asked]
    assert len(seeds) == 13 and (0.05, 1) in seeds and (0.05, 0) not in seeds  # it is kept already
    assert kept == [asked[0].folder]
    assert f"1 of {len(asked)} trials are kept" in capsys.readouterr().out


def test_keep_takes_what_belongs_and_is_whole_once(there, tmp_path, monkeypatch, capsys):
    results, runs = tmp_path / "results", tmp_path / "runs"
    monkeypatch.setattr(rows, "RESULTS", results)
    names = ("feast", "fedadam", "fedavg")
    good, running, strange = (
        there[rows.Variant(f"emnist/per-domain/{name}").key][0].folder for name in names
    )
    for name, folder in zip(names, (good, running, strange), strict=True):
        shutil.copytree(folder, runs / name / folder.name)
    for name, was, now in (
        ("fedadam", '"finished"', '"running"'),
        ("fedavg", "emnist/per-domain/fedavg", "emnist/per-domain/mine"),
    ):
        file = next((runs / name).rglob("run.json"))
        file.write_text(file.read_text().replace(was, now))
    for _ in range(2):
        assert command.main(["keep", str(runs)]) == 0
    said = capsys.readouterr().out
    assert "1 trials are kept" in said and "0 trials are kept" in said
    assert said.count("there already") == 1
    assert said.count("not whole") == said.count("no row of the reproduction") == 2
    (kept,) = (record for trials in rows.found().values() for record in trials)
    for file in ("settings.toml", "curve.jsonl.gz"):
        assert (kept.folder / file).read_bytes() == (good / file).read_bytes()
    then = json.loads((good / "run.json").read_text())
    assert then.pop("format") == 1 and kept.is_sealed and then.items() <= kept.run.items()
    assert kept.folder == results / "emnist" / "per-domain" / "feast" / good.name


def test_unknown_names_are_refused(capsys):
    assert command.main(["run", "kapa"]) == 2
    assert "'kapa' is no row of the reproduction" in capsys.readouterr().err
