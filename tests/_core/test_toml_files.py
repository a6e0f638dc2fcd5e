import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stragglers._core import toml_files
from stragglers._core.errors import BadInput
from stragglers.config import catalog, documents
from stragglers.config.settings import Experiment

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | TEXT
    | st.dates()
    | st.times()
    | st.datetimes()
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)


def without_none(value):
    if isinstance(value, dict):
        return {key: without_none(inside) for key, inside in value.items() if inside is not None}
    return [without_none(inside) for inside in value] if isinstance(value, list) else value


def no_none_in_lists(value):
    if isinstance(value, dict):
        return all(map(no_none_in_lists, value.values()))
    return not isinstance(value, list) or all(
        inside is not None and no_none_in_lists(inside) for inside in value
    )


@given(st.dictionaries(TEXT, VALUES.filter(no_none_in_lists), max_size=5))
def test_what_is_written_reads_back(document):
    assert tomllib.loads(toml_files.dumps(document)) == without_none(document)


@given(st.text(st.characters(codec="utf-8")))
def test_every_string_reads_back_to_its_last_character(text):
    assert tomllib.loads(toml_files.dumps({text: text})) == {text: text}


@pytest.mark.parametrize("name", catalog.presets())
def test_every_preset_reads_back_as_the_same_experiment(name):
    experiment = documents.settings_from(catalog.read(name))
    text = toml_files.dumps(experiment.document)
    again = documents.settings_from(tomllib.loads(text))
    assert isinstance(again, Experiment) and again == experiment


def test_it_is_laid_out_for_people():
    document = {"a": 1, "c": {"d": {"e": True}}, "b": [1.5, {"x": "y"}], "empty": {}}
    assert toml_files.dumps(document) == (
        'a = 1\nb = [1.5, { x = "y" }]\n\n[c.d]\ne = true\n\n[empty]\n'
    )


def test_tables_more_than_three_deep_are_inline():
    each = {"kind": "percentiles", "table": {"50": 26.0, "99.9": 400.0}}
    document = {"latency": {"model": "groups", "groups": {"slow, old": {"overhead": each}}}}
    assert toml_files.dumps(document) == (
        '[latency]\nmodel = "groups"\n\n[latency.groups."slow, old"]\n'
        'overhead = { kind = "percentiles", table = { 50 = 26.0, "99.9" = 400.0 } }\n'
    )
    assert toml_files.dumps({"a": {"b": {"c": {"d": {}}}}}) == "[a.b.c]\nd = {}\n"


def test_what_toml_has_no_word_for_is_refused():
    with pytest.raises(TypeError, match="no place in TOML"):
        toml_files.dumps({"a": object()})


def test_a_text_of_any_length_is_refused_before_it_is_parsed(tmp_path):
    fits, longer = tmp_path / "fits.toml", tmp_path / "longer.toml"
    start = "x = 1\ny = ["
    fits.write_text(start + "1," * ((toml_files.LONGEST - len(start) - 1) // 2) + "]")
    longer.write_text(start + "1," * toml_files.LONGEST + "]")
    assert len(toml_files.read(fits, "fits")["y"]) > 8000
    with pytest.raises(BadInput, match=r"longer: 32,780 characters given.* 16,384.*'y = \[1,1"):
        toml_files.read(longer, "longer")
    assert len(toml_files.read(longer, "longer", float("inf"))["y"]) == toml_files.LONGEST
