import math
import re

import pytest

from stragglers._core import tables
from stragglers._core.tables import SHOWN, Block

BLOCK = Block(["group", "share"], [["<slow> [b]", "5 %"], ["fast", "95 %"]])


def test_text_keeps_what_it_is_given_and_ends_no_line_with_blanks():
    lines = tables.text(["the first line", BLOCK, "the last line"]).splitlines()
    assert lines[0] == "the first line" and lines[-1] == "the last line"
    assert [line.split() for line in lines if "%" in line] == [
        ["<slow>", "[b]", "5", "%"],
        ["fast", "95", "%"],
    ]
    assert all(line == line.rstrip() for line in lines)


def test_names_are_on_the_left_and_numbers_on_the_right():
    *_, slow, fast = tables.text([BLOCK]).rstrip().splitlines()
    assert slow.index("<") == fast.index("f") and len(slow) == len(fast)


class Table:
    def _parts(self):
        yield "a & b"
        yield BLOCK


def test_html_is_escaped():
    page = tables.as_html(Table())
    assert "a &amp; b" in page and ">&lt;slow&gt; [b]</td>" in page
    assert page.count("<tr>") == 3 and page.count("<table>") == page.count("</table>") == 1


def test_html_has_names_on_the_left_and_numbers_on_the_right():
    cells = re.findall(r"align: (\w+);[^>]*>(fast|95 %)<", tables.as_html(Table()))
    assert cells == [("left", "fast"), ("right", "95 %")]


@pytest.mark.parametrize("rows", [0, 1, SHOWN, SHOWN + 1, 1000])
def test_of_a_long_table_the_ends_are_shown(rows):
    shown = list(tables.ends(rows))
    if rows <= SHOWN:
        assert shown == list(range(rows))
    else:
        assert len(shown) == SHOWN + 1 and shown.count(None) == 1
        assert (shown[0], shown[-1]) == (0, rows - 1)


def test_what_is_no_number_is_a_dash():
    block = tables.listed({"step": ([1, 2], ","), "share": ([0.5, math.nan], ".1f")})
    assert block == Block(["step", "share"], [["1", "0.5"], ["2", tables.NOTHING]])


def test_text_is_displayed_nowhere_else(monkeypatch):
    """In a notebook rich displays what it prints, besides writing it to its file."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *_: pytest.fail("displayed"))
    assert "the first line" in tables.text(["the first line", BLOCK])
