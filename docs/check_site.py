"""python docs/check_site.py build/docs: every page loads files of its own site alone, and every
link to another page and anchor leads there.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"src", "srcset", "poster", "data", "background"}  # whatever the element
LINKS_THAT_LOAD = {"stylesheet", "icon", "preload", "modulepreload", "manifest", "prefetch"}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """What a page loads, what it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self._style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._style = tag == "style"
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.loads += [value for name, value in given.items() if name in LOADED]
        self.loads += css(given.get("style", ""))
        if tag == "link" and LINKS_THAT_LOAD & set(given.get("rel", "").split()):
            self.loads.append(given["href"])
        if tag in ("image", "use"):  # of SVG
            self.loads.append(given.get("href", given.get("xlink:href", "")))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loads += css(data)
            self._style = False


def css(text: str) -> list[str]:
    return [one or other for one, other in CSS_URL.findall(text)]


def is_foreign(address: str) -> bool:
    parts = urlsplit(address.strip())
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def problems(site: Path) -> Iterator[str]:
    """One line for each thing that is wrong with a site."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    if not pages:
        yield f"{site}: no page"
    for file, page in sorted(pages.items()):
        name = file.relative_to(site)
        for address in page.loads:
            if is_foreign(address):
                yield f"{name} loads {address}"
        for address in page.links:
            if is_foreign(address) or address in ("", "#"):
                continue
            path, anchor = urlsplit(address).path, unquote(urlsplit(address).fragment)
            target = (file.parent / unquote(path)).resolve() if path else file.resolve()
            if not target.exists():
                yield f"{name} links to {address}, which is not there"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{name} links to {address}, an anchor that is not there"
    for file in sorted(site.rglob("*.css")):
        for address in css(file.read_text(encoding="utf-8")):
            if is_foreign(address):
                yield f"{file.relative_to(site)} loads {address}"


def main(site: str) -> int:
    found = list(problems(Path(site).resolve()))
    print("\n".join(found) or f"{site}: every file it loads is its own, and no link is broken")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
