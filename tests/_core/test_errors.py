import pickle

import pytest

from stragglers._core.errors import BadInput, about, shown


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
