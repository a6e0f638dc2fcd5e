import builtins
import fcntl
import os
import signal
import subprocess
import sys
import threading

import pytest

from stragglers._core import toml_files
from stragglers.config import catalog, documents
from stragglers.runs import records, workers
from stragglers.runs.signals import Wish
from stragglers.runs.workers import Job, News


def test_a_signal_while_jax_is_being_loaded_is_heeded_after_that(monkeypatch, tmp_path):
    """An exception inside of its libraries would abort the process."""
    wish, loaded, load = Wish(), [], builtins.__import__

    def loading(name, *given):
        if name == "stragglers.runs.recorder":
            wish.hear(signal.SIGINT)
        module = load(name, *given)
        loaded.extend([name] if name == "stragglers.runs.recorder" else [])
        return module

    job = Job("a", "a", tmp_path / "a", documents.settings_from(catalog.read("fleet")), "t")
    monkeypatch.setattr(builtins, "__import__", loading)
    outcome = workers._train([job], News(print, print), workers.USUAL, wish)
    assert outcome.lines == ["stopped before it trained"] and loaded == ["stragglers.runs.recorder"]


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_what_is_interrupted_can_be_run_again(tmp_path, how):
    """Ctrl-C reaches the whole group, a kill the parent alone; nobody is left behind."""
    document = catalog.read("glyphs/per-domain/fedadam")
    document |= {"task": {"name": "glyphs", "writers": 30}}
    (tmp_path / "mine").mkdir()
    for name, updates in (("endless", 10**6), ("short", 40)):
        text = toml_files.dumps({**document, "updates": updates, "evaluations": 2})
        (tmp_path / "mine" / f"{name}.toml").write_text(text)
    command = [sys.executable, "-m", "stragglers", "run", str(tmp_path / "mine")]
    command += ["--processes", "2", "--out", str(tmp_path / "runs")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stderr
        awaited = ["short 1/1: straggler", "endless 1/1: one client at a time"]
        patience = threading.Timer(300, parent.kill)  # neither a line nor an end that never comes
        patience.start()
        while awaited:
            line = parent.stderr.readline()
            assert line
            awaited = [start for start in awaited if not line.startswith(start)]
        if how == "SIGINT":
            os.killpg(parent.pid, signal.SIGINT)
        else:
            parent.kill()
        _, err = parent.communicate(timeout=60)
        patience.cancel()
    assert parent.returncode == (130 if how == "SIGINT" else -signal.SIGKILL)
    assert "Traceback" not in err
    if how == "SIGINT":
        *_, kept, said = err.splitlines()
        assert kept.startswith("endless 1/1: stopped ") and said.endswith("same command resumes")

    short, endless = (next((tmp_path / "runs" / name).iterdir()) for name in ("short", "endless"))
    with open(endless / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # waits until its writer is gone
    assert records.is_over(short) and not records.is_over(endless)
