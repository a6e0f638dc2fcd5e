"""The page in a real browser: it draws, its buttons work, it asks nobody for anything."""

import shutil

import pytest

from stragglers.report import page
from stragglers.runs import records
from tests.report.test_page import hostile
from tests.support.fabricate import demo, run_folder

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: apt install chromium"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Paths of a good page and of one that strangers wrote into."""
    folder = tmp_path_factory.mktemp("pages")
    runs = demo(folder / "good", 2)
    run_folder(runs, "glyphs/per-domain/fedavg", 2, status="diverged", diverged="gone")
    for name, root in (("good", runs), ("hostile", hostile(folder / "hostile"))):
        (folder / f"{name}.html").write_text(page.page(records.find([root])), encoding="utf-8")
    return folder


class Watched:
    """A page that was opened, and all that it complained about or asked for."""

    def __init__(self, browser, path, width=1400, scheme="light"):
        self.troubles = []
        size = {"width": width, "height": 900}
        self.page = browser.new_page(viewport=size, color_scheme=scheme)
        self.page.on("console", lambda message: self.troubles.append(message.text))
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("dialog", lambda dialog: self.troubles.append(dialog.message))
        self.page.on("request", self.requested)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".plot .xtick")

    def requested(self, request):
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.troubles.append(request.url)

    def lines(self):
        return self.page.locator('[data-plot="curves"] .scatterlayer .trace').count()

    def y_title(self):
        return self.page.locator('[data-plot="curves"] .ytitle').text_content()

    def press(self, selector):
        self.page.locator(selector).focus()
        self.page.keyboard.press("Enter")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_it_draws_and_fits_and_asks_nobody(browser, pages, width, scheme):
    seen = Watched(browser, pages / "good.html", width, scheme)
    assert seen.lines() == 3 * 6 + 1  # median and two edges each, and the diverged trial
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    ink = seen.page.locator('[data-plot="curves"] .ytitle').evaluate("e => e.style.fill")
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(_rgb(ink)) > sum(_rgb(paper))) == (scheme == "dark")
    assert seen.troubles == []


def _rgb(text):
    return [int(part) for part in text.removeprefix("rgb(").removesuffix(")").split(",")]


def test_buttons_work_by_keyboard(browser, pages):
    seen = Watched(browser, pages / "good.html")
    curves = '[data-plot="curves"]'
    assert seen.y_title() == "straggler accuracy"
    seen.press('[data-group="total"]')
    assert seen.y_title() == "total accuracy"
    pressed = seen.page.locator('[data-group][aria-pressed="true"]')
    assert pressed.all_text_contents() == ["total"]

    seen.press('[data-axis="updates"]')
    assert seen.page.locator(f"{curves} .xtitle").text_content() == "client updates"

    before = seen.lines()
    seen.press('[data-toggle="0"]')
    assert seen.lines() == before - 3
    assert seen.page.locator('[data-toggle="0"]').get_attribute("aria-pressed") == "false"
    assert seen.page.locator('[data-set=""]').get_attribute("aria-pressed") == "false"
    seen.press('[data-set="FedAdam and over-selection"]')
    assert seen.lines() == 6
    seen.press('[data-set=""]')
    assert seen.lines() == before

    points = '[data-plot="points"]'
    seen.press('[data-against="time_s"]')
    assert seen.page.locator(f"{points} .xtitle").text_content() == "simulated time [h]"
    y = seen.page.locator(points).evaluate("e => e.data[1].y[0]")
    seen.press('[data-at="best"]')
    assert seen.page.locator(points).evaluate("e => e.data[1].y[0]") >= y
    assert seen.troubles == []


def test_the_scheme_may_change_while_it_is_open(browser, pages):
    seen = Watched(browser, pages / "good.html")
    seen.page.emulate_media(color_scheme="dark")
    seen.page.wait_for_function(
        """() => getComputedStyle(document.querySelector('[data-plot="curves"] .ytitle')).fill
                 === 'rgb(163, 160, 154)'"""
    )
    assert seen.troubles == []


def test_hovering_tells_the_numbers(browser, pages):
    seen = Watched(browser, pages / "good.html")
    box = seen.page.locator('[data-plot="curves"] .nsewdrag').bounding_box()
    seen.page.locator('[data-plot="curves"]').scroll_into_view_if_needed()
    box = seen.page.locator('[data-plot="curves"] .nsewdrag').bounding_box()
    for share in range(5, 100, 3):
        seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * share / 100)
        if seen.page.locator('[data-plot="curves"] .hovertext').count():
            break
    assert "%" in seen.page.locator('[data-plot="curves"] .hovertext').first.text_content()


HOVER = """([index, text]) => {
  const plot = document.querySelector('[data-plot="points"]');
  Plotly.Fx.hover(plot, [{ curveNumber: index, pointNumber: 0 }]);
}"""
SHOWN = """([index, text]) =>
  document.querySelector('[data-plot="points"] .hovertext')?.textContent.includes(text)"""


def test_what_strangers_wrote_does_not_run(browser, pages):
    seen = Watched(browser, pages / "hostile.html")
    assert seen.page.evaluate("window.pwned") is None
    assert seen.page.locator("a:not([href^='#'])").count() == 0
    assert seen.page.locator(".plot a").count() == 0
    # plotly knows tags of its own in labels, links among them, and templates.
    labels = [
        one["label"]
        for one in seen.page.evaluate(
            "JSON.parse(document.getElementById('data').textContent)[0].experiments"
        )
    ]
    drawn = [label for label in labels if label.startswith("good ")]
    for text in ("<a href=https://example.com>click</a>", "<b>bold</b><br>", "${7*7} #{7*7}"):
        index = next(i for i, label in enumerate(drawn) if text in label)
        seen.page.evaluate(HOVER, [index + 1, text])  # the first trace is the front
        seen.page.wait_for_function(SHOWN, arg=[index + 1, text], timeout=5000)
        assert seen.page.locator(".plot a").count() == 0
    assert seen.page.evaluate("window.pwned") is None
    assert seen.troubles == []
