"""What drives an algorithm along a schedule: local training, the compiled engine, the interpreter.

Imports `_core` to `tasks`.
"""
