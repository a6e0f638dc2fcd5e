"""Real fleets: the simulator's coordinator, driven by messages; Flower's clients in `flower`.

Imports `_core` to `config`.
"""
