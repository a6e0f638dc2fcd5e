"""`stragglers data`, as it is called."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from stragglers.cli.main import main
from stragglers.config import settings
from stragglers.runs import train as training
from stragglers.tasks.base import checksum
from stragglers.tasks.datasets import sources
from stragglers.tasks.datasets.sources import Source
from tests.support.files import tff_hdf5
from tests.support.serve import serving


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("STRAGGLERS_DATA", raising=False)


@pytest.fixture
def offline(monkeypatch):
    """Whoever opens a connection, or asks for an address, fails."""

    def refuse(*args, **kwargs):
        raise AssertionError(f"a connection: {args}")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def run(capsys, *arguments):
    code = main(["data", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 2 and out == "" and "Traceback" not in err, (code, out, err)
    return err


def described(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def writers(count, each, seed):
    """Writer i has the most digits 0-4 if i is low."""
    rng = np.random.default_rng(seed)
    return {
        f"f{i:04d}_00": {
            "pixels": np.where(rng.random((each, 28, 28)) < 0.1, 0, 1).astype(np.float32),
            "label": np.array([number % 5 if number >= 2 * i else 40 for number in range(each)]),
        }
        for i in range(count)
    }


@pytest.fixture
def emnist(tmp_path):
    """17 writers of 20 drawings each, as TFF's HDF5; four of them are stragglers."""
    tff_hdf5(tmp_path / "fed_emnist_train.h5", writers(17, 20, 0))
    tff_hdf5(tmp_path / "fed_emnist_test.h5", writers(17, 2, 1))
    return tmp_path


def test_glyphs_bring_their_own(capsys, offline):
    out = described(capsys, "glyphs", "--set", "writers=20")
    assert out["clients"] == 20 and out["straggler_clients"] == 5
    assert sum(group["examples"] for group in out["groups"].values()) == out["training_examples"]
    assert out["published"] == {} and out["files"] == {}


def test_what_is_in_the_files(capsys, emnist, offline):
    out = described(capsys, "emnist", "--path", emnist)
    assert "TFF's HDF5" in out["origin"]
    assert [os.path.basename(path) for path in out["files"]] == [
        "fed_emnist_train.h5",
        "fed_emnist_test.h5",
    ]
    standard, straggler = out["groups"]["standard"], out["groups"]["straggler"]
    assert (standard["clients"], straggler["clients"]) == (13, 4)
    # Stragglers keep all 20; writer i of the others keeps its 2 i letters, at most 20 of them.
    assert straggler["examples"] == 80 and straggler["size"]["p50"] == 20
    assert standard["examples"] == sum(min(2 * i, 20) for i in range(4, 17))
    assert (straggler["test_examples"], standard["test_examples"]) == (2, 32)
    assert out["published"]["clients"] == {"found": 17, "published": 3400}


def test_text_says_the_same(capsys, emnist):
    code, text, _ = run(capsys, "emnist", "--path", emnist)
    assert code == 0 and "fed_emnist_train.h5" in text
    assert "published: 3,400" in text and "20 / 20 / 20 / 20 / 20" in text


def test_the_checksum_is_that_of_trials_and_of_no_other_data(capsys, emnist):
    found = described(capsys, "emnist", "--path", emnist)["checksum"]
    assert found == checksum(training.task(settings.Emnist(path=str(emnist))))  # as in run.json
    assert found in run(capsys, "emnist", "--path", emnist)[1]
    (emnist / "other").mkdir()
    tff_hdf5(emnist / "other" / "fed_emnist_train.h5", writers(17, 20, 0))
    tff_hdf5(emnist / "other" / "fed_emnist_test.h5", writers(17, 2, 2))
    assert described(capsys, "emnist", "--path", emnist / "other")["checksum"] != found


def test_settings_of_the_task_change_the_split(capsys, emnist):
    out = described(capsys, "emnist", "--path", emnist, "--set", "stragglers=6")
    assert out["straggler_clients"] == 6
    line = refused(capsys, "emnist", "--path", emnist, "--set", "goal=3")
    assert "schedule.goal" in line and line.count("\n") == 1


