"""Errors, files, random streams and the limits of this machine: what every other package needs.

Imports nothing of the other packages, and never jax.
"""
