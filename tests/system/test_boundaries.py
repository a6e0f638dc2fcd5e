"""At every call to the disk that may fail: the old or the new state, one line, and no litter.

Whatever rots on it, and whenever a second signal comes, the run goes on to the same end.
"""

import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers._core.files import UNFINISHED
from stragglers.cli import main
from stragglers.config import catalog, documents
from stragglers.report import figures, page
from stragglers.runs import checkpoint, recorder, records, run_folder
from stragglers.simulator.events import Snapshot
from stragglers.simulator.trial_state import TrialState
from tests.support.command import sigint
from tests.support.disk import CODES, STEPS, Killed, failing, spoil, untrained

NAME = "glyphs/per-domain/feast"
EXPERIMENT = documents.settings_from(catalog.read(NAME))
NEVER = 1 << 30
every_way_to_fail = pytest.mark.parametrize("code", CODES)


@pytest.fixture
def tmp_path(tmp_path):
    """In memory where there is a place for that: thousands of small files come and go."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def everything(folder: Path, *clocks) -> dict[str, bytes]:
    """All files below a folder; of JSON, all but clocks."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            if path.name == "run.json":
                run = json.loads(content)
                content = {key: run[key] for key in run if key not in clocks}
            found[str(path.relative_to(folder))] = content
    return found


def record(folder: Path, chunks: int = STEPS, experiment=EXPERIMENT) -> list[str]:
    """Trains for so many chunks, and says what was said."""
    left = iter([False] * (chunks - 1) + [chunks < STEPS] + [False] * STEPS)
    events = recorder.record(
        [folder], [NAME], [experiment], checkpoint_s=0, stop=lambda: next(left)
    )
    return [event.line for event in events if isinstance(event, recorder.Said)]


CLOCKS = ("started", "finished", "wall_s", "seal")


@every_way_to_fail
def test_a_run_that_fails_anywhere_goes_on_to_the_same_end(tmp_path, code):
    """Begin, evaluations, checkpoints, their removal and the end: each call in turn fails."""
    (tmp_path / "faults.csv").write_text("client,crash\n" + "x,0.1\n" * 200)
    faults = {"csv": str(tmp_path / "faults.csv")}  # of which there is a copy
    experiment = documents.settings_from({**catalog.read(NAME), "faults": faults})
    with untrained(), failing(NEVER, None) as disk:
        record(tmp_path / "whole", experiment=experiment)
        whole, calls = everything(tmp_path / "whole", *CLOCKS), disk.calls
    went_on = set()
    assert calls > 100
    for call in range(1, calls + 1):
        folder = tmp_path / str(call)
        with untrained():
            with failing(call, CODES[code]) as disk:
                try:
                    # What only tidies up may fail, and the next run does it.
                    record(folder, experiment=experiment)
                except BadInput as error:
                    assert "\n" not in str(error) and os.strerror(CODES[code]) in str(error)
                except Killed:
                    assert CODES[code] is None
            assert disk.failed
            over = folder.exists() and records.is_over(folder)
            with failing(NEVER, None):
                said = record(folder, experiment=experiment) if not over else []
        if over:  # as the command does it for what it finds finished
            checkpoint.clear(folder)
        assert len(said) <= 1, said  # nothing is damaged
        went_on |= {line.removeprefix("resumes from server step ") for line in said}
        assert everything(folder, *CLOCKS) == whole, call
        shutil.rmtree(folder)
    assert any(name.startswith("copy-") for name in whole)
    assert went_on == {f"{step} of {STEPS}" for step in range(1, STEPS + 1)}


@pytest.fixture
def plain_report(monkeypatch):
    """A picture and a page that cost nothing to draw."""

    class Figure:
        def savefig(self, path, **_):
            Path(path).write_bytes(b"a picture")

    monkeypatch.setattr(figures, "accuracy_figure", lambda found: Figure())
    monkeypatch.setattr(page, "page", lambda found: "a page")
    monkeypatch.setenv("PJRT_NPROC", "to be restored")
    monkeypatch.delenv("PJRT_NPROC")


