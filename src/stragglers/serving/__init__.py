"""Real fleets: a live server, its folder, and Flower's clients in `flower`.

Which report is on time, late or too old is decided by the simulator's coordinator.

Imports `_core` to `config`.
"""
