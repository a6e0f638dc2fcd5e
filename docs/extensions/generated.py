"""Writes the pages of the reference that are read off the sources, before Sphinx looks for pages.

They are not committed, so they cannot go stale.
"""

from pathlib import Path

from sphinx import addnodes
from sphinx.application import Sphinx

from docs.extensions import (
    api_reference,
    command_reference,
    preset_reference,
    settings_reference,
)

PAGES = {
    "settings.md": settings_reference.page,
    "commands.md": command_reference.page,
    "presets.md": preset_reference.page,
    "api.md": api_reference.page,
}


def write(app: Sphinx) -> None:
    for name, page in PAGES.items():
        file = Path(app.srcdir) / "reference" / name
        text = page()
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def parse_setting(env: object, name: str, node: addnodes.desc_signature) -> str:
    """`schedule.minimum [buffered]` is shown as schedule.minimum."""
    key = name.partition(" [")[0]
    node += addnodes.desc_name(key, key)
    return name


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write)
    app.add_object_type("setting", "setting", "pair: %s; setting", parse_setting)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
