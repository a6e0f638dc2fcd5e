import json
import pickle

import pytest

from stragglers._core.errors import BadInput, about, raised, shown


def test_no_name_ends_or_disguises_a_line():
    error = BadInput("a\nb\x1b[31m \u202ec \x00 é: unknown")
    assert str(error) == r"a\nb\x1b[31m \u202ec \x00 é: unknown"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # from another process


def test_a_list_has_lines_of_its_own():
    with pytest.raises(BadInput) as error, about("here\n"):
        raise BadInput("none of", "  this", "  or\tthat")
    assert str(error.value).splitlines() == [r"here\n: none of", "  this", r"  or\tthat"]
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_value_is_cut_to_what_a_line_has_room_for():
    assert shown("x") == "'x'" and shown(10**5000) == "a huge number"
    assert len(shown("x" * 10**6)) < 100 and shown([1] * 10**5).endswith("...")


def test_an_error_names_the_last_line_of_the_users_own_code(tmp_path):
    """Not those of libraries that it calls, nor of this package."""
    file = tmp_path / "mine.py"
    file.write_text("import json\ndef read(text):\n    return json.loads(text)\n")
    space = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    with pytest.raises(json.JSONDecodeError) as error:
        space["read"]("{")
    assert raised(error.value).startswith("JSONDecodeError: Expecting property name")
    assert raised(error.value).endswith(f", at {file}:3") and "\n" not in raised(error.value)
    assert raised(ValueError("alone\nwith more")) == "ValueError: alone"
