import hashlib
import io
import json
import tarfile

import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import download as downloading
from stragglers.tasks.datasets.download import unpack, verify
from stragglers.tasks.datasets.sources import SOURCES, Source, choose
from tests.support.serve import CONTENT, SHA256


def download(sources, folder):
    return list(downloading.download(sources, folder))


def test_without_a_published_checksum_the_first_one_counts(site, path):
    source = (Source(site.url, "a file"),)
    assert "now in checksums.json; none is published" in download(source, path.parent)[0]
    assert json.loads((path.parent / "checksums.json").read_text()) == {"file.bin": SHA256}
    assert "there already" in download(source, path.parent)[0]
    path.unlink()
    site.content = CONTENT[::-1]
    with pytest.raises(BadInput, match="deleted"):
        download(source, path.parent)
    assert not path.exists()


def test_a_file_that_is_there_is_checked_and_never_deleted(site, path):
    path.write_bytes(b"something of mine")
    with pytest.raises(BadInput, match="delete it and fetch it again"):
        download((Source(site.url, "a file", SHA256, "them"),), path.parent)
    assert path.read_bytes() == b"something of mine" and site.asked == []
    path.write_bytes(CONTENT)
    lines = download((Source(site.url, "a file", SHA256, "them"),), path.parent)
    assert lines == [f"{path}: there already, its SHA-256 is the one published by them"]


def test_records_that_cannot_be_read(path):
    path.write_bytes(CONTENT)
    path.with_name("checksums.json").write_text("[")
    with pytest.raises(BadInput, match=r"checksums\.json"):
        verify(path, None)


def archive(path, members):
    with tarfile.open(path, "w:bz2") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def test_archives_are_unpacked_and_go(site, tmp_path):
    packed = archive(tmp_path / "packed", {"folder/a.h5": b"A", "b.h5": b"B", "c": b"C"})
    site.content = packed.read_bytes()
    folder = tmp_path / "new" / "data"
    checksum = f"sha256:{hashlib.sha256(site.content).hexdigest()}"
    source = Source(site.url, "an archive", checksum, "them", ("a.h5", "b.h5"))
    assert len(download((source,), folder)) == 3
    assert sorted(file.name for file in folder.iterdir()) == ["a.h5", "b.h5", "checksums.json"]
    assert (folder / "a.h5").read_bytes() == b"A"
    assert len(download((source,), folder)) == 2 and len(site.asked) == 1
    (folder / "a.h5").write_bytes(b"other")
    with pytest.raises(BadInput, match="expected sha256"):
        download((source,), folder)


def test_unpacking_never_leaves_its_folder(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    evil = archive(inside / "evil.tar.bz2", {"../a.h5": b"A", "/tmp/b.h5": b"B"})
    unpack(evil, ("a.h5", "b.h5"))
    assert sorted(file.name for file in inside.iterdir()) == ["a.h5", "b.h5", "evil.tar.bz2"]
    assert [file.name for file in tmp_path.iterdir()] == ["inside"]


def test_links_are_not_files(tmp_path):
    with tarfile.open(tmp_path / "links.tar", "w") as tar:
        info = tarfile.TarInfo("a.h5")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(BadInput, match=r"no a\.h5 in it"):
        unpack(tmp_path / "links.tar", ("a.h5",))
    assert not (tmp_path / "a.h5").exists()


@pytest.mark.parametrize("spoil", [lambda b: b[: len(b) // 2], lambda b: b"no archive"])
def test_spoilt_archives(tmp_path, spoil):
    file = archive(tmp_path / "a.tar.bz2", {"a.h5": CONTENT})
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises(BadInput, match=r"a\.tar\.bz2"):
        unpack(file, ("a.h5",))
    assert [file.name for file in tmp_path.iterdir()] == ["a.tar.bz2"]


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="Not a directory"):
        download((), tmp_path / "file" / "data")


def test_shipped_addresses_are_secure_and_checksums_have_their_length():
    shipped = [source for choices in SOURCES.values() for choice in choices for source in choice]
    for source in shipped:
        assert source.url.startswith("https://")
        if source.checksum:
            kind, digest = source.checksum.split(":")
            assert len(digest) == 2 * hashlib.new(kind).digest_size and int(digest, 16)
            assert source.published


def test_the_first_choice_is_one_with_a_published_checksum():
    for task in SOURCES:
        assert all(source.checksum for source in choose(task, None))
    assert choose("cifar100", "cifar-100-binary.tar.gz")[0].checksum.startswith("md5:")
    with pytest.raises(BadInput, match=r"did you mean 'cifar-100-binary\.tar\.gz'"):
        choose("cifar100", "cifar-100.tar.gz")
