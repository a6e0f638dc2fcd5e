"""Trials that are trained into run folders: checkpoints, processes, signals, tuning.

Imports `_core` to `config`.
"""
