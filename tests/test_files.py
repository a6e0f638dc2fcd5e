import errno
import os
import stat

import pytest

from stragglers import files
from stragglers.errors import BadInput


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
