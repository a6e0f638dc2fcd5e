"""One public file, fetched whole or not at all.

    NAME            the file, once its checksum was right
    NAME.part       the bytes so far; kept when a connection is lost or a disk is full
    NAME.part.of    which version of the file they are of: its ETag or Last-Modified

A fetch goes on where the last one stopped if the server says that the file is still the same
(If-Range), and starts again if it is another or the server knows no ranges. Nothing else in this
package opens a connection.
"""

import contextlib
import hashlib
import http.client
import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

from stragglers._core.errors import BadInput
from stragglers._core.files import locked, sync

TIMEOUT_S = 30.0
CHUNK = 1 << 18

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all


def fetch(url: str, path: Path, expected: str | None) -> str:
    """Fetches or resumes, and compares with the checksum that is expected; returns it."""
    part = path.with_name(f"{path.name}.part")
    version = path.with_name(f"{path.name}.part.of")
    with _exclusive(part) as file:
        try:
            with _bar(path.name) as progress:
                _receive(url, file, version, progress)
            with _writing(file, url):
                os.fsync(file.fileno())
            found = digest(part, expected)
            if expected and found != expected:
                file.truncate(0)
                raise BadInput(
                    f"{url}: its checksum is {found}, expected {expected}; deleted, fetch it "
                    "again, and if that does not help the file has changed at its source"
                )
            version.unlink(missing_ok=True)
            os.replace(part, path)
        finally:
            if part.exists() and part.stat().st_size == 0:
                part.unlink()
                version.unlink(missing_ok=True)
    sync(path.parent)
    return found


def digest(path: Path, like: str | None) -> str:
    """A file's checksum, of the same kind as another or SHA-256."""
    kind = like.split(":")[0] if like else "sha256"
    with path.open("rb") as file:
        return f"{kind}:{hashlib.file_digest(file, kind).hexdigest()}"


def _receive(url: str, file: IO[bytes], version: Path, progress: Progress) -> None:
    """Goes on as long as every attempt brings more than all those before it."""
    furthest, trouble = -1, ""
    while (have := file.seek(0, os.SEEK_END)) > furthest:
        furthest = have
        try:
            _attempt(url, file, version, progress)
            return
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 416 and error.headers["Content-Range"] == f"bytes */{have}":
                    return  # all of it was there before
                if error.code == 416:
                    _start_again(url, file, version, "does not have what is missing")
                raise BadInput(f"{url}: the server says {error.code} {error.reason}") from None
        except urllib.error.URLError as error:
            trouble = _reason(error.reason)
        except (OSError, http.client.HTTPException) as error:
            trouble = _reason(error)
    raise BadInput(f"{url}: {trouble}{_kept(have)}")


def _attempt(url: str, file: IO[bytes], version: Path, progress: Progress) -> None:
    have = file.seek(0, os.SEEK_END)
    headers = {"User-Agent": "stragglers", "Accept-Encoding": "identity"}
    if have and (name := _remembered(version)):
        headers |= {"Range": f"bytes={have}-", "If-Range": name}
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.build_opener(_StaySecure).open(request, timeout=TIMEOUT_S) as response:
        if response.status == 206:
            given = response.headers.get("Content-Range", "no range")
            if not given.startswith(f"bytes {have}-"):
                _start_again(url, file, version, f"sent {given!r}, asked for bytes from {have}")
        else:
            with _writing(file, url):
                file.truncate(0)
                have = file.seek(0)
                _remember(version, response.headers)
        total = None if response.length is None else have + response.length
        free = shutil.disk_usage(version.parent).free
        if response.length is not None and response.length > free:
            raise BadInput(f"{url}: {response.length:,} bytes to come, there is room for {free:,}")
        while chunk := response.read1(CHUNK):
            with _writing(file, url):
                have += _write(file, chunk)
            progress(have, total)
        if total is not None and have != total:
            raise ConnectionError(f"the connection was lost at {have:,} of {total:,} bytes")


def _remember(version: Path, headers: Any) -> None:
    # A weak ETag promises no equal bytes, so nothing can be gone on from.
    tag = headers.get("ETag", "")
    name = tag if tag.startswith('"') else headers.get("Last-Modified", "")
    version.write_text(name)


def _remembered(version: Path) -> str:
    name = version.read_text("latin-1") if version.exists() else ""
    return name if name.isprintable() else ""


def _start_again(url: str, file: IO[bytes], version: Path, why: str) -> NoReturn:
    file.truncate(0)
    version.unlink(missing_ok=True)
    raise BadInput(f"{url}: the server {why}; the part that was there is dropped, run it again")


def _write(file: IO[bytes], chunk: bytes) -> int:
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]  # unbuffered, so it may take less than all
    return len(chunk)


@contextlib.contextmanager
def _writing(file: IO[bytes], url: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kept = _kept(os.fstat(file.fileno()).st_size)
        raise BadInput(f"{url}: cannot be written ({error.strerror}){kept}") from None


def _kept(have: int) -> str:
    return f"; {have:,} bytes are kept, the same command resumes" if have else ""


def _reason(error: Any) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(error, ssl.SSLError):
        return f"no secure connection ({error.reason or error})"
    if isinstance(error, OSError) and error.errno:
        return f"no connection ({error.strerror})"
    return str(error)


class _StaySecure(urllib.request.HTTPRedirectHandler):
    """Follows no redirection from https to anything else."""

    def redirect_request(  # the names are those of the method that it replaces
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise BadInput(f"{req.full_url}: sent on to {newurl}, which is not secure")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextlib.contextmanager
def _exclusive(part: Path) -> Iterator[IO[bytes]]:
    """The part, for one process at a time, unbuffered: what is written is there."""
    try:
        file = part.open("ab", buffering=0)
    except OSError as error:
        raise BadInput(f"{part}: cannot be written ({error.strerror})") from None
    with file:
        if not locked(file.fileno()):
            raise BadInput(f"{part}: another process is fetching it; wait for it")
        yield file


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """A progress bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda have, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda have, total: bar.update(task, completed=have, total=total)
