"""docs/results/baselines.md: its second table is of stored trials."""

import re
from pathlib import Path

import numpy as np
import pytest

from reproduction import rows

PAGE = (Path(__file__).parents[2] / "docs" / "results" / "baselines.md").read_text()
STORED = re.findall(r"^\| `([\w-]+)` \| (.*?) \| (.*?) \| ([\d,]+) \|$", PAGE, re.M)


@pytest.fixture(scope="module")
def there():
    return rows.found()


def shown(values):
    low, median, high = 100 * np.percentile(values, [5, 50, 95])
    return f"{median:.1f} % [{low:.1f}–{high:.1f}]"


@pytest.mark.parametrize("preset, straggler, total, seconds", STORED, ids=lambda part: part)
def test_the_table_has_the_stored_numbers(there, preset, straggler, total, seconds):
    trials = there[rows.Variant(f"glyphs/per-domain/{preset}", ()).key]
    ends = {name: [trial.curve[name][-1] for trial in trials] for name in trials[0].curve}
    assert len(trials) == 10
    assert shown(ends["straggler_accuracy"]) == straggler
    assert shown(ends["total_accuracy"]) == total
    assert f"{np.median(ends['time_s']):,.0f}" == seconds


def test_there_is_something_to_test():
    assert len(STORED) == 7
