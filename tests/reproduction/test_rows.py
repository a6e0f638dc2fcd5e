import numpy as np

from reproduction import rows
from stragglers.cli.run import DEMO
from stragglers.config import catalog, documents


def test_every_published_row_of_images_is_there_once():
    names = [variant.preset for variant in rows.published()]
    images = [n for n in catalog.presets() if n.startswith(("emnist/", "cifar100/"))]
    ours = {"emnist/per-domain/feast-balanced"}
    ours |= {name for name in images if name.endswith("/semi-async-damped")}
    assert set(names) == set(images) - ours and len(names) == len(set(names)) == 46
    assert names[0] == "cifar100/per-domain/fedadam"
    assert all(variant.paper for variant in rows.published())


def test_every_open_point_can_be_trained():
    for point in rows.points():
        keys = {variant.key for variant in point.variants}
        assert len(keys) == len(point.variants)
        assert len(keys) > 1 or point.common  # a row under other conditions is one, too
        assert point.beside.preset in catalog.presets()
        kappa = {"beta", "beta-cifar100", "persistence-feast", "tau-small-kappa"}  # of their own
        assert (rows.Variant(point.preset, point.common).key in keys) != (point.name in kappa)


def test_stack_exchange_is_not_taken_for_a_published_row():
    variants = rows.chosen(["stackoverflow"])
    assert variants == rows.exchange() and len(variants) == len(rows.FIRST)
    for variant in variants:
        experiment = documents.settings_from(variant.document)
        assert experiment.paper is None and rows.Variant(variant.preset).paper
        assert experiment.task.straggler_tags == ("quantum-computer", "taste")
        assert experiment.updates == 24_000
        assert variant.key != rows.Variant(variant.preset).key


def test_glyphs_have_every_algorithm_of_the_demo_with_every_loss():
    variants = rows.glyphs()
    algorithms = {variant.preset.rsplit("/")[-1] for variant in variants}
    assert algorithms == {*DEMO} - {"semi-async-damped"}  # which is semi-async with a loss
    assert len({variant.key for variant in variants}) == len(variants) == 3 * len(algorithms)
    assert rows.chosen(["glyphs"]) == variants
    there = rows.found()
    for variant in variants:
        assert sorted(trial.seed for trial in there[variant.key]) == [*range(10)]


def test_names_choose_rows_and_points_once():
    chosen = rows.chosen(["emnist/per-domain/feast", "kappa"])
    assert len(chosen) == 7 and chosen[0] == rows.Variant("emnist/per-domain/feast")
    assert len(rows.chosen(["cifar100"])) == 22
    digits = rows.chosen(["digits"])  # with the row that they are measured against
    assert [variant.preset.rsplit("/")[-1] for variant in digits] == ["fedbuff-ema"] * 2 + [
        "fedavg"
    ]
    assert all("digits=0.511" in variant.sets for variant in digits)
    assert len({variant.key for variant in rows.chosen([])}) == len(rows.chosen([]))


def test_numbers_are_of_the_last_point_and_of_the_last_fifth():
    there = rows.found()
    variant = rows.Variant("cifar100/per-domain/fedadam")
    trial = there[variant.key][0]
    measured = rows.measured(variant, {variant.key: [trial]})
    curve = 100 * trial.curve["straggler_accuracy"]
    assert measured.straggler.median == curve[-1]
    np.testing.assert_allclose(measured.late_straggler, curve[40:].mean())
    np.testing.assert_allclose(measured.swing, curve[40:].std())
    assert measured.trials == 1 and measured.time_s.median == trial.curve["time_s"][-1]


def test_a_trial_is_found_whatever_new_settings_there_are():
    there = rows.found()
    variant = rows.Variant("emnist/per-domain/feast", ("kappa=0.1",))
    trial = there[variant.key][0]
    older = {key: value for key, value in trial.settings.items() if key != "precision"}
    older = trial._replace(settings=older, hash="another")
    assert rows.key_of(older) == variant.key  # filled in with its default
    assert rows.measured(rows.Variant("emnist/per-domain/feast", ("kappa=0.11",)), there) is None


def test_nothing_is_found_where_nothing_is(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "RESULTS", tmp_path)
    assert rows.found() == {}


def test_fifths_of_the_budget_end_with_the_end():
    there = rows.found()
    variant = rows.Variant("emnist/per-domain/fedadam")
    fifths = rows.by_fifths(variant, there, "total")
    assert fifths is not None and len(fifths) == 5 and fifths[0] < fifths[1] < fifths[2]
    np.testing.assert_allclose(fifths[-1], rows.measured(variant, there).late_total)
    assert rows.by_fifths(variant, {}, "total") is None
