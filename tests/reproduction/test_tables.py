"""Cells and tables: what stands beside a number."""

import pytest

from reproduction import rows, tables


@pytest.fixture(scope="module")
def numbers():
    there = rows.found()
    return lambda variant: rows.measured(variant, there)


def test_few_trials_are_told(numbers):
    many = numbers(rows.Variant("emnist/per-domain/fedadam"))
    one = many._replace(trials=1)
    assert tables.ends(many, " %") == "78.9 / 83.9 %"
    assert tables.ends(one, " %") == "78.9 / 83.9 % (1)"
    assert tables.both(one).endswith(" (1)") and not tables.both(many).endswith(")")
    assert tables.ahead(many, one) == "0.0 (1)" and tables.above(one, many) == "+0.0 / +0.0 (1)"


def test_rows_with_fewer_updates_are_marked(numbers):
    for name, marked in (
        ("emnist/per-example", ["FedBuff + EMA †", "FedBuff †"]),
        ("cifar100/per-domain", []),
    ):
        table = tables.table(name, numbers)
        assert [row[0] for row in table.rows if "†" in row[0]] == marked
        assert table.note == ("† 80,000 updates; all others 100,000." if marked else "")


def test_what_is_not_trained_is_listed_by_row(numbers):
    point = next(point for point in rows.points() if point.name == "kappa")
    preset = point.preset
    assert tables.untrained([point], numbers) == {}
    gone = rows.Variant(preset, ("kappa=0.1",))
    left = tables.untrained([point], lambda variant: None if variant == gone else numbers(variant))
    assert left == {preset: ["`kappa=0.1` (kappa)"]}


def test_clients_are_those_of_a_schedule():
    groups = {
        name: {"clients": clients, "examples": {"mean": mean, "p50": mean, "max": 2 * mean}}
        for name, clients, mean in (("standard", 3, 10.0), ("straggler", 1, 30.0))
    }
    clients = tables.clients({"groups": groups})
    assert clients == (4, 1, 60.0, 50.0, 60.0, {"standard": 10.0, "straggler": 30.0})
