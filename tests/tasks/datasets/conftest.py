import pytest

from tests.support.serve import CONTENT, serving


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(CONTENT) as site:
        yield site


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.bin"
