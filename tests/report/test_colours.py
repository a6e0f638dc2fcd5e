import itertools

from stragglers.config import catalog
from stragglers.report.colours import DASHES, FAMILIES, MARKERS, _shaded, looks
from stragglers.report.grouping import sections
from stragglers.runs import records
from tests.support.fabricate import run_folder


def look(tmp_path):
    (section,) = sections(records.find([tmp_path]))
    return looks(section.experiments)


def test_every_row_has_a_look_of_its_own(tmp_path):
    names = [name for name in catalog.presets() if name.startswith("emnist/per-domain/")]
    for name in names:
        run_folder(tmp_path, name)
    found = look(tmp_path)
    assert len(set(found.values())) == len(names) == 14
    assert {one.dash for one in found.values()} <= DASHES.keys()
    assert {one.marker for one in found.values()} <= MARKERS.keys()


def test_shades_of_every_family_are_told_apart():
    for family, colour in FAMILIES.items():
        shades = {_shaded(colour, (index + 1) / 4 - 0.5) for index in range(3)}
        assert len(shades) == 3, family


def test_an_algorithm_keeps_its_colour_whoever_is_beside_it(tmp_path):
    for row in ("feast", "fedadam", "fare-dust"):
        run_folder(tmp_path / "all", f"glyphs/per-domain/{row}")
    run_folder(tmp_path / "one", "glyphs/per-domain/feast")
    assert look(tmp_path / "all")["feast"] == look(tmp_path / "one")["feast"]


def test_a_name_of_ones_own_has_the_colour_of_its_algorithm(tmp_path):
    run_folder(tmp_path, "mine", preset="glyphs/per-domain/feast")
    run_folder(tmp_path, "glyphs/per-domain/fedadam")
    run_folder(tmp_path, "other", preset="glyphs/per-domain/fedadam")
    found = look(tmp_path)
    assert found["mine"].colour == "#D55E00"
    assert found["other"].colour != found["fedadam"].colour  # two lines of one kind: two shades


def test_a_sweep_goes_through_shades(tmp_path):
    for index, kappa in enumerate((0.1, 0.2, 0.3, 0.4, 0.6)):
        run_folder(tmp_path, "glyphs/per-domain/feast", digest=f"{index}", set=(f"kappa={kappa}",))
    brightness = [
        sum(int(one.colour[i : i + 2], 16) for i in (1, 3, 5)) for one in look(tmp_path).values()
    ]
    assert all(a < b for a, b in itertools.pairwise(brightness))
