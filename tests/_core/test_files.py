import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from stragglers._core import files
from stragglers._core.errors import BadInput


def put(text):
    def fill(temporary):
        with open(temporary, "w") as file:
            file.write(text)

    return fill


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.txt"
    files.write(path, put("one"))
    files.write(path, put("two"))
    assert path.read_text() == "two" and list(tmp_path.iterdir()) == [path]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_what_goes_wrong_is_one_line_and_leaves_the_old_file(tmp_path, monkeypatch, call, code):
    path = tmp_path / "a.txt"
    files.write(path, put("one"))

    def fail(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(BadInput, match=os.strerror(code)) as error:
        files.write(path, put("two"))
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    path, other = tmp_path / "a [1].txt", tmp_path / "b.txt"
    killed = (
        "import os, signal, sys; from pathlib import Path; from stragglers._core import files\n"
    )
    killed += "files.write(Path(sys.argv[1]), lambda _: os.kill(os.getpid(), signal.SIGKILL))"
    for file in (path, other):
        assert subprocess.run([sys.executable, "-c", killed, file]).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2

    def meanwhile(temporary):
        files.write(path, put("another's"))
        put("mine")(temporary)

    files.write(path, meanwhile)
    assert path.read_text() == "mine"
    left = {file.name.rpartition("-")[0] for file in tmp_path.iterdir() if file != path}
    assert left == {".unfinished-b"}  # until somebody writes b.txt


def test_a_file_takes_no_folders_place(tmp_path):
    (tmp_path / "a" / "inside").mkdir(parents=True)
    with pytest.raises(BadInput, match="Is a directory"):
        files.write(tmp_path / "a", put("one"))
    assert (tmp_path / "a" / "inside").is_dir() and len(list(tmp_path.iterdir())) == 1


def test_a_folder_is_replaced_whole(tmp_path, monkeypatch):
    place = tmp_path / "a [1]"
    for text in ("one", "two"):
        (tmp_path / f"{files.UNFINISHED}a [1]-of-a-killed-one").mkdir()
        with files.replacing_folder(place) as temporary:
            (temporary / text).write_text(text)
        assert [file.name for file in place.iterdir()] == [text]
        assert list(tmp_path.iterdir()) == [place]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(place.stat().st_mode) == 0o777 & ~mask

    def full(path):
        if path.is_dir():  # the last before it takes its place
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(OSError), files.replacing_folder(place) as temporary:
        (temporary / "three").write_text("three")
    assert (place / "two").read_text() == "two" and list(tmp_path.iterdir()) == [place]


HOLDS = """
import sys, time
from pathlib import Path
from stragglers._core import files
with files.alone(Path(sys.argv[1])):
    print("mine", flush=True)
    time.sleep(60)
"""


def test_a_place_is_free_once_nobody_works_on_it(tmp_path):
    place = tmp_path / "a"
    with subprocess.Popen([sys.executable, "-c", HOLDS, place], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"mine\n"
        with open(tmp_path / "a.lock") as lock:
            assert not files.locked(lock.fileno())
        threading.Timer(0.3, other.kill).start()
        began = time.perf_counter()
        with files.alone(place):
            assert time.perf_counter() - began > 0.2 and other.wait() == -signal.SIGKILL


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EACCES])
def test_without_locks_files_are_written_and_nothing_is_tidied_up(tmp_path, monkeypatch, code):
    def flock(handle, how):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.fcntl, "flock", flock)
    left = tmp_path / f"{files.UNFINISHED}a-by-chance.txt"
    left.touch()
    files.write(tmp_path / "a.txt", put("one"))
    assert (tmp_path / "a.txt").read_text() == "one" and left.exists()
    with pytest.raises(OSError, match=os.strerror(code)), files.alone(tmp_path / "a.txt"):
        pass


def test_folders_are_on_the_disk_with_their_names(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(files, "sync", synced.append)
    files.make_folder(tmp_path / "a" / "b")
    assert set(synced) == {tmp_path, tmp_path / "a"} and (tmp_path / "a" / "b").is_dir()
    files.make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


@pytest.fixture
def seen(monkeypatch):
    """What reaches the disk and which names appear, in order; files by their inode."""
    calls = []
    fsync, replace, rename = os.fsync, os.replace, os.rename

    def synced(handle):
        calls.append(("on the disk", os.fstat(handle).st_ino))
        fsync(handle)

    def named(how):
        def call(source, target):
            calls.append(("named", os.stat(source).st_ino))
            how(source, target)

        return call

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", named(replace))
    monkeypatch.setattr(os, "rename", named(rename))
    return calls


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, seen):
    path = tmp_path / "a.txt"
    files.write(path, put("one"))
    file, folder = path.stat().st_ino, tmp_path.stat().st_ino
    assert seen == [("on the disk", file), ("named", file), ("on the disk", folder)]


def test_so_is_all_that_a_folder_holds(tmp_path, seen):
    def fill(folder):
        for name in "ab":
            (folder / name).write_text(name)
        return "whole"

    files.write_folder(tmp_path, fill)
    whole = tmp_path / "whole"
    inside = {("on the disk", (whole / name).stat().st_ino) for name in "ab"}
    assert {*seen[:2]} == inside
    folder, parent = whole.stat().st_ino, tmp_path.stat().st_ino
    assert seen[2:] == [("on the disk", folder), ("named", folder), ("on the disk", parent)]
