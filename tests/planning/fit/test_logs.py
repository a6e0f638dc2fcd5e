import csv

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.planning.fit import logs

PARTS = "client,group,examples,communication,overhead,training\n"
WHOLE = "client,group,examples,seconds\n"


@pytest.fixture
def read(tmp_path):
    """Reads a log of that text."""

    def of(text, encoding="utf-8"):
        (tmp_path / "log.csv").write_bytes(
            text if isinstance(text, bytes) else text.encode(encoding)
        )
        return logs.read(tmp_path / "log.csv")

    return of


def test_a_log_of_parts(read):
    log = read(PARTS + "a,new,10,1,2,3.5\nb,old,7,,,\na,new,12,4,0,1e2\n")
    assert log.names == ["a", "b"] and log.groups == ("new", "old")
    assert log.client.tolist() == [0, 1, 0] and log.group.tolist() == [0, 1]
    assert log.examples.tolist() == [10, 7, 12] and log.examples.dtype == np.int64
    assert list(log.times) == ["communication", "overhead", "training"]
    np.testing.assert_array_equal(log.times["training"], [3.5, np.nan, 100])
    np.testing.assert_array_equal(log.total, [6.5, np.nan, 104])
    assert log.came.tolist() == [True, False, True]


def test_a_log_of_totals(read):
    log = read(WHOLE + "a,new,10,5.25\nb,old,0,\n")
    assert list(log.times) == ["seconds"]
    np.testing.assert_array_equal(log.total, [5.25, np.nan])


def test_group_and_overhead_may_be_missing(read):
    log = read("client,examples,communication,training\na,1,2,3\nb,1,4,5\n")
    assert log.groups == ("everybody",) and log.group.tolist() == [0, 0]
    assert list(log.times) == ["communication", "training"] and log.total.tolist() == [5, 9]


def test_columns_come_in_any_order_and_others_are_passed_over(read):
    log = read("seconds,country,round,examples,client,country\n3,Ä,1,10,a,\n,,2,11,b,x\n")
    assert log.names == ["a", "b"] and log.examples.tolist() == [10, 11]
    np.testing.assert_array_equal(log.total, [3, np.nan])


def test_spaces_blank_lines_and_a_byte_order_mark_do_no_harm(read):
    log = read(" client ,examples, seconds\r\n\r\n a , 3 , 1.5 \r\na,4, \r\n", "utf-8-sig")
    assert log.names == ["a"] and log.examples.tolist() == [3, 4]
    assert log.came.tolist() == [True, False]


def test_any_name_will_do(tmp_path):
    names = ["a,b", 'say "hi"', "ünï ☃", "tab\there", "two\nlines", "esc\x1b[31m", "nul\0", "a.b"]
    with (tmp_path / "log.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["client", "group", "examples", "seconds"])
        lines.writerows([name, f"of {name}", 1, 2] for name in names)
    log = logs.read(tmp_path / "log.csv")
    assert log.names == names and log.groups == tuple(f"of {name}" for name in names)


def test_a_population_has_every_client_once_with_its_median_examples(read):
    log = read(WHOLE + "a,x,9,1\nb,y,4,\na,x,1,1\na,x,5,1\nb,y,8,1\nc,x,0,1\n")
    who = log.population()
    assert who.examples.tolist() == [5, 4, 0] and who.group.tolist() == [0, 1, 0]
    assert who.groups == ("x", "y") and str(log.path) in who.origin


BAD = {
    "empty": ("", "line 1: ''"),
    "a header alone": (PARTS, "no participations"),
    "no client": ("group,examples,seconds\nx,1,2\n", "line 1: 'group,examples,seconds'"),
    "no examples": ("client,seconds\na,1\n", "expected a header with client, examples"),
    "no times": ("client,examples\na,1\n", "either seconds or communication and training"),
    "half of the parts": ("client,examples,training\na,1,2\n", "either seconds or"),
    "both layouts": ("client,examples,seconds,communication,training\n", "line 1"),
    "seconds and a part": ("client,examples,seconds,overhead\n", "line 1"),
    "a column twice": ("client,examples,seconds,seconds\na,1,2,2\n", "each once"),
    "a group twice": ("client,group,group,examples,seconds\na,x,x,1,2\n", "each once"),
    "a short row": (WHOLE + "a,x,1,2\nb,x,1\n", "line 3: 'b,x,1'"),
    "a long row": (WHOLE + "a,x,1,2,3\n", "line 2: 'a,x,1,2,3'"),
    "no name": (WHOLE + ",x,1,2\n", "line 2: ',x,1,2'"),
    "no group": (WHOLE + "a,,1,2\n", "line 2: 'a,,1,2'"),
    "no number": (WHOLE + "a,x,1,soon\n", "line 2: 'a,x,1,soon'"),
    "negative": (WHOLE + "a,x,1,2\n\nb,x,1,-2\n", "line 4: 'b,x,1,-2'"),
    "infinite": (WHOLE + "a,x,1,inf\n", "line 2: 'a,x,1,inf'"),
    "not a number": (WHOLE + "a,x,1,nan\n", "line 2: 'a,x,1,nan'"),
    "a date": (WHOLE + "a,x,1,1763388139\n", "times from 0 to 1e+09 s"),
    "half of the times": (PARTS + "a,x,1,2,,4\n", "line 2: 'a,x,1,2,,4'"),
    "no examples in a row": (WHOLE + "a,x,,2\n", "line 2: 'a,x,,2'"),
    "a fraction": (WHOLE + "a,x,1.5,2\n", "line 2: 'a,x,1.5,2'"),
    "negative examples": (WHOLE + "a,x,-1,2\n", "line 2: 'a,x,-1,2'"),
    "too many examples": (WHOLE + "a,x,9999999999999999,2\n", "line 2"),
    "endless examples": (WHOLE + f"a,x,{'9' * 5000},2\n", "line 2"),
    "two groups": (
        WHOLE + "a,x,1,2\nb,y,1,2\na,y,1,2\n",
        "line 4: client 'a' in group 'y', before it was in 'x'",
    ),
    "a group each": (
        WHOLE + "".join(f"{i},{i},1,2\n" for i in range(21)),
        "21 groups, expected at most 20",
    ),
    "not UTF-8": (WHOLE.encode() + b"a,x,1,2\n\xff,x,1,2\n", "line 3: not UTF-8"),
}


@pytest.mark.parametrize("text, complaint", BAD.values(), ids=BAD)
def test_a_bad_log_is_one_line_with_file_and_line(read, text, complaint):
    with pytest.raises(BadInput) as error:
        read(text)
    message = str(error.value)
    assert complaint in message and "log.csv: " in message and "\n" not in message


def test_twenty_groups_are_fine(read):
    log = read(WHOLE + "".join(f"{i},{i % 20},1,2\n" for i in range(40)))
    assert len(log.groups) == 20


def test_a_log_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(BadInput, match="none.csv: cannot be read as a CSV file of participations"):
        logs.read(tmp_path / "none.csv")
