import jax
import numpy as np

from stragglers.tasks.base import ALIGNED, rows_of


def test_rows_are_taken_where_a_cpu_device_needs_no_copy():
    x = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    rows = np.array([4, 0, 0, 3])
    taken = rows_of(x, rows)
    np.testing.assert_array_equal(taken, x[rows])
    assert taken.dtype == x.dtype and taken.ctypes.data % ALIGNED == 0
    if jax.default_backend() == "cpu":
        array = jax.device_put(taken)
        assert array.unsafe_buffer_pointer() == taken.ctypes.data
    assert rows_of(x.astype(np.float32), rows[:0]).shape == (0, 7, 3)
