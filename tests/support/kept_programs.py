"""Compiled programs, kept between runs of the tests in the user's cache folder.

JAX's persistent cache finds a program by its code, its compiler options and jaxlib's version. The
folder is named after jaxlib and the processor, whose instructions a program may use.
"""

import fcntl
import hashlib
import os
import platform
import zlib
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

LIMIT = 500_000_000  # bytes of programs; all tests together make some 150 MB
SECONDS = 0.01  # what compiles faster is not worth a file


def caches() -> Path:
    """What tests keep from one run to the next; safe to delete."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stragglers-tests"


def processor() -> str:
    """Names the instructions that this machine's programs may use."""
    instructions = platform.processor()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        found = [line for line in lines if line.lower().startswith(("flags", "features"))]
        instructions = found[0] if found else instructions
    return hashlib.sha256(f"{platform.machine()} {instructions}".encode()).hexdigest()[:12]


def folder() -> Path:
    return caches() / f"programs-{version('jaxlib')}-{processor()}"


def environment() -> dict[str, str]:
    """What this process has to say before it loads jax, for its children too."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return {}
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(SECONDS),
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def tidy(place: Path, limit: int = LIMIT) -> None:
    """Removes what was not written to its end, and above the limit what is unused for longest."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "tidied").open("a") as stamp, suppress(BlockingIOError):
        fcntl.flock(stamp, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else another run is about it
        last = os.fstat(stamp.fileno()).st_mtime
        kept = []
        for path in place.glob("*-cache"):
            state = path.stat()
            if state.st_mtime >= last and not whole(path.read_bytes()):
                path.unlink()
            else:
                kept.append((max(state.st_atime, state.st_mtime), state.st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= limit:
                break
            path.unlink()
            total -= size
        os.utime(stamp.fileno())


def whole(entry: bytes) -> bool:
    """JAX writes entries in place, so a process that is killed may leave a part of one."""
    if not entry.startswith(b"\x78"):  # not zlib's: JAX has packed it by zstandard
        return len(entry) > 0
    try:
        zlib.decompress(entry)
    except zlib.error:
        return False
    return True
