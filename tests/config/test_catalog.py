import json

import pytest

from stragglers._core.errors import BadInput
from stragglers.config import catalog

DEMO = "glyphs/per-domain"


def test_an_argument_stands_for_one_experiment_or_several(tmp_path):
    one, twice = catalog.expand([f"{DEMO}/feast"])
    assert one == {f"{DEMO}/feast": f"{DEMO}/feast"} and twice == []
    demo = {name for name in catalog.presets() if name.startswith(f"{DEMO}/")}
    assert set(catalog.expand([DEMO])[0]) == demo < set(catalog.expand(["glyphs/"])[0])
    everything = catalog.expand(["all"])[0]
    fleets = {name for name in catalog.presets() if catalog.read(name)["task"]["name"] == "fleet"}
    assert set(everything) == set(catalog.presets()) - fleets and "fleet-dropout" in fleets


def test_a_folder_does_not_hide_the_preset_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEMO / "feast").mkdir(parents=True)
    assert catalog.expand([f"{DEMO}/feast"])[0] == {f"{DEMO}/feast": f"{DEMO}/feast"}
    (tmp_path / DEMO / "feast" / "mine.toml").touch()
    assert list(catalog.expand([f"./{DEMO}/feast"])[0]) == ["mine"]


def test_files_and_folders_of_them_have_safe_names(tmp_path):
    for name in ("a.toml", "in/b c.toml", "in/..toml", "in/Ä=x.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names, _ = catalog.expand([str(tmp_path)])
    assert set(names) == {"a", "in/b-c", "in/-", "in/--x"}
    assert names["in/b-c"] == str(tmp_path / "in" / "b c.toml")
    assert catalog.expand([str(tmp_path / "in" / "b c.toml")])[0] == {"b-c": names["in/b-c"]}


def test_what_is_given_twice_is_told(tmp_path):
    names, twice = catalog.expand([f"{DEMO}/feast", DEMO])
    assert names == catalog.expand([DEMO])[0] and twice == [f"{DEMO}/feast"]
    for folder in "ab":
        (tmp_path / folder).mkdir()
    with pytest.raises(BadInput, match="share the name 'x'; rename one"):
        catalog.expand([str(tmp_path / "a" / "x.toml"), str(tmp_path / "b" / "x.toml")])


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match="no preset 'glypsh'; did you mean 'glyphs'"):
        catalog.expand(["glypsh"])
    with pytest.raises(BadInput, match="no preset '###'; `stragglers list` names them"):
        catalog.expand(["###"])
    with pytest.raises(BadInput, match="no .toml file in this folder"):
        catalog.expand([str(tmp_path)])
    for name in ("settings.toml", "run.json"):  # a run is no folder of experiments
        (tmp_path / name).touch()
    told = f"{tmp_path}: runs, expected experiments; .* such as {tmp_path}/settings.toml"
    with pytest.raises(BadInput, match=told):
        catalog.expand([str(tmp_path)])
    assert list(catalog.expand([str(tmp_path / "settings.toml")])[0]) == ["settings"]


def test_the_settings_of_a_run_have_its_name(tmp_path):
    names = {"a": f"{DEMO}/feast-0.5", "b": "/../.x y", "c": "", "d": 3}
    files = [tmp_path / place / "settings.toml" for place in names]
    for file, name in zip(files, names.values()):
        file.parent.mkdir()
        file.with_name("run.json").write_text(json.dumps({"name": name, "seed": 1}))
    found, _ = catalog.expand(list(map(str, files[:3])))
    assert found == dict(zip([f"{DEMO}/feast-0.5", "-/-/-x-y", "settings"], map(str, files)))
    assert list(catalog.expand([str(files[3])])[0]) == ["settings"]
    assert list(catalog.expand([str(files[0].with_name("mine.toml"))])[0]) == ["mine"]
