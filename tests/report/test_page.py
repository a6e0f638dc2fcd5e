import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from stragglers.report import page
from stragglers.runs import records
from tests.support.fabricate import changed, demo, run_folder
from tests.support.injections import INJECTIONS


class Elements(HTMLParser):
    """Tags with their attributes, texts of scripts, and all other text."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data


def elements(html):
    parser = Elements()
    parser.feed(html)
    parser.close()
    return parser


def hostile(root):
    """Every injection as a name, as a reason, as a group of clients and as a setting."""
    for index, text in enumerate(INJECTIONS):
        folder = run_folder(
            root,
            text,
            status="diverged",
            diverged=text,
            digest=f"{index:08x}",
            changes={"comment": text},
        )
        run = json.loads((folder / "run.json").read_text())
        run["schedule"]["share"][text] = run["schedule"]["share"].pop("straggler")
        run["versions"][text] = text
        changed(folder, **run)
        run_folder(root, f"good {text}", digest=f"{index:08x}")
    return root


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    return page.page(records.find([hostile(tmp_path_factory.mktemp("hostile"))]))


TAGS = {
    "html",
    "head",
    "meta",
    "link",
    "title",
    "style",
    "body",
    "header",
    "p",
    "h1",
    "h2",
    "h3",
    "nav",
    "a",
    "main",
    "section",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "span",
    "svg",
    "line",
    "aside",
    "ul",
    "li",
    "figure",
    "figcaption",
    "button",
    "details",
    "summary",
    "dl",
    "dt",
    "dd",
    "footer",
    "script",
}


def test_strangers_add_no_tag_no_handler_and_no_link(attacked):
    found = elements(attacked)
    assert {tag for tag, _ in found.tags} <= TAGS
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
        assert attributes.keys() & {"src", "srcset", "action", "formaction", "srcdoc"} == set()
        assert re.fullmatch(r"#section-\d+|data:,", attributes.get("href", "data:,"))
    assert len(found.scripts) == 3
    for text in INJECTIONS[:8]:
        assert text in found.text  # shown as it was written


def test_only_the_two_scripts_may_run_and_nothing_may_connect(attacked):
    found = elements(attacked)
    (policy,) = [a["content"] for _, a in found.tags if a.get("http-equiv")]
    for script in found.scripts[1:]:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy and "http" not in policy
    assert not re.search(r"script-src[^;]*unsafe", policy)


def test_the_data_is_json_that_ends_no_script(attacked):
    data = elements(attacked).scripts[0]
    assert not re.search(r"[<>&]", data)
    labels = [one["label"] for section in json.loads(data) for one in section["experiments"]]
    assert len(labels) == 2 * len(INJECTIONS) and "<svg onload=window.pwned=1>" in labels


def test_the_page_has_what_it_promises(tmp_path):
    demo(tmp_path, 2, "emnist/per-domain")
    run_folder(tmp_path, "emnist/per-domain/fedavg", 2, status="running")
    run_folder(
        tmp_path, "emnist/per-domain/feast", 2, status="diverged", diverged="gone", dropped=7
    )
    found = elements(page.page(records.find([tmp_path])))
    for text in (
        "6 experiments, 14 trials",
        "5–95 % range",
        "paper 91.7 %",
        "Worth knowing",
        "diverged in 1 of 3",
        "seed 2 diverged: gone",
        "7 clients dropped",
        "1 of 3 unfinished",
        "probably copied",
        "FedAdam and over-selection",
        "schedule.over_selection",
        "Who took part",
        "11.8 %",
        "jax 0.10.2",
    ):
        assert text in found.text, text
    (section,) = json.loads(found.scripts[0])
    feast = next(one for one in section["experiments"] if one["label"] == "feast")
    assert [trial["status"] for trial in feast["loners"]] == ["diverged"]
    assert feast["final"]["straggler_accuracy"] == [None, None, None]


def test_faults_are_shown_where_there_are_any(tmp_path):
    demo(tmp_path, 2)
    assert "faults, of clients started" not in page.page(records.find([tmp_path]))
    struck = {"faults": {"drop_out": 9, "nan": 1}, "dispatches": 150, "abandoned": 6}
    for record in records.find([tmp_path]):
        if record.name.endswith("feast"):
            changed(record.folder, schedule={**record.run["schedule"], **struck})
    html = page.page(records.find([tmp_path]))
    assert "faults, of clients started" in html
    assert "<td>drop_out 6.0 %, nan 0.7 %, abandoned steps 5.0 %</td>" in html
    assert html.count("<td>none</td>") == 5


def test_what_is_common_is_not_what_differs(tmp_path):
    demo(tmp_path, 1)
    html = page.page(records.find([tmp_path]))
    differing, common = html.split("What differs")[1].split("What is the same")
    assert "server.learning_rate" in differing and "server.learning_rate" not in common
    assert "client.batch_size" in common and "client.batch_size" not in differing


def test_runs_that_have_only_begun_and_points_without_numbers(tmp_path):
    """Nothing to draw is no reason to fail, and a hole in a curve is a hole on the page."""
    run_folder(tmp_path, seed=0, points=0, status="running")
    run_folder(tmp_path, "glyphs/per-domain/feast", points=1, status="diverged", diverged="at once")
    folder = run_folder(tmp_path, "glyphs/per-domain/fedavg")
    curve = (folder / "curve.jsonl").read_text()
    (folder / "curve.jsonl").write_text(
        re.sub(r'"straggler_accuracy": [^,]*', '"straggler_accuracy": null', curve, count=3)
    )
    changed(folder)
    found = elements(page.page(records.find([tmp_path])))
    (section,) = json.loads(found.scripts[0])
    by_label = {one["label"]: one for one in section["experiments"]}
    assert by_label["fedadam"]["band"] is None and by_label["feast"]["loners"] == []
    median, low, high = by_label["fedavg"]["band"]["straggler"]
    assert median[:3] == low[:3] == high[:3] == [None] * 3 and median[3] is not None
    assert "seed 0 at 0%" in found.text and "diverged in 1 of 1" in found.text


def test_the_page_repeats_byte_by_byte(tmp_path):
    found = records.find([demo(tmp_path, 2)])
    assert page.page(found) == page.page(found[::-1])


def test_buttons_say_whether_they_are_pressed(tmp_path):
    found = elements(page.page(records.find([demo(tmp_path, 1)])))
    buttons = [attributes for tag, attributes in found.tags if tag == "button"]
    assert len(buttons) == 3 + 2 + 2 + 6 + 2 + 2
    assert {button["aria-pressed"] for button in buttons} == {"true", "false"}
    assert all(button["type"] == "button" for button in buttons)


def test_matched_accuracies_are_a_choice_where_there_are_any(tmp_path):
    run_folder(tmp_path, "glyphs/per-domain/feast", matched=True)
    run_folder(tmp_path, "emnist/per-domain/feast")
    found = elements(page.page(records.find([tmp_path])))
    emnist, glyphs = json.loads(found.scripts[0])
    for section, there in ((emnist, False), (glyphs, True)):
        (feast,) = section["experiments"]
        assert any(value is not None for value in feast["band"]["matched_total"][0]) == there
        assert (feast["matched"]["straggler_accuracy"][0] is not None) == there
    final, matched = (
        glyphs["experiments"][0][at]["straggler_accuracy"][0] for at in ("final", "matched")
    )
    assert matched == pytest.approx(final + 0.05)
    buttons = [attributes for tag, attributes in found.tags if tag == "button"]
    groups = [button["data-group"] for button in buttons if "data-group" in button]
    assert groups == ["straggler", "standard", "total"] * 2 + ["matched_straggler", "matched_total"]
    ats = [button["data-at"] for button in buttons if "data-at" in button]
    assert ats == ["final", "best"] * 2 + ["matched"]
    assert found.text.count("matched straggler") == 2  # a column and a button
