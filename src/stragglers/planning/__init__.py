"""Clients, latency, faults and availability, and the schedules made of them, before any training.

`fleet` and `policy` describe, `make_schedule` makes, `summary` says what a schedule means.

NumPy and SciPy alone, so that a plan never loads jax. Imports `_core`.
"""
