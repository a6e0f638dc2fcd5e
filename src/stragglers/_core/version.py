"""The version of the package, and that of its numerics."""

__version__ = "0.2.0"

# Changes with the first change that alters a bit of any result. Checkpoints and run folders carry
# it as `stragglers`, so that runs of an older package resume as long as their bits would be equal.
NUMERICS = "0.1.0"
