"""Experiments as settings: the schema, TOML files, presets, and the plans made of them.

Never loads jax. Imports `_core`, `planning` and what `tasks.datasets` knows of files.
"""