@every_way_to_fail
def test_the_command_says_it_in_a_line_and_what_is_finished_stays(
    tmp_path, capsys, code, plain_report
):
    """Some of its calls, from the lock to the page; the first of its two trials is there."""
    command = ["run", NAME, "--processes", "1", "--checkpoint-minutes", "0", "--out"]
    with untrained(), failing(NEVER, None):
        assert main.main([*command, str(tmp_path / "one")]) == 0
        shutil.copytree(tmp_path / "one", tmp_path / "two")
    with untrained(), failing(NEVER, None) as disk:
        assert main.main([*command, str(tmp_path / "two"), "--trials", "2"]) == 0
    both = everything(tmp_path / "two", *CLOCKS)
    finished = everything(tmp_path / "one" / NAME)
    codes = set()
    for call in [*range(1, disk.calls - 30, 13), *range(disk.calls - 30, disk.calls + 1)]:
        out = tmp_path / str(call)
        shutil.copytree(tmp_path / "one", out)
        capsys.readouterr()
        with untrained(), failing(call, CODES[code]):
            try:
                exit_code = main.main([*command, str(out), "--trials", "2"])
            except Killed:
                exit_code = 137
        codes.add(exit_code)
        err = capsys.readouterr().err
        assert "Traceback" not in err
        if exit_code == 2:
            assert err.count("stragglers: ") == 2 and err.endswith("\n")  # what is there, and why
            assert os.strerror(CODES[code]) in err.splitlines()[-1]
        kept = everything(out / NAME)
        assert {name: kept[name] for name in finished} == finished
        with untrained(), failing(NEVER, None):
            assert main.main([*command, str(out), "--trials", "2"]) == 0
        assert everything(out, *CLOCKS) == both
        assert not list(out.rglob(f"{UNFINISHED}*"))
        shutil.rmtree(out)
    assert codes >= ({137} if code == "killed" else {2})


@contextmanager
def files_of_at_most(size):
    """Files may not grow beyond this; the system says so in the middle of a real write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_writes_that_the_system_cuts(tmp_path):
    def save(step):
        w = {"w": np.full(1000, step, np.float32)}
        snapshot = Snapshot(step, 0.0, w, (TrialState(w),))
        checkpoint.save(tmp_path, snapshot, [b"{}\n" * 3000], {}, {})

    save(1)
    for size in (0, 1, 100, 1000, 5000, 8192, 8900):  # the state, then the curve
        with files_of_at_most(size), pytest.raises(BadInput, match="File too large") as error:
            save(2)
        assert "\n" not in str(error.value) and not list(tmp_path.rglob(f"{UNFINISHED}*"))
        found, lines = checkpoint.newest(tmp_path)
        assert found and found.manifest.step == 1 and lines == []
    save(2)
    found, _ = checkpoint.newest(tmp_path)
    assert found and found.manifest.step == 2


def test_drift_through_the_command(tmp_path, capsys, plain_report):
    """Refused by name; allowed, the outputs say so."""
    command = ["run", NAME, "--processes", "1", "--out", str(tmp_path)]
    with untrained(), failing(NEVER, None):
        record(run_folder.folder_of(tmp_path, NAME, EXPERIMENT), 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recorder, "_fingerprint", lambda *_: {"format": 1, "jax": "1"})
            assert main.main(command) == 2
            out, err = capsys.readouterr()
            last = err.splitlines()[-1]
            assert "jax: 0 in the checkpoint, 1 now; give --allow-drift" in last and out == ""
            assert main.main([*command, "--allow-drift"]) == 0
    assert "went on where not all was equal: jax: 0 in the checkpoint" in " ".join(
        capsys.readouterr().out.split()
    )
    (run,) = tmp_path.rglob("run.json")
    assert json.loads(run.read_text())["drift"] == ["jax: 0 in the checkpoint, 1 now"]


# Rot.


DAMAGE = {
    "flipped": 200,
    "truncated": 50,
    "missing": 10,
    "extra": 5,
    "from another": 10,
    "swapped": 10,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_whatever_rots_the_checkpoint_before_leads_to_the_same_end(tmp_path, how):
    rng = random.Random(how)
    with untrained(), failing(NEVER, None):
        record(tmp_path / "whole")
        record(tmp_path / "good", 3)
    whole = everything(tmp_path / "whole", *CLOCKS)
    for _ in range(DAMAGE[how]):
        folder = tmp_path / "bad"
        shutil.copytree(tmp_path / "good", folder)
        newest, before = checkpoint._all(folder / "checkpoints")
        spoil(how, newest, before, rng)
        with untrained(), failing(NEVER, None):
            damaged, went_on = record(folder)
        assert damaged.startswith(f"{newest} is damaged (") and "\n" not in damaged
        assert damaged.endswith(") and was removed")
        assert went_on == f"resumes from server step 2 of {STEPS}"
        assert everything(folder, *CLOCKS) == whole
        shutil.rmtree(folder)


def test_a_checkpoint_under_the_name_of_another_is_none(tmp_path):
    with untrained(), failing(NEVER, None):
        record(tmp_path / "whole")
        record(tmp_path / "bad", 3)
        newest, before = checkpoint._all(tmp_path / "bad" / "checkpoints")
        spoil("named as another", newest, before, random.Random(0))
        damaged, anew = record(tmp_path / "bad")
    assert "manifest.json is not what was written" in damaged
    assert anew == "no checkpoint is whole: starts anew"
    assert everything(tmp_path / "bad", *CLOCKS) == everything(tmp_path / "whole", *CLOCKS)


@pytest.mark.parametrize("what", ["checkpoints", "state.safetensors"])
def test_what_may_not_be_read_is_not_removed(tmp_path, what, monkeypatch):
    """Somebody's permissions, or too many open files, are no damage."""
    with untrained(), failing(NEVER, None):
        record(tmp_path / "run", 3)
    before, read = everything(tmp_path), Path.open

    def refused(path, *given, **options):
        if path.name == what:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(path, *given, **options)

    def listed(path):
        if path.name == what:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return listed_by_system(path)

    listed_by_system = Path.iterdir
    monkeypatch.setattr(Path, "open", refused)
    monkeypatch.setattr(Path, "iterdir", listed)
    with untrained(), pytest.raises(BadInput, match="cannot be read .Permission denied") as error:
        record(tmp_path / "run")
    monkeypatch.undo()
    assert "\n" not in str(error.value) and everything(tmp_path) == before


