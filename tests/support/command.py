"""The command line in this process, and fleets to give to it."""

import csv
import json

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


def factors(kind):
    return "".join(f"{name} = {kind}\n" for name in ("communication", "overhead", "per_example"))
