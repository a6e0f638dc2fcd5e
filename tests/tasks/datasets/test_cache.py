import json
import os

import msgspec
import numpy as np
import pytest

from stragglers._core import files
from stragglers._core.errors import BadInput
from stragglers.tasks.datasets import cache

SETTINGS = {"split": ("a", "b"), "size": 3}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "data"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(b"0123456789" * 1000)
    return path


def build(writer):
    for part in range(3):
        writer.append("x", np.full((2, 5), part, np.uint16))
    writer.append("offsets", np.arange(4))
    writer.append("nothing", np.empty((0, 3), np.float32))


def refuse(writer):
    raise AssertionError("made again")


def of(folder):
    return [path for path in folder.iterdir() if path.suffix != ".lock"]


def make(source, build=build, settings=SETTINGS, **options):
    return cache.prepared("task", [source], settings, build, **options)


def test_made_once(source, folder, capsys):
    for arrays in (make(source), make(source, refuse), make(source, refuse, thorough=True)):
        np.testing.assert_array_equal(arrays["x"], np.repeat([0, 1, 2], 10).reshape(6, 5))
        assert arrays["x"].dtype == np.uint16 and not arrays["x"].flags.writeable
        assert isinstance(arrays["x"], np.memmap)
        assert arrays["offsets"].tolist() == [0, 1, 2, 3]
        assert arrays["nothing"].shape == (0, 3)
    assert len(of(folder)) == 1
    assert capsys.readouterr().err == ""


def test_arrays_begin_where_programs_like_it(source):
    """At a multiple of 64 bytes, so that a CPU's programs use the file's pages as they are."""
    assert make(source)["x"].ctypes.data % 64 == 0


def test_other_settings_have_their_own(source, folder):
    make(source)
    make(source, settings={**SETTINGS, "size": 4})
    make(source, refuse)
    assert len(of(folder)) == 2


def test_what_is_prepared_has_a_name_wherever_it_is_from(source, tmp_path):
    def digest(source, settings=SETTINGS):
        return cache.digest("task", [source], settings)

    assert digest(source) is None
    make(source)
    assert digest(source) and digest(source, {**SETTINGS, "size": 4}) is None
    elsewhere, other = tmp_path / "elsewhere", tmp_path / "other"
    elsewhere.write_bytes(b"the same, in another layout")
    other.write_bytes(source.read_bytes())
    make(elsewhere)
    make(other, lambda writer: writer.append("x", np.ones(3)))
    assert digest(elsewhere) == digest(source) != digest(other)
    source.write_bytes(b"changed, and not prepared since")
    assert digest(source) is None


def test_a_changed_source_is_prepared_again(source, folder, capsys):
    make(source)
    about = source.stat()
    changed = bytearray(source.read_bytes())
    changed[-1] ^= 1
    source.write_bytes(changed)
    os.utime(source, ns=(about.st_atime_ns, about.st_mtime_ns))  # size and time as before
    with pytest.raises(AssertionError, match="made again"):
        make(source, refuse)
    make(source)
    make(source, refuse)
    assert "other files" in capsys.readouterr().err
    assert len(of(folder)) == 1


def test_another_version_is_prepared_again(source, folder, monkeypatch):
    make(source)
    real, later = cache.key_of, cache.VERSION + 1
    monkeypatch.setattr(
        cache, "key_of", lambda *given: msgspec.structs.replace(real(*given), version=later)
    )
    with pytest.raises(AssertionError, match="made again"):
        make(source, refuse)


def damaged(path, how, rng):
    content = bytearray(path.read_bytes())
    if how == "flip":
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(content)
    elif how == "cut":
        path.write_bytes(content[: rng.integers(len(content))])
    else:
        path.unlink()


@pytest.mark.parametrize("how, times", [("flip", 60), ("cut", 20), ("missing", 1)])
def test_damage_is_found(source, folder, how, times, capsys):
    rng = np.random.default_rng(0)
    expected = {name: np.array(values) for name, values in make(source).items()}
    (place,) = of(folder)
    whole = {path: path.read_bytes() for path in place.iterdir()}
    key = cache.key_of([source], SETTINGS)
    for path, content in whole.items():
        for _ in range(times):
            damaged(path, how, rng)
            loaded = cache.load(place, key)
            # White space and the like may change in the manifest: what it says then is the same.
            assert loaded is None or path.suffix == ".json"
            for name, values in (loaded or {}).items():
                np.testing.assert_array_equal(values, expected[name])
            path.write_bytes(content)
    assert all(
        line.endswith("preparing the data again") for line in capsys.readouterr().err.splitlines()
    )
    assert cache.load(place, key) is not None


def test_damage_is_repaired(source, folder, capsys):
    make(source)
    (place,) = of(folder)
    (place / "x.npy").write_bytes(b"")
    assert make(source)["x"].shape == (6, 5)
    assert capsys.readouterr().err.count("\n") == 1


def test_large_arrays_are_sampled(source, folder, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", 16)
    monkeypatch.setattr(cache, "CHECKED", 500)
    make(source, lambda writer: writer.append("x", np.zeros(1000, np.uint8)))
    (place,) = of(folder)
    content = bytearray((place / "x.npy").read_bytes())
    key = cache.key_of([source], SETTINGS)
    noticed = []
    for at in range(128, len(content), 16):  # behind the header
        content[at] ^= 1
        (place / "x.npy").write_bytes(content)
        assert cache.load(place, key, thorough=True) is None
        noticed.append(cache.load(place, key) is None)
        content[at] ^= 1
    assert noticed[-1]
    assert cache.SAMPLED / 2 < sum(noticed) < cache.SAMPLED


def test_failure_leaves_nothing(source, folder):
    def fail(writer):
        writer.append("x", np.zeros(3))
        raise BadInput("the source is bad")

    with pytest.raises(BadInput, match="the source is bad"):
        make(source, fail)
    assert of(folder) == []


def test_what_a_killed_one_left_is_removed(source, folder):
    make(source)
    (place,) = of(folder)
    os.rename(place, place.with_name(f"{files.UNFINISHED}{place.name}-by-chance"))
    make(source)
    assert of(folder) == [place]
    assert json.loads((place / "manifest.json").read_bytes())["key"]["version"] == cache.VERSION


def test_a_full_disk(source, folder, monkeypatch):
    def full(path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(BadInput, match="No space left on device.*set STRAGGLERS_CACHE"):
        make(source)
    assert of(folder) == []


def test_no_place_for_a_cache(source, tmp_path, monkeypatch):
    monkeypatch.setenv("STRAGGLERS_CACHE", str(source / "below"))
    with pytest.raises(BadInput, match="set STRAGGLERS_CACHE"):
        make(source)


def test_a_source_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match="none: cannot be read"):
        make(tmp_path / "none")


def test_rows_of_another_kind(source):
    def mixed(writer):
        writer.append("x", np.zeros((2, 3), np.uint8))
        writer.append("x", np.zeros((2, 3), np.int64))

    with pytest.raises(ValueError, match="rows of int64"):
        make(source, mixed)
