"""Code of the user's own is known by all files that it is made of, and runs as they are now."""

import hashlib
import sys

import pytest

from stragglers._core import own_files
from stragglers._core.errors import BadInput

FILES = {
    "mine.py": "import helper\nfrom tools.deep import depth\nimport json, stragglers\n"
    "def build(x=1): return helper.VALUE * x + depth()\n"
    "def late():\n    import lazy\n    return lazy.VALUE\n"
    "def broken(x): return helper.fail(x)\n",
    "helper.py": "from tools import more\nVALUE = 10\ndef fail(x): return 1 / x\n",
    "lazy.py": "VALUE = 5\n",
    "unused.py": "VALUE = 6\n",
    "tools/__init__.py": "",
    "tools/deep.py": "from . import more\nfrom .inner import last\n"
    "def depth(): return more.VALUE\n",
    "tools/more.py": "VALUE = 3\n",
    "tools/inner/__init__.py": "from .. import more\n",
    "tools/inner/last.py": "",
}


@pytest.fixture
def folder(tmp_path):
    return written(tmp_path / "code")


def written(folder):
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def digest(folder):
    return own_files.digest(own_files.sources(folder / "mine.py"))


def test_sources_are_the_file_and_the_local_files_it_imports(folder):
    found = own_files.sources(folder / "mine.py")
    assert next(iter(found)) == "mine.py" and {*found} == FILES.keys() - {"unused.py"}


def test_a_digest_is_of_every_source(folder, tmp_path):
    before = digest(folder)
    assert digest(written(tmp_path / "elsewhere")) == before
    for name in FILES:
        (folder / name).write_text(f"{FILES[name]}# changed\n")
        assert (digest(folder) == before) == (name == "unused.py")
        (folder / name).write_text(FILES[name])
    assert digest(folder) == before


def test_a_single_file_is_known_by_its_content_alone(tmp_path):
    (tmp_path / "a.py").write_text("import json\n")
    (tmp_path / "b.py").write_text("import json\n")
    a, b = (own_files.digest(own_files.sources(tmp_path / name)) for name in ("a.py", "b.py"))
    assert a == b == hashlib.sha256(b"import json\n").hexdigest()


def test_functions_run_with_the_files_as_they_are_now(folder):
    file = str(folder / "mine.py")
    before = {*sys.modules}
    assert own_files.called(file, "build", {}, {"x": 2}) == 23
    assert own_files.called(file, "late", {}, {}) == 5
    (folder / "helper.py").write_text(FILES["helper.py"].replace("10", "20"))
    assert own_files.called(file, "build", {}, {"x": 2}) == 43
    (folder / "helper.py").write_text(FILES["helper.py"])
    assert own_files.called(file, "build", {}, {}) == 13
    left = {name for name in {*sys.modules} - before if not name.startswith("stragglers_own_")}
    assert not left & {"helper", "lazy", "tools", "tools.deep"}
    assert str(folder) not in sys.path and not [*folder.rglob("*.pyc")]


def test_two_helpers_of_one_name_do_not_meet(folder, tmp_path):
    other = written(tmp_path / "other")
    (other / "helper.py").write_text(FILES["helper.py"].replace("10", "100"))
    calls = [str(place / "mine.py") for place in (folder, other, folder)]
    assert [own_files.called(file, "build", {}, {}) for file in calls] == [13, 103, 13]


def test_a_mistake_is_one_line_with_its_place(folder):
    file = str(folder / "mine.py")
    with pytest.raises(BadInput) as error:
        own_files.called(file, "broken", {"first": 0}, {})
    place = f"{folder / 'helper.py'}:3"
    assert str(error.value) == (
        f"{file}: broken(first) failed (ZeroDivisionError: division by zero, at {place})"
    )
    with pytest.raises(BadInput, match="no function 'buidl'; did you mean 'build'"):
        own_files.called(file, "buidl", {}, {})
