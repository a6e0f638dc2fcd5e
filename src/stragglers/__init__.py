"""Federated learning with slow clients: time is data.

Who starts when, from which model, and whose report meets which server step is a table made before
any training. For use as a library:

    population, latency, faults   who the clients are and how long they take
    availability                  when they are there
    rounds, buffer, tiers         over_selected() and buffered() make the table, a schedule.Schedule
    simulate                      simulate() trains an algorithm of algorithms/ on it
    config, settings, build, run  the same from a preset or a TOML file, in settings' words
    records                       find() and load() read the run folders that the command writes
"""

__version__ = "0.1.0"
