"""StackOverflow at its published number of users: time and memory of preparing and of loading.

    python -m benchmarks.text [--users N] [--sentences N] [--folder DIR]

Makes up a file in TFF's SQLite layout with so many sentences for each user, then prepares it and
loads it from the cache, each in a process of its own. Memory is that process's own at its peak,
pages of mapped files not counted.
"""

import argparse
import multiprocessing
import os
import sqlite3
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.support import files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--users", type=int, default=342_477)
    parser.add_argument("--sentences", type=int, default=4, help="of each user")
    parser.add_argument("--folder", help="for the files, default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        make_up(folder, options.users, options.sentences)
        total = options.users * options.sentences
        print(f"{options.users:,} users, {total:,} sentences")
        for what in ("prepare", "load", "load"):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                seconds, megabytes = pool.apply(prepare, (folder,))
            print(
                f"{what:8} {seconds:8.2f} s  {total / seconds:12,.0f} sentences/s  "
                f"{megabytes:6,.0f} MB at the peak"
            )


def make_up(folder: Path, users: int, sentences: int) -> None:
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(20_000)]
    (folder / "stackoverflow.word_count").write_text(
        "".join(f"{word} {10**6 - number}\n" for number, word in enumerate(words[:15_000]))
    )
    tags = ["java|sql", "c|c++", "python", "math|algorithm", "javascript|html|css"]
    pool = [
        files.example(
            {
                "creation_date": [b"2016-08-02 15:48:56.97 UTC"],
                "score": [int(rng.integers(100))],
                "tags": [tags[int(rng.integers(100)) % 5 if rng.random() < 0.1 else 2].encode()],
                "title": [" ".join(rng.choice(words, 9)).encode()],
                "tokens": [" ".join(rng.choice(words, rng.integers(3, 25))).encode()],
                "type": [b"answer"],
            }
        )
        for _ in range(10_000)
    ]
    with sqlite3.connect(folder / "stackoverflow.sqlite") as db:
        db.execute(
            "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
        )
        db.execute(
            "CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INT)"
        )
        for split, some in (("train", users), ("test", max(1, users // 10))):
            ids = [f"{user:08}" for user in range(some)]
            picks = rng.integers(len(pool), size=(some, sentences))
            rows = (
                (split, user, pool[i]) for user, row in zip(ids, picks, strict=True) for i in row
            )
            db.executemany("INSERT INTO examples VALUES (?, ?, ?)", rows)
            db.executemany(
                "INSERT INTO client_metadata VALUES (?, ?, ?)",
                ((user, split, sentences) for user in ids),
            )
        db.execute("CREATE INDEX by_client ON examples (split_name, client_id)")
    db.close()


def prepare(folder: Path) -> tuple[float, float]:
    """Seconds, and megabytes of the process's own memory at the peak."""
    os.environ["STRAGGLERS_CACHE"] = str(folder / "cache")
    from stragglers.tasks.datasets.stackoverflow import prepared

    began = time.perf_counter()
    prepared(folder, ("math", "c++"), 10_000)
    seconds = time.perf_counter() - began
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    mapped = int(status["RssFile"].split()[0])
    return seconds, (int(status["VmHWM"].split()[0]) - mapped) / 1024


if __name__ == "__main__":
    main()
