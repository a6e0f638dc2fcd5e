import tarfile

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets.archive import members
from tests.support.pictures import tar

CONTENT = np.random.default_rng(0).bytes(1000)


def link(name, kind, target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def test_finds_members_in_any_folder(tmp_path):
    path = tar(
        tmp_path / "a.tar.gz", [("x/train.bin", CONTENT), ("x/y/test.bin", b"12"), ("z", b"")]
    )
    assert members(path, ["train.bin", "test.bin"]) == {"train.bin": CONTENT, "test.bin": b"12"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.tar.gz"]


HOSTILE = {
    "above": [("x/train.bin", CONTENT), ("../evil", b"!")],
    "inside above": [("x/../../train.bin", CONTENT)],
    "absolute": [("/tmp/train.bin", CONTENT)],
    "symlink": [link("x/train.bin", tarfile.SYMTYPE)],
    "hard link": [link("x/train.bin", tarfile.LNKTYPE)],
    "device": [link("x/train.bin", tarfile.CHRTYPE), ("train.bin", CONTENT)],
    "fifo": [link("x/pipe", tarfile.FIFOTYPE), ("train.bin", CONTENT)],
    "twice": [("x/train.bin", CONTENT), ("y/train.bin", CONTENT)],
    "missing": [("x/other.bin", CONTENT)],
    "bomb": [("x/zeros", bytes(1 << 20)), ("x/train.bin", CONTENT)],
}
MESSAGES = {
    "above": "would leave the archive",
    "inside above": "would leave the archive",
    "absolute": "would leave the archive",
    "symlink": "neither file nor folder",
    "hard link": "neither file nor folder",
    "device": "neither file nor folder",
    "fifo": "neither file nor folder",
    "twice": "train.bin is in it twice",
    "missing": "no train.bin in it",
    "bomb": "unpacks to more than 500,000 bytes",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_refuses_hostile_archives_and_writes_nothing(tmp_path, what):
    (tmp_path / "in").mkdir()
    path = tar(tmp_path / "in/a.tar.gz", HOSTILE[what])
    with pytest.raises(BadInput, match=rf"a\.tar\.gz: .*{MESSAGES[what]}"):
        members(path, ["train.bin"], limit=500_000)
    assert [p.name for p in tmp_path.rglob("*")] == ["in", "a.tar.gz"]


def test_refuses_every_truncation_and_every_flipped_bit(tmp_path):
    refused = []
    path = tar(tmp_path / "a.tar.gz", [("x/train.bin", CONTENT)])
    whole = path.read_bytes()
    for cut in range(0, len(whole), 29):
        path.write_bytes(whole[:cut])
        with pytest.raises(BadInput, match=r"a\.tar\.gz: not a whole archive"):
            members(path, ["train.bin"])
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:  # a bit that changes nothing, as of the time in gzip's header, may pass
            assert members(path, ["train.bin"])["train.bin"] == CONTENT
        except BadInput as error:
            refused.append(str(error))
    assert len(refused) > 0.99 * len(CONTENT) / 3 and all("a.tar.gz" in line for line in refused)


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\x00"])
def test_refuses_what_is_no_archive(tmp_path, content):
    path = tmp_path / "a.tar.gz"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"a\.tar\.gz: not a whole archive"):
        members(path, ["train.bin"])
