import numpy as np
import pytest

from stragglers.planning import latency, paper_populations
from stragglers.planning.fleet import Fleet
from stragglers.planning.make_schedule import schedule
from stragglers.planning.policy import Rounds
from stragglers.report import figures, figures_plan
from stragglers.runs import records
from tests.support.fabricate import demo, run_folder
from tests.support.injections import INJECTIONS


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = demo(tmp_path_factory.mktemp("runs"), 2)
    demo(folder, 2, "emnist/per-domain")
    run_folder(folder, "emnist/per-domain/fedbuff", 0)
    run_folder(folder, "emnist/per-domain/fedbuff", 1, status="diverged", diverged="x")
    return records.find([folder])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["pdf", "svg", "png"])
def test_figures_repeat_byte_by_byte(found, suffix, tmp_path):
    for name, order in (("a", found), ("b", found[::-1])):
        figures.save(figures.accuracy_figure(order), tmp_path / f"{name}.{suffix}")
        figures.save(figures.trade_off_figure(order, best=True), tmp_path / f"{name}2.{suffix}")
    for end in ("", "2"):
        one, other = (tmp_path / f"{name}{end}.{suffix}" for name in "ab")
        assert one.read_bytes() == other.read_bytes()
        assert len(one.read_bytes()) > 5000


def test_the_papers_comparisons_are_drawn_where_they_can_be(found):
    assert list(figures.result_figures(found)) == [
        "emnist-per-domain-accuracy",
        "emnist-per-domain-trade-off",
        "emnist-per-domain-trade-off-best",
        "emnist-per-domain-fedbuff-ema-and-adam",
        "emnist-per-domain-fedadam-and-over-selection",
        "glyphs-per-domain-accuracy",
        "glyphs-per-domain-trade-off",
        "glyphs-per-domain-trade-off-best",
        "glyphs-per-domain-fedadam-and-over-selection",
    ]


def test_lines_are_medians_and_diverged_trials_end_in_a_cross(found):
    emnist = [record for record in found if record.name.endswith("per-domain/fedbuff")]
    (part,) = figures.accuracy_figure(emnist).subfigs
    median, trial, cross = part.axes[0].lines
    assert cross.get_marker() == "x" and cross.get_xdata()[-1] == trial.get_xdata()[-1]
    assert median.get_label() == "fedbuff (1 diverged of 2)"
    good = emnist[0].curve["straggler_accuracy"]
    assert np.allclose(median.get_ydata(), 100 * good)


def test_what_diverged_is_in_the_legend_of_the_trade_off(found):
    (part, _) = figures.trade_off_figure(found).subfigs
    (legend,) = part.legends
    assert "fedbuff (1 diverged of 2)" in {text.get_text() for text in legend.get_texts()}


def test_a_large_sweep_has_no_legend_over_its_axes(tmp_path):
    for index in range(30):
        run_folder(
            tmp_path,
            "glyphs/per-domain/feast",
            digest=f"{index:04}",
            points=2,
            set=(f"kappa={index / 30}",),
        )
    (part,) = figures.accuracy_figure(records.find([tmp_path])).subfigs
    assert not part.legends and len(part.axes[0].lines) == 30


def test_every_experiment_has_a_plan_to_draw(found):
    plans = figures.to_plan(found)
    assert len(plans) == 13 and plans["glyphs-per-domain-plan-feast"].seed == 0


def test_names_of_strangers_are_drawn_as_they_are(tmp_path):
    for index, text in enumerate(["$\\frac{$", "_hidden", *INJECTIONS[-4:]]):
        run_folder(tmp_path / str(index), text)
    drawn = figures.result_figures(records.find([tmp_path]))
    for name, figure in drawn.items():
        figures.save(figure, tmp_path / f"{name}.svg")
    (part,) = drawn["glyphs-per-domain-accuracy"].subfigs
    labels = [text.get_text() for text in part.legends[0].get_texts()]
    assert len(labels) == 6 and " _hidden" in labels


def test_a_plan_has_its_name_as_title_whatever_that_is(tmp_path):
    fleet = Fleet(paper_populations.cifar100(), latency.PER_DOMAIN)
    plan = schedule(fleet, Rounds(goal=5, cohort=6), updates=20)
    figure = figures_plan.plan_figure(plan, "$\\frac{$ 1")
    figures.save(figure, tmp_path / "plan.png")
    assert figure.get_suptitle() == "$\\frac{$ 1"