# Signals.

TWICE = """
import os, signal, sys
from stragglers.cli import main
from stragglers.runs import checkpoint
from tests.support.disk import untrained

number, write = signal.Signals[sys.argv.pop(1)], checkpoint._write_state

def interrupted(snapshot, path):
    write(snapshot, path)
    if snapshot.step == 2:
        os.kill(os.getpid(), number)
        print("the first is a wish", flush=True)
    if snapshot.step == 3:  # what the wish has led to
        print("being kept", flush=True)
        os.kill(os.getpid(), number)
        print("never said")

checkpoint._write_state = interrupted
with untrained():
    main.main()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_and_leaves_the_last_checkpoint(tmp_path, number):
    """The first comes while a checkpoint is made, the second in the middle of the next."""
    arguments = ["run", NAME, "--checkpoint-minutes", "0", "--out", str(tmp_path / "out")]
    process = subprocess.run(
        [sys.executable, "-c", TWICE, number.name, *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout.split("\n") == ["the first is a wish", "being kept", ""]
    assert process.returncode == -number and "Traceback" not in process.stderr
    (folder,) = (tmp_path / "out" / NAME).iterdir()
    assert list(folder.rglob(f"{UNFINISHED}*")) != []  # it was in the middle
    with untrained(), failing(NEVER, None):
        said = record(folder)
        record(tmp_path / "whole")
    assert said == [f"resumes from server step 2 of {STEPS}"]
    assert everything(folder, *CLOCKS) == everything(tmp_path / "whole", *CLOCKS)


NOHUP = """
import os, signal, sys
from stragglers.cli import main
from stragglers.runs import checkpoint
from tests.support.disk import untrained

write = checkpoint._write_state

def signalled(snapshot, path):
    write(snapshot, path)
    print(snapshot.step, flush=True)
    for number in {1: [signal.SIGINT], 2: [signal.SIGTERM]}.get(snapshot.step, []):
        os.kill(os.getpid(), number)

checkpoint._write_state = signalled
with untrained():
    sys.exit(main.main())
"""


def test_a_run_that_ignores_sigint_stops_on_sigterm(tmp_path):
    """As `nohup stragglers run &` in a script: no SIGINT, `kill` ends it and keeps where it is."""
    arguments = ["run", NAME, "--checkpoint-minutes", "0", "--out", str(tmp_path / "out")]
    with sigint(signal.SIG_IGN):
        process = subprocess.run(
            [sys.executable, "-c", NOHUP, *arguments],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
        )
    assert process.stdout.split() == ["1", "2", "3"], process.stderr
    assert process.returncode == 128 + signal.SIGTERM
    assert process.stderr.endswith("interrupted; the same command resumes\n")
    (folder,) = (tmp_path / "out" / NAME).iterdir()
    with untrained(), failing(NEVER, None):
        assert record(folder) == [f"resumes from server step 3 of {STEPS}"]