def test_the_folder_may_come_from_the_environment(capsys, emnist, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_DATA", str(emnist))
    assert described(capsys, "emnist")["clients"] == 17
    assert described(capsys, "glyphs")["clients"] == 200


def test_a_group_may_be_empty(capsys, emnist):
    everybody = ["--path", emnist, "--set", "stragglers=17"]
    assert described(capsys, "emnist", *everybody)["groups"]["standard"]["size"]["p50"] is None
    text = run(capsys, "emnist", *everybody)[1]
    assert "nan" not in text and "–" in text


def test_real_files(capsys, shared_data, offline):
    out = described(capsys, "emnist", "--path", shared_data)
    assert (out["clients"], out["straggler_clients"]) == (489, 115)
    assert out["training_examples"] < 66_581 and out["test_examples"] == 8_314


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures(capsys, emnist, suffix):
    files = [emnist / f"{name}.{suffix}" for name in "ab"]
    for file in files:
        code, text, err = run(capsys, "emnist", "--path", emnist, "--figure", file)
        assert code == 0 and str(file) in text, err
    assert files[0].stat().st_size > 10_000
    if suffix == "png":
        assert files[0].read_bytes() == files[1].read_bytes()


def test_figures_are_refused_before_anything_is_read(capsys, tmp_path):
    assert "expected a name that ends in .png" in refused(
        capsys, "emnist", "--figure", tmp_path / "a.txt"
    )


@pytest.mark.parametrize("task", ["emnist", "cifar100", "stackoverflow"])
def test_without_data_it_says_what_to_get(capsys, tmp_path, offline, task):
    first, *rest = refused(capsys, task, "--path", tmp_path).splitlines()
    assert first.startswith(f"stragglers: {task}: {tmp_path}: no ")
    text = "\n".join(rest)
    for choice in sources.SOURCES[task]:
        assert all(source.url in text and source.about in text for source in choice)
    assert "--download" in text
    assert "no folder given" in refused(capsys, task).splitlines()[0]
    assert "no such folder" in refused(capsys, task, "--path", tmp_path / "x").splitlines()[0]
    assert list(tmp_path.iterdir()) == []


def test_half_of_the_files(capsys, emnist):
    (emnist / "fed_emnist_test.h5").unlink()
    first = refused(capsys, "emnist", "--path", emnist).splitlines()[0]
    assert first.endswith("fed_emnist_train.h5 without fed_emnist_test.h5")


def test_spoilt_files_are_one_line(capsys, emnist):
    path = emnist / "fed_emnist_train.h5"
    path.write_bytes(path.read_bytes()[:3000])
    line = refused(capsys, "emnist", "--path", emnist)
    assert line.count("\n") == 1 and str(path) in line
    path.write_bytes(b"")
    assert f"{path}: not an HDF5 file" in refused(capsys, "emnist", "--path", emnist)


@pytest.mark.parametrize(
    "arguments, what",
    [
        (["emnsit"], "did you mean 'emnist'"),
        ([], "required: TASK"),
        (["glyphs", "--download"], "nothing to fetch"),
        (["emnist", "--download"], "no folder to fetch to; name it with --path DIR"),
        (["emnist", "--file", "fed_emnist.tar.bz2"], "add --download"),
        (["emnist", "--path", "x", "--download", "--file", "emnist.sqlite"], "did you mean"),
        (["emnist", "--downlaod"], "did you mean '--download'"),
        (["emnist", "--path"], "expected one argument"),
    ],
)
def test_mistakes_are_one_line(capsys, tmp_path, monkeypatch, offline, arguments, what):
    monkeypatch.chdir(tmp_path)
    line = refused(capsys, *arguments)
    assert what in line and line.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_folder_to_fetch_to(capsys, emnist, offline):
    line = refused(capsys, "emnist", "--path", emnist / "fed_emnist_test.h5", "--download")
    assert "expected a folder" in line and line.count("\n") == 1


def test_without_h5py_nothing_is_fetched_that_needs_it(capsys, tmp_path, monkeypatch, offline):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = refused(capsys, "emnist", "--path", tmp_path, "--download")
    assert "pip install 'stragglers[data]'" in line and "--file emnist_all.sqlite.lzma" in line


@pytest.fixture
def public(emnist, tmp_path_factory, monkeypatch):
    """The writers as an archive on a server, in the place of the public one."""
    archive = tmp_path_factory.mktemp("public") / "fed_emnist.tar.bz2"
    names = ("fed_emnist_train.h5", "fed_emnist_test.h5")
    with tarfile.open(archive, "w:bz2") as tar:
        for name in names:
            tar.add(emnist / name, name)
    content = archive.read_bytes()
    with serving(content) as site:
        checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
        source = Source(site.url, "writers", checksum, "its writers", names)
        monkeypatch.setitem(sources.SOURCES, "emnist", [(source,)])
        yield site


def test_download_then_describe(capsys, tmp_path_factory, public):
    folder = tmp_path_factory.mktemp("home") / "data"
    code, out, err = run(capsys, "emnist", "--path", folder, "--download", "--json")
    assert code == 0 and json.loads(out)["clients"] == 17
    assert "its SHA-256 is the one published by its writers" in err
    assert sorted(path.name for path in folder.iterdir()) == [
        "checksums.json",
        "fed_emnist_test.h5",
        "fed_emnist_train.h5",
    ]
    code, _, err = run(capsys, "emnist", "--path", folder, "--download")
    assert code == 0 and err.count("there already") == 2 and len(public.asked) == 1


def test_a_download_that_fails_is_one_line(capsys, tmp_path_factory, public):
    folder = tmp_path_factory.mktemp("home")
    public.status = 404
    line = refused(capsys, "emnist", "--path", folder, "--download")
    assert "the server says 404" in line and line.count("\n") == 1
    public.status, public.content = 200, b"another file"
    line = refused(capsys, "emnist", "--path", folder, "--download")
    assert "deleted" in line and line.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_from_a_shell(emnist):
    command = [sys.executable, "-m", "stragglers", "data", "emnist"]
    found = subprocess.run([*command, "--path", emnist], capture_output=True, text=True)
    assert found.returncode == 0 and "17 clients" in found.stdout and found.stderr == ""
    lost = subprocess.run([*command, "--path", "/nowhere"], capture_output=True, text=True)
    assert lost.returncode == 2 and lost.stdout == "" and "Traceback" not in lost.stderr
    assert lost.stderr.startswith("stragglers: emnist: /nowhere: no such folder")


@pytest.fixture
def posts(tmp_path):
    """Three users of two sentences each, as TFF's HDF5; its tags are tokens, with spaces."""
    said = {"tokens": [b"a b $x$ a", b"b a"]}
    tff_hdf5(
        tmp_path / "stackoverflow_train.h5",
        {
            "1": {**said, "tags": [b"c + +|boost", b"boost"]},
            "2": {**said, "tags": [b"c # |python", b"c"]},
            "3": {**said, "tags": [b"mathematica", b"math|c"]},
        },
    )
    tff_hdf5(tmp_path / "stackoverflow_test.h5", {"4": {**said, "tags": [b"c + +", b"c"]}})
    (tmp_path / "stackoverflow.word_count").write_text("a 9\nb 8\n")
    return tmp_path


def test_sentences_and_tags(capsys, posts, offline):
    out = described(capsys, "stackoverflow", "--path", posts)
    assert (out["clients"], out["straggler_clients"]) == (3, 2)
    assert out["groups"]["straggler"]["test_examples"] == 1
    assert out["training_examples"] == 6 and len(out["files"]) == 3
    tags = ["--set", 'straggler_tags=["python"]']
    assert described(capsys, "stackoverflow", "--path", posts, *tags)["straggler_clients"] == 1
    tags = ["--set", 'straggler_tags=["cobol"]']
    assert "cobol" in refused(capsys, "stackoverflow", "--path", posts, *tags)


def test_a_page_of_sentences(capsys, posts, monkeypatch):
    drawn = []
    monkeypatch.setattr("stragglers.report.figures.save", lambda figure, path: drawn.append(figure))
    figure = posts / "page.png"
    assert run(capsys, "stackoverflow", "--path", posts, "--figure", figure)[0] == 0
    text = [piece.get_text() for piece in drawn[0].texts]
    assert "straggler, client 0, 2 examples" in text and "standard, client 1, 2 examples" in text
    assert text.count("    a b … a") == 3 and text.count("    b a") == 3
