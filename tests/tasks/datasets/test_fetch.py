import hashlib
import socket
import subprocess
import sys
import urllib.request

import pytest

from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import fetch as fetching
from stragglers.tasks.datasets.fetch import fetch
from tests.support.serve import CONTENT, SHA256, serving


def names(path):
    return sorted(file.name for file in path.parent.iterdir())


def refused(url, path, checksum=SHA256):
    with pytest.raises(BadInput) as error:
        fetch(url, path, checksum)
    assert "\n" not in str(error.value) and not path.exists()
    return str(error.value)


def test_a_file_is_fetched_whole(site, path):
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert names(path) == ["file.bin"] and site.asked == [None]


@pytest.mark.parametrize("named_by", ["etag", "modified"])
def test_a_lost_connection_is_taken_up_where_it_broke(site, path, named_by):
    site.etag, site.modified = None, None
    setattr(site, named_by, '"tag"' if named_by == "etag" else "Mon, 01 Jan 2024 00:00:00 GMT")
    site.cuts = [1_000_000, 700_000]
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT and names(path) == ["file.bin"]
    assert site.asked == [None, "bytes=1000000-", "bytes=1700000-"]


def test_what_is_there_is_kept_when_nothing_more_comes(site, path):
    site.cuts = [1_000_000, 0]
    line = refused(site.url, path)
    assert "lost at 1,000,000 of 3,000,000 bytes; 1,000,000 bytes are kept" in line
    assert names(path) == ["file.bin.part", "file.bin.part.of"]
    assert path.with_name("file.bin.part").read_bytes() == CONTENT[:1_000_000]
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT and site.asked[-1] == "bytes=1000000-"


def test_a_server_without_ranges_starts_again_but_not_for_ever(site, path):
    site.ranges, site.cuts = False, [1_000_000, 2_000_000]
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT and len(site.asked) == 3
    path.unlink()
    site.asked, site.cuts = [], [1_000_000] * 9
    assert "1,000,000 bytes are kept" in refused(site.url, path)
    assert len(site.asked) == 2


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_without_a_strong_name_nothing_is_resumed(site, path, tag):
    site.etag, site.cuts = tag, [1_000_000]
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT and site.asked == [None, None]


def test_content_that_changes_between_two_parts_is_not_mixed(site, path):
    site.cuts = [1_000_000, 0]
    refused(site.url, path)
    site.content, site.etag = CONTENT[::-1], '"two"'
    fetch(site.url, path, None)
    assert path.read_bytes() == CONTENT[::-1]


def test_content_that_changes_silently_is_found_by_its_checksum(site, path):
    site.cuts = [1_000_000, 0]
    refused(site.url, path)
    site.content = CONTENT[::-1]
    assert f"expected {SHA256}; deleted" in refused(site.url, path)
    assert names(path) == []


def test_a_wrong_checksum_deletes_and_says_so(site, path):
    line = refused(site.url, path, "sha256:" + "0" * 64)
    assert SHA256 in line and "expected sha256:000" in line and names(path) == []


def test_md5_where_only_that_is_published(site, path):
    fetch(site.url, path, f"md5:{hashlib.md5(CONTENT).hexdigest()}")
    assert path.exists()


def test_a_length_that_is_wrong(site, path):
    site.extra_length = 5
    fetch(site.url, path, SHA256)  # asked for the rest, the server admits that there is none
    path.unlink()
    site.ranges = False
    assert "lost at 3,000,000 of 3,000,005 bytes" in refused(site.url, path)
    site.extra_length = -5
    assert "deleted" in refused(site.url, path)


def test_a_part_that_was_complete_needs_only_its_checksum(site, path):
    path.with_name("file.bin.part").write_bytes(CONTENT)
    path.with_name("file.bin.part.of").write_text('"one"')
    fetch(site.url, path, SHA256)
    assert names(path) == ["file.bin"] and site.asked == ["bytes=3000000-"]


def test_a_part_that_is_too_long_is_dropped(site, path):
    path.with_name("file.bin.part").write_bytes(CONTENT + b"more")
    path.with_name("file.bin.part.of").write_text('"one"')
    assert "dropped, run it again" in refused(site.url, path)
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT


def test_another_range_than_the_one_asked_for(site, path):
    site.cuts, site.wrong_range = [1_000_000], True
    assert "sent 'bytes 1000001-" in refused(site.url, path)
    site.wrong_range = False
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT


def test_a_length_that_is_not_told(site, path):
    site.chunked, site.cuts = True, [1_000_000]
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT and len(site.asked) == 2


def test_an_empty_file(site, path):
    site.content = b""
    fetch(site.url, path, None)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_what_the_server_says_is_passed_on(site, path, status):
    site.status = status
    assert f"the server says {status}" in refused(site.url, path)
    assert names(path) == []


def test_nobody_listens(path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/file.bin"
        assert "no connection" in refused(url, path)


def test_no_such_host(path):
    assert "no connection" in refused("http://nowhere.invalid/file.bin", path)


def test_a_server_that_never_answers(path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file.bin"
        assert "no answer within 0.1 s" in refused(url, path)


def test_tls_that_fails(site, path):
    assert "no secure connection" in refused(site.url.replace("http:", "https:"), path)


def test_https_is_never_left():
    handler = fetching._StaySecure()
    request = urllib.request.Request("https://example.org/file")
    with pytest.raises(BadInput, match="not secure"):
        handler.redirect_request(request, None, 302, "Found", {}, "http://example.org/file")
    follow = handler.redirect_request(request, None, 302, "Found", {}, "https://other.org/file")
    assert follow is not None and follow.full_url == "https://other.org/file"


def test_redirections_are_followed(site, path):
    with serving(b"") as first:
        first.location = site.url
        fetch(first.url, path, SHA256)
    assert path.read_bytes() == CONTENT


LIMITED = """if True:
    import pathlib, resource, sys
    from stragglers.tasks.datasets.fetch import fetch
    from stragglers._core.errors import BadInput
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
    try:
        fetch(sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3])
    except BadInput as error:
        print(error)
"""


def test_a_write_that_fails_keeps_the_part(site, path):
    """The kernel refuses to let the file grow, as it does when a disk is full."""
    command = [sys.executable, "-c", LIMITED, site.url, str(path), SHA256]
    run = subprocess.run(command, capture_output=True, text=True)
    assert "cannot be written (File too large)" in run.stdout and "kept" in run.stdout, run.stderr
    kept = path.with_name("file.bin.part").stat().st_size
    assert 0 < kept <= 1_000_000 and not path.exists()
    fetch(site.url, path, SHA256)
    assert path.read_bytes() == CONTENT and site.asked[-1] == f"bytes={kept}-"


def test_no_room_is_known_before_the_first_byte(site, path, monkeypatch):
    usage = type(fetching.shutil.disk_usage("."))(10**9, 10**9 - 99, 99)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda folder: usage)
    assert "3,000,000 bytes to come" in refused(site.url, path)
    assert names(path) == []


def test_two_processes_do_not_write_one_part(site, path):
    with fetching._exclusive(path.with_name("file.bin.part")):
        assert "another process" in refused(site.url, path)
    fetch(site.url, path, SHA256)
