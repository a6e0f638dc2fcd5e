"""Examples in every form become the same flat arrays."""

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.client_examples import by_client

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 3)), np.arange(7) % 2
OFFSETS = [0, 2, 6, 7]
PAIRS = [(X[a:b], Y[a:b]) for a, b in zip(OFFSETS[:-1], OFFSETS[1:], strict=True)]
NAMES = ["anna", "ben", "cleo"]
IDS = np.repeat(NAMES, np.diff(OFFSETS))


class Table:
    """As much of a table of Hugging Face `datasets` as is asked of one."""

    def __init__(self, columns):
        self._columns = columns
        self.column_names = list(columns)

    def with_format(self, kind):
        assert kind == "numpy"
        return Table(self._columns)

    def __getitem__(self, rows):
        return {name: column[rows] for name, column in self._columns.items()}


def given(clients, offsets=None, client_ids=None, columns=None):
    return by_client(clients, offsets, client_ids, columns)


FORMS = {
    "dict": lambda: given(dict(zip(NAMES, PAIRS, strict=True))),
    "list": lambda: given(PAIRS),
    "offsets": lambda: given((X, Y), offsets=OFFSETS),
    "ids": lambda: given((X, Y), client_ids=IDS),
    "shuffled": lambda: given((X[ORDER], Y[ORDER]), client_ids=IDS[ORDER]),
    "lists": lambda: given((X.tolist(), Y.tolist()), client_ids=IDS.tolist()),
    "table": lambda: given(
        Table({"image": X, "label": Y, "who": IDS}), client_ids="who", columns=("image", "label")
    ),
    "tables": lambda: given(
        {name: Table({"a": x, "b": y}) for name, (x, y) in zip(NAMES, PAIRS, strict=True)},
        columns=("a", "b"),
    ),
}
ORDER = np.array([2, 6, 0, 3, 4, 1, 5])  # rows of a client keep theirs


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form):
    found = FORMS[form]()
    np.testing.assert_array_equal(found.x, X.astype(found.x.dtype))
    np.testing.assert_array_equal(found.y, Y)
    np.testing.assert_array_equal(found.offsets, OFFSETS)
    assert found.names == (None if form in ("list", "offsets") else tuple(NAMES))


def test_types_are_those_of_devices():
    found = given((X.astype(np.float64), Y.astype(np.int64)), offsets=OFFSETS)
    assert (found.x.dtype, found.y.dtype) == (np.float32, np.int32)
    assert given((np.zeros((7, 2), np.uint8), Y), offsets=OFFSETS).x.dtype == np.uint8


def test_clients_go_by_number_not_by_word():
    found = given((X, Y), client_ids=np.array([10, 10, 9, 9, 9, 9, 2]))
    assert found.names == ("2", "9", "10")


@pytest.mark.filterwarnings("ignore")  # the library's own
def test_a_table_of_the_real_library():
    datasets = pytest.importorskip("datasets")
    columns = {"x": X.tolist(), "y": Y.tolist(), "who": IDS.tolist()}
    # With a fingerprint: the library need not hash the table, which some versions of dill cannot.
    table = datasets.Dataset(datasets.table.InMemoryTable.from_pydict(columns), fingerprint="tiny")
    found = given(table, client_ids="who", columns=("x", "y"))
    np.testing.assert_array_equal(found.x, X.astype(np.float32))
    assert found.names == tuple(NAMES)


WRONG = {
    "ragged rows": (
        lambda: given([([[1.0, 2.0], [3.0]], [0, 1])]),
        "clients: client 0: x: rows of different shapes",
    ),
    "ragged clients": (
        lambda: given({"anna": PAIRS[0], "ben": (X[:2, :2], Y[:2])}),
        r"client 'ben' has examples x of float32\[2\], but client 'anna' of float32\[3\]",
    ),
    "types": (
        lambda: given([PAIRS[0], (X[:2].astype(np.uint8), Y[:2])]),
        r"client 1 has examples x of uint8\[3\], but client 0 of float32\[3\]",
    ),
    "empty": (
        lambda: given({"anna": PAIRS[0], "ben": (X[:0], Y[:0])}),
        "client 'ben' has no examples. Leave it out",
    ),
    "lengths": (lambda: given([(X, Y[:3])]), r"x of shape \[7, 3\] and y of shape \[3\]"),
    "nan": (
        lambda: given([(np.where(np.isclose(X, X[4, 1]), np.nan, X), Y)]),
        "client 0: x: row 4 is not finite",
    ),
    "text": (lambda: given([(np.array([["a"]] * 7), Y)]), "x: dtype <U1. Give one array"),
    "complex": (lambda: given([(X + 1j, Y)]), "x: dtype complex128"),
    "large": (lambda: given([(X, Y + 2**40)]), "Make them fit int32"),
    "one pair": (lambda: given((X, Y)), "expected a dict or a list of .* client_ids="),
    "no clients": (lambda: given({}), "clients: no clients"),
    "no pair": (lambda: given([X, Y, X]), r"client 0 = 'ndarray': expected a pair \(x, y\)"),
    "both": (lambda: given((X, Y), [0, 7], IDS), "offsets and client_ids are both given"),
    "offsets": (lambda: given((X, Y), [0, 3]), "offsets = .*: expected whole numbers from 0 to 7"),
    "empty offsets": (lambda: given((X, Y), [0, 3, 3, 7]), "client 1 has rows 3 to 3"),
    "ids": (lambda: given((X, Y), client_ids=IDS[:3]), r"client_ids: <U4\[3\] for 7 examples"),
    "no table": (
        lambda: given((X, Y), client_ids="who"),
        "names a column, but clients is",
    ),
    "no columns": (
        lambda: given({"a": Table({"image": X, "label": Y})}),
        "a table of columns image, label. Say which",
    ),
    "a column": (
        lambda: given({"a": Table({"image": X, "label": Y})}, columns=("imag", "label")),
        "no column 'imag'; did you mean 'image'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line(case):
    call, line = WRONG[case]
    with pytest.raises(BadInput, match=line) as error:
        call()
    assert "\n" not in str(error.value)
