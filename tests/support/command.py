"""The command line in this process, fleets to give to it, and Ctrl-C for its children."""

import csv
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from stragglers.cli.main import main

FLEET = '[task]\nname = "fleet"\ncsv = "{csv}"\n[latency]\nmodel = "per-example"\n'


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    """The one line that a mistake gets."""
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "", (code, out)
    assert err.count("\n") == 1 and "Traceback" not in err
    return err


def plan(capsys, *arguments):
    code, out, err = run(capsys, "plan", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def fleet(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("client", "examples", "group"), *rows])


@contextmanager
def sigint(handler) -> Iterator[None]:
    """SIGINT is handled so, here and in processes started inside, which inherit an ignored one."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def factors(kind):
    return "".join(f"{name} = {kind}\n" for name in ("communication", "overhead", "per_example"))
