"""The command line: one file for each command. Imports everything, inside the functions that need it."""
