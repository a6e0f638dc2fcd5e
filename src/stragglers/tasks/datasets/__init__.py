"""Readers of published data sets: their layouts, downloads and prepared arrays. Never loads jax."""
