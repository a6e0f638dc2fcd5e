import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from stragglers._core import seals
from stragglers._core.errors import BadInput

DOCUMENT = {"name": "a", "value": 1e-7, "files": {}, "nested": {"é": [1, None]}}


def test_the_seal_is_of_the_bytes_without_its_line():
    content = seals.sealed(DOCUMENT)
    lines = content.decode().splitlines()
    assert json.loads(content) == {**DOCUMENT, "seal": json.loads(content)["seal"]}
    bare = "\n".join([*lines[:-3], lines[-3].rstrip(","), "}"]) + "\n"
    assert lines[-2] == f'  "seal": "{hashlib.sha256(bare.encode()).hexdigest()}"'
    assert seals.is_sealed(content)
    assert seals.sealed(json.loads(content)) == content  # sealed again, it is the same


def test_every_bit_counts():
    content = seals.sealed(DOCUMENT)
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        assert not seals.is_sealed(bytes(flipped)), bit


@pytest.mark.parametrize("end", [0, 1, 2, 50, 100])
def test_what_is_cut_or_has_more_is_not_sealed(end):
    content = seals.sealed(DOCUMENT)
    assert not seals.is_sealed(content[:end]) and not seals.is_sealed(content[:-1])
    assert not seals.is_sealed(content + b"\n")


def test_equal_values_in_other_bytes_are_not_sealed():
    content = seals.sealed(DOCUMENT)
    assert b"1e-7" in content and not seals.is_sealed(content.replace(b"1e-7", b"1E-7"))


def test_the_first_file_that_changed_is_named(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    files = {name: seals.digest_of(tmp_path / name) for name in "ab"}
    assert files["a"] == seals.digest(b"1") and seals.changed(tmp_path, files) is None
    (tmp_path / "b").write_bytes(b"3")
    assert seals.changed(tmp_path, files) == "b is not what was written"
    (tmp_path / "a").unlink()
    assert seals.changed(tmp_path, files) == "a is missing"
    (tmp_path / "a").mkdir()
    assert seals.changed(tmp_path, files) == "a cannot be read (Is a directory)"


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "x/../../a", "..", ""])
def test_only_files_beside_the_document_are_read(tmp_path, name):
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "inside").mkdir()
    said = seals.changed(tmp_path / "inside", {name: seals.digest(b"1")})
    assert said in (
        f"{name!r} is no file of this folder",
        f"{name} cannot be read (Is a directory)",
    )


def test_a_file_that_may_not_be_read_is_no_damage(tmp_path, monkeypatch):
    def refused(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(BadInput, match=r"a: cannot be read \(Permission denied\)") as error:
        seals.changed(tmp_path, {"a": "0"})
    assert not isinstance(error.value, seals.Damaged)
