"""`stragglers table` and `stragglers report`, as a user types them."""

import json
import subprocess
import sys

import pytest

from stragglers.cli.main import main
from stragglers.config import catalog, documents
from stragglers.report.plans import summarised
from stragglers.runs import records
from tests.cli.test_main import refused, run
from tests.support.fabricate import demo, run_folder


def test_tables_in_every_format(capsys, tmp_path):
    demo(tmp_path, 2)
    starts = {
        "text": "glyphs, per-domain latency\n",
        "markdown": "### glyphs",
        "csv": "task,",
        "latex": r"\begin{table}",
        "json": '{"at":"final"',
    }
    for form, start in starts.items():
        code, out, err = run(capsys, "table", str(tmp_path), "--format", form)
        assert (code, err) == (0, "") and out.startswith(start), form
    assert json.loads(run(capsys, "table", str(tmp_path), "--json")[1])["at"] == "final"


def test_options_reach_the_table(capsys, tmp_path):
    demo(tmp_path, 6)
    arguments = (
        "--interval",
        "median-ci",
        "--level",
        "0.8",
        "--target",
        "total=0.5",
        "--best",
        "--compare",
        "fedavg",
    )
    _, out, _ = run(capsys, "table", str(tmp_path), *arguments)
    for text in (
        "80 % confidence interval",
        "to total accuracy 50 % [s]",
        "vs fedavg",
        "best straggler accuracy",
    ):
        assert text in out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--compare", "fedadm"], "did you mean 'fedadam'?"),
        (["--level", "90"], "expected a share between 0 and 1"),
        (["--target", "total=80"], "such as total=0.8"),
        (["--format", "word"], "invalid choice: 'word'"),
        (["--formt", "csv"], "did you mean '--format'?"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, arguments, why):
    demo(tmp_path, 1)
    assert why in refused(capsys, "table", str(tmp_path), *arguments)


def test_folders_that_are_no_runs_are_one_line(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    for folder, why in (
        ("empty", "no runs in it"),
        ("missing", "no such folder"),
        ("file", "a file, expected a folder"),
    ):
        for command in ("table", "report"):
            assert why in refused(capsys, command, str(tmp_path / folder))


def test_tasks_do_not_mix(capsys, tmp_path):
    demo(tmp_path / "a", 1)
    demo(tmp_path / "b", 1, "emnist/per-domain")
    _, out, _ = run(capsys, "table", str(tmp_path / "a"), str(tmp_path / "b"))
    emnist, glyphs = out.split("glyphs, per-domain latency")
    assert emnist.startswith("EMNIST") and "paper" in emnist and "paper" not in glyphs


def test_a_report_with_figures(capsys, tmp_path):
    for name in ("glyphs/per-domain/fedadam", "glyphs/per-domain/fedadam-over-selection"):
        seconds = summarised(documents.settings_from(catalog.read(name)))[0]["time_s"]
        run_folder(tmp_path / "runs", name, seconds=seconds)
    arguments = [
        "report",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path / "page.html"),
        "--json",
        "--figures",
        str(tmp_path / "figures"),
        "--figure-format",
        "svg",
    ]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    written = json.loads(out)["written"]
    assert written[0] == str(tmp_path / "page.html") and len(written) == 1 + 4 + 2
    first = {path: path.read_bytes() for path in (tmp_path / "figures").iterdir()}
    assert all(path.suffix == ".svg" for path in first)
    run(capsys, *arguments)
    assert first == {path: path.read_bytes() for path in (tmp_path / "figures").iterdir()}


def test_no_plan_of_other_clients_than_a_run_had(capsys, tmp_path):
    run_folder(tmp_path / "runs", "emnist/per-domain/fedadam", seconds=726_555.0)  # 489 writers
    code, out, err = run(
        capsys,
        "report",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path / "page.html"),
        "--figures",
        str(tmp_path),
    )
    assert code == 0 and "-plan-" not in out
    assert "its clients are not those that are known without its data" in err


def test_a_plan_that_cannot_be_made_again_costs_its_figure_alone(capsys, tmp_path):
    run_folder(tmp_path / "runs", changes={"task": {"name": "fleet", "csv": "gone.csv"}})
    out = str(tmp_path / "page.html")
    code, text, err = run(
        capsys,
        "report",
        str(tmp_path / "runs"),
        "--out",
        out,
        "--figures",
        str(tmp_path / "figures"),
    )
    assert code == 0 and "no fleet-per-domain-plan" in err and err.count("\n") == 1
    assert "accuracy.pdf" in text and "-plan-" not in text


@pytest.mark.parametrize(
    ("out", "why"), [("page.txt", "ends in .html"), ("gone/page.html", "no folder")]
)
def test_a_page_needs_a_place(capsys, tmp_path, out, why):
    demo(tmp_path / "runs", 1)
    assert why in refused(capsys, "report", str(tmp_path / "runs"), "--out", str(tmp_path / out))
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_tables_load_nothing_slow(tmp_path):
    demo(tmp_path, 1)
    code = f"""if True:
        import sys
        from stragglers.cli.main import main
        main(["table", {str(tmp_path)!r}])
        print(*sys.modules.keys() & {{"jax", "matplotlib", "scipy.stats", "plotly"}})
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.splitlines()[-1], done.stderr) == ("", "")


def test_names_reach_no_terminal_as_commands(capsys, tmp_path):
    run_folder(tmp_path, "evil\x1b]0;owned\x07")
    main(["table", str(tmp_path)])
    assert "\x1b" not in capsys.readouterr().out
    assert records.find([tmp_path])[0].name == "evil\x1b]0;owned\x07"
