"""Server algorithms: their contract (`base`) and a file for each, opening with its equations.

Pure functions of sums of reports, never of clocks. Imports `_core` and `planning`.
"""
