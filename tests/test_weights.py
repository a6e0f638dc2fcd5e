import numpy as np
import pytest

from stragglers.errors import BadInput
from stragglers.weights import report_weights

STALENESS, SIZES = np.array([0, 0, 1, 3, 8]), np.array([5, 0, 7, 2, 4])


def test_all_reports_weigh_the_same_unless_told_otherwise():
    assert report_weights(STALENESS, SIZES).tolist() == [1, 1, 1, 1, 1]


def test_a_report_may_weigh_its_examples():
    assert report_weights(STALENESS, SIZES, by="examples").tolist() == [5, 0, 7, 2, 4]


def test_the_square_root_of_staleness():
    found = report_weights(STALENESS, SIZES, discount="inverse_sqrt", exponent=3.0)
    np.testing.assert_allclose(found, [1, 1, 2**-0.5, 0.5, 1 / 3], rtol=1e-15)


def test_any_power_of_staleness():
    found = report_weights(STALENESS, SIZES, discount="polynomial", exponent=2.0)
    np.testing.assert_allclose(found, [1, 1, 1 / 4, 1 / 16, 1 / 81], rtol=1e-15)


def test_examples_and_staleness_multiply():
    found = report_weights(STALENESS, SIZES, by="examples", discount="polynomial", exponent=1.0)
    np.testing.assert_allclose(found, [5, 0, 3.5, 0.5, 4 / 9], rtol=1e-15)


def test_the_exponent_zero_is_no_discount():
    found = report_weights(STALENESS, SIZES, discount="polynomial", exponent=0.0)
    assert found.tolist() == report_weights(STALENESS, SIZES).tolist()


def test_whole_numbers_of_any_width_give_double_precision():
    for dtype in (np.int16, np.int32, np.int64):
        found = report_weights(STALENESS.astype(dtype), SIZES.astype(dtype), by="examples",
                               discount="inverse_sqrt")  # fmt: skip
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, SIZES / np.sqrt(1 + STALENESS), rtol=1e-15)


def test_nobody_weighs_nothing():
    nobody = np.array([], int)
    assert report_weights(nobody, nobody, by="examples", discount="polynomial").tolist() == []


@pytest.mark.parametrize("exponent", [-0.1, np.nan, np.inf])
def test_a_bad_exponent_is_one_line(exponent):
    with pytest.raises(BadInput, match=f"staleness exponent={exponent}") as error:
        report_weights(STALENESS, SIZES, exponent=exponent)
    assert "\n" not in str(error.value)
