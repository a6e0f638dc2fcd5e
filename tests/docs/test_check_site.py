"""A page that loads something from another host, or links to nothing, is found."""

import pytest

from docs.check_site import main, problems

GOOD = """<html><head><link rel="stylesheet" href="style.css"><link rel="canonical"
href="https://example.org/"></head><body id="top"><h2 id="b">B</h2><a href="#b">b</a>
<a href="other.html#c">c</a><a href="https://example.org/">elsewhere</a>
<img src="data:image/png;base64,AA=="><script src="x.js"></script></body></html>"""
OTHER = '<a href="index.html#top"></a><p id="c"></p>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "other.html").write_text(OTHER)
    (tmp_path / "style.css").write_text('@font-face { src: url("a.woff2") }')
    return tmp_path


def test_a_good_site(site, capsys):
    assert list(problems(site)) == []
    assert main(str(site)) == 0


@pytest.mark.parametrize(
    "added",
    [
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link href="http://example.org/x.ico" rel="shortcut icon">',
        '<img src="https://example.org/x.png">',
        '<iframe src="https://example.org/"></iframe>',
        '<p style="background: url(https://example.org/x.png)"></p>',
        "<style>@import 'https://example.org/x.css';</style>",
        '<svg><image xlink:href="https://example.org/x.png"/></svg>',
        '<a href="gone.html">gone</a>',
        '<a href="other.html#d">d</a>',
        '<a href="#d">d</a>',
    ],
)
def test_what_is_wrong_is_found(site, added, capsys):
    (site / "other.html").write_text(OTHER + added)
    (found,) = problems(site)
    assert found.startswith("other.html ")
    assert main(str(site)) == 1


def test_a_foreign_font_is_found(site):
    (site / "style.css").write_text("a { background: url(https://example.org/x.woff2) }")
    assert list(problems(site)) == ["style.css loads https://example.org/x.woff2"]


def test_an_empty_site_is_no_site(tmp_path):
    assert main(str(tmp_path)) == 1
