"""What cannot fit is refused in a line, before it is drawn, and what is refused would not fit."""

import os
import tracemalloc

import pytest

from stragglers._core import memory_limits
from stragglers._core.errors import BadInput
from stragglers.cli import common
from stragglers.config import catalog, checks, documents
from stragglers.report.plans import summarised
from stragglers.tasks.datasets.handwriting import book
from tests.support.command import refused

GLYPHS = "glyphs/per-domain/fedadam"


def peak(work, *arguments):
    tracemalloc.start()
    try:
        work(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def planned(preset, *sets):
    summarised(documents.settings_from(documents.override_all(catalog.read(preset), sets)))


def test_what_is_counted_is_less_than_what_is_taken():
    """Of so many more, so much more memory."""
    book(10, 7)  # whatever is there once
    planned("fleet", "updates=1000")
    assert peak(book, 400, 7) - peak(book, 100, 7) > 300 * memory_limits.WRITER
    clients = [peak(planned, "fleet", f"recent.clients={n}00_000") for n in (3, 1)]
    assert clients[0] - clients[1] > 200_000 * memory_limits.CLIENT
    for preset in ("fleet", "emnist/per-domain/fedbuff"):
        more, less = (peak(planned, preset, f"updates={n}00_000") for n in (3, 1))
        assert more - less > 200_000 * memory_limits.DISPATCH, preset


@pytest.mark.parametrize(
    "groups, files, there",
    [
        ("0::/", {"memory.max": "1000000"}, 1_000_000),
        ("0::/job/step", {"job/step/memory.max": "max", "job/memory.max": "3000"}, 3000),
        ("0::/job/step", {"job/step/memory.max": "2000", "job/memory.max": "3000"}, 2000),
        ("0::/not/seen", {"memory.max": "4000"}, 4000),
        ("4:memory:/a\n0::/", {"memory/a/memory.limit_in_bytes": "5000"}, 5000),
        ("4:cpu,memory:/a", {"memory/memory.limit_in_bytes": "6000"}, 6000),
        ("4:cpu:/a", {"memory/a/memory.limit_in_bytes": "7000"}, None),
        ("4:memory:/", {"memory/memory.limit_in_bytes": "9223372036854771712"}, None),
        ("0::/", {}, None),
        ("nonsense\n0::/", {"memory.max": "500"}, 500),
        (None, {"memory.max": "8000"}, None),
    ],
)
def test_a_container_has_less_than_its_machine(tmp_path, groups, files, there):
    for name, text in files.items():
        path = tmp_path / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    if groups:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(f"{groups}\n")
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory_limits.machine_bytes(tmp_path) == (there or whole)


@pytest.mark.parametrize("name", catalog.presets())
def test_presets_have_room_in_two_gigabytes(monkeypatch, name):
    monkeypatch.setattr(memory_limits, "machine_bytes", lambda: 2 * 2**30)
    checks.check(documents.settings_from(catalog.read(name)))


def test_the_last_that_fits_is_taken(monkeypatch):
    def check(writers):
        given = documents.override(catalog.read(GLYPHS), f"writers={writers}")
        checks.check(documents.settings_from(given))

    monkeypatch.setattr(memory_limits, "machine_bytes", lambda: 1000 * memory_limits.WRITER)
    check(1000)
    with pytest.raises(BadInput, match="task.writers: 1,001 writers need at least 17.2 MiB of mem"):
        check(1001)


def test_drawings_are_of_training_alone(monkeypatch):
    experiment = documents.settings_from(catalog.read(GLYPHS))  # of 200 writers
    monkeypatch.setattr(memory_limits, "machine_bytes", lambda: 200 * memory_limits.DRAWN)
    checks.check_trainable(experiment)
    monkeypatch.setattr(memory_limits, "machine_bytes", lambda: 200 * memory_limits.DRAWN - 1)
    checks.check(experiment)
    with pytest.raises(BadInput, match="the drawings of 200 writers need at least 47.7 MiB"):
        checks.check_trainable(experiment)


WRITERS = f"{GLYPHS} --set writers=100000000"
ABSURD = {
    f"run {GLYPHS} --trials 1000000": "1,000,000 trials given, expected at most 10,000 in one",
    f"run {GLYPHS} --trials 5001 --sweep batch_size=10,20": "10,002 trials given",
    f"run glyphs --trials 9999 --sweep {'batch_size=1' + ',1' * 999}": "trials given",
    "tune glyphs/per-domain/feast --trials 1000000": "trials given, expected at most 10,000",
    "tune glyphs/per-domain/feast --proposals 1000000": "expected at most 10,000",
    f"run {WRITERS}": "task.writers: 100,000,000 writers need at least 1,676 GiB",
    "tune glyphs/per-domain/feast --set writers=100000000": "1,676 GiB of memory, this machine has",
    f"plan {WRITERS}": "task.writers: 100,000,000 writers need at least 1,676 GiB",
    "plan fleet --set recent.clients=100000000 --set older.clients=100000000": "200,000,000 client",
    "plan fleet --updates 100000000 --set goal=1 --set over_selection=9": "900,000,000 dispatches",
    "plan emnist/per-domain/fedbuff --updates 100000000": "100,000,100 dispatches",
    f"plan --sweep goal=1{',1' * 100} --sweep updates=9{',9' * 99}": "10,100 combinations given",
}


@pytest.mark.parametrize("command", ABSURD, ids=lambda command: command[:80])
def test_the_absurd_is_one_line_and_nothing_is_written(capsys, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory_limits, "machine_bytes", lambda: 4 * 2**30)
    assert ABSURD[command] in refused(capsys, *command.split())
    assert list(tmp_path.iterdir()) == []


def test_ten_thousand_are_taken():
    common.check_count(10, ["a=1,2", "b=[1,2],3"], trials=250)
    with pytest.raises(BadInput, match="10,040 trials given"):
        common.check_count(10, ["a=1,2", "b=[1,2],3"], trials=251)
