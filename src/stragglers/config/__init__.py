"""Experiments as settings: the schema (`settings`), TOML files, `--set`, presets, checks.

Never loads jax. Imports `_core`, `planning` and what `tasks.datasets` knows of files.
"""

from typing import TYPE_CHECKING, NoReturn

from stragglers._core import moved

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        moved.attribute(__name__, name)
