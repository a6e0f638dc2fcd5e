"""Server algorithms: a file for each, opening with its equations, and their contract in `base`.

`base` also has the EMA of the weights and several models from one training. FedAdam is FedAvg with
another optimizer, FedBuff is FedAvg on a buffered schedule.

Pure functions of sums of reports, never of clocks. Imports `_core` and `planning`.
"""
