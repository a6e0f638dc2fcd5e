"""A small mistake in a source."""

from typing import NamedTuple


class Mutation(NamedTuple):
    kind: str
    file: str  # below src/stragglers
    old: str  # occurs exactly once
    new: str
    why: str  # what goes wrong
