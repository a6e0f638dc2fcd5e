"""Clients, latency, faults and availability, and the schedules made of them, before any training.

NumPy and SciPy alone, so that a plan never loads jax. Imports `_core`.
"""
