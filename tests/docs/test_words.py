"""Words that read like a translation are in no page, help text, message or preset.

Plain English names the thing: *a client that fails*, not *whoever fails*; *no client*,
not *nobody*.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.extensions import generated

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "stragglers"
WORDS = re.compile(
    r"\b(?:whoever|nobody|theirs|everybody|goes on|go on|luck"
    r"|of which)\b",
    re.IGNORECASE,
)
# The phrase that is allowed in a file, and why.
ALLOWED = {
    "src/stragglers/planning/fit/logs.py": {
        "everybody": "the name of the only group, in logs that exist already"
    },
}


def pages() -> Iterator[tuple[str, str]]:
    """Whole files that users read, and the pages that are generated."""
    files = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    files = [file for file in files if file.name not in generated.PAGES]
    for folder in ("config/presets", "config/grids"):
        files += (SRC / folder).rglob("*.toml")
    files += (SRC / "report").glob("page.*[!y]")
    for file in files:
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
    for name, page in generated.PAGES.items():
        yield name, page()


def literals() -> Iterator[tuple[str, str]]:
    """Strings of the package that may be shown: all but the docstrings."""
    for file in SRC.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if is_text and id(node) not in statements:
                yield f"{file.relative_to(ROOT)}:{node.lineno}", node.value


def found(name: str, text: str) -> list[str]:
    file = name.partition(":")[0]
    hits = WORDS.findall(" ".join(text.split()))
    return [hit for hit in hits if hit.lower() not in ALLOWED.get(file, {})]


@pytest.mark.parametrize("texts", [pages, literals], ids=lambda texts: texts.__name__)
def test_plain_words(texts):
    complaints = [f"{name}: {hits}" for name, text in texts() if (hits := found(name, text))]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    "text, hits",
    [
        ("Whoever leaves is lost.", ["Whoever"]),
        ("its reports, of which are late", ["of which"]),
        ("a cut of\nwhich, they say", ["of which"]),
        ("the same command goes on", ["goes on"]),
        ("nobody's", ["nobody"]),
    ],
)
def test_what_is_found(text, hits):
    assert found("any.md", text) == hits


def test_exceptions_are_needed():
    for file, words in ALLOWED.items():
        source = (ROOT / file).read_text(encoding="utf-8")
        assert all(word in source for word in words)
