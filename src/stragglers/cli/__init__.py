"""The command line: one file for each command.

Imports all packages, what is slow only inside the functions that need it.
"""
