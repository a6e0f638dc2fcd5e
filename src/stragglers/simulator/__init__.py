"""What drives an algorithm along a schedule: local training, the compiled engine, the interpreter.

`simulate` is where it begins; `coordinator` decides what becomes of reports as they arrive.

Imports `_core` to `tasks`.
"""
