"""Trials that are trained into run folders: checkpoints, processes, signals, tuning.

`run` finds what is missing, `workers` start it, `recorder` writes it, `records` reads it.

Imports `_core` to `config`.
"""
