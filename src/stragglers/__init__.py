"""Federated learning with slow clients: time is data.

Who starts when, from which model, and whose report meets which server step is a table made before
any training. `population` and `latency` describe the clients, `schedule` makes the table.
"""

__version__ = "0.1.0"
