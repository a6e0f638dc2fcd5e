"""The reference is generated: every setting, command, option and preset is in it."""

import re
from pathlib import Path

import msgspec
import pytest

import stragglers
from docs.extensions import (
    api_reference,
    command_reference,
    preset_reference,
    settings_reference,
)
from stragglers.cli.main import main
from stragglers.config import catalog, documents
from stragglers.runs.curve import COLUMNS
from tests.support.fabricate import demo

ROOT = Path(__file__).parents[2]

SECTIONS = settings_reference.sections()
SETTINGS = [setting for section in SECTIONS for setting in section.settings]


def test_every_setting_of_every_preset_is_there():
    patterns = [
        re.escape(f"{prefix}.{setting.key.removeprefix(f'{prefix}.')}".strip(".")).replace(
            "<name>", "[^.]+"
        )
        for section in SECTIONS
        for prefix in section.prefixes
        for setting in section.settings
    ]
    known = re.compile("|".join(patterns))
    for name in catalog.presets():
        for key in preset_reference.flattened(catalog.read(name)):
            table = key.rpartition(".")[0]  # such as schedule.check_in, by group
            assert any(map(known.fullmatch, (key, f"{key}.kind", table))), key


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_has_a_meaning(setting):
    assert re.fullmatch(r"\S.{4,}\.", setting.meaning), setting.meaning


def test_names_are_unique():
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS)


@pytest.mark.parametrize(
    "name, type, range, default",
    [
        ("updates", "whole number", "1 to 100,000,000", "required"),
        ("schedule.cohort", "whole number", "1 to 100,000,000", "not set"),
        ("client.learning_rate", "number", "above 0", "required"),
        ("client.last_batch", '`"drop"` or `"fill"` or `"keep"`', "", '`"fill"`'),
        ("algorithm.ema", "number", "from 0, below 1", "`0.0`"),
        ("task.straggler_classes", "list of whole numbers", "0 to 61", "`[0, 1, 2, 3, 4]`"),
        ("latency.correlation", "number", "-1 to 1", "`0.0`"),
        ("schedule.time_limit.fill", "`true` or `false`", "", "`true`"),
    ],
)
def test_facts_of_a_setting(name, type, range, default):
    (found,) = [setting for setting in SETTINGS if setting.name == name]
    assert (found.type, found.range, found.default) == (type, range, default)


def test_meanings_stand_beside_fields(tmp_path):
    source = """
import msgspec
class Base(msgspec.Struct):
    first: int  #: [s] How long.
class Own(Base):
    #: A long meaning
    #: in two lines.
    second: int = 0
    third: int = 1  # not a meaning
    fourth: dict[
        str, int
    ] = {}  #: After a long annotation.
"""
    file = tmp_path / "own.py"
    file.write_text(source)
    found = settings_reference._comments(file)
    assert found == {
        "Base": {"first": "[s] How long."},
        "Own": {"second": "A long meaning in two lines.", "fourth": "After a long annotation."},
    }


def test_the_pages_have_all_commands_options_and_presets():
    text = command_reference.page()
    for name, parser in command_reference.commands():
        assert f"## stragglers {name}\n" in text
        for action in command_reference.options(parser):
            assert all(flag in text for flag in action.option_strings)
    presets = preset_reference.page()
    assert all(f"| `{name.rpartition('/')[2]}` |" in presets for name in catalog.presets())


def test_every_public_name_is_on_the_page():
    page = api_reference.page()
    for name in stragglers.__all__:
        found = getattr(stragglers, name)
        assert f":: stragglers.{name}\n" in page or f":: {found.__name__}." in page


def test_every_option_says_what_it_does(capsys):
    for name, parser in command_reference.commands():
        for action in command_reference.options(parser):
            assert action.help, (name, action.dest)


def test_every_number_of_a_plan_a_table_and_a_curve_is_defined(tmp_path, capsys):
    page = (ROOT / "docs" / "reference" / "columns.md").read_text()
    terms = " ".join(re.findall(r"`([^`]+)`", page)).replace("<group>.", "").split()
    known = {part for term in terms for part in (term, term.rpartition(".")[2])}
    assert main(["plan", "fleet", "--json"]) == 0
    plan = msgspec.json.decode(capsys.readouterr().out)
    numbers = {*plan, *plan["share"]["older"], *plan["groups"]["older"], *plan["device_s"]}
    assert numbers - {"preset", "share", "groups"} <= known
    demo(tmp_path, trials=2)
    assert main(["table", str(tmp_path), "--format", "csv"]) == 0
    columns = capsys.readouterr().out.partition("\n")[0].split(",")
    assert {re.sub("_(low|high)$", "", column) for column in columns} <= known
    families = tuple(term.rstrip("…") for term in known if term.endswith("…"))
    assert all(name in known or name.startswith(families) for name in COLUMNS)


def test_flattened_settings_are_those_of_the_file():
    document = catalog.read("emnist/per-domain/fare-dust")
    flat = preset_reference.flattened(document)
    rebuilt = document
    for key, value in flat.items():
        rebuilt = documents.with_value(rebuilt, key.split("."), value)
    assert rebuilt == document
    assert not any(key.startswith(("paper", "readings")) for key in flat)
    assert msgspec.json.encode(flat)
    assert main(["list"]) == 0


def test_an_equation_of_a_section_is_on_the_page():
    assert (
        "```text\nexp(mu + sigma z),    z a standard normal draw\n```" in settings_reference.page()
    )
