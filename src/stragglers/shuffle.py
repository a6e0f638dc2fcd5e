"""A shuffle with an address: where position p of a permutation of n points to, in O(1).

The swap-or-not shuffle (Hoang, Morris and Rogaway, 2012). In each of a few rounds, position x and
its partner k - x (mod n) are swapped or not, by a coin that both compute alike:

    partner = k[r] - x mod n,   x <- partner  if  coin(r, max(x, partner))

It is a permutation for every n, needs no memory and no sort, and so runs inside a compiled loop
over clients of any size. Integers only, operators only: NumPy and JAX arrays give the same bits.
"""

from typing import Any

import numpy as np

ROUNDS = 24


def hashed(*words: Any) -> Any:
    """Mixes uint32 words into one, each fully (the finaliser of MurmurHash3 between them)."""
    h = np.uint32(0x9E3779B9)
    for word in words:
        h = (h ^ word) * np.uint32(0x85EBCA6B)
        h = h ^ (h >> np.uint32(16))
        h = h * np.uint32(0x85EBCA6B)
        h = h ^ (h >> np.uint32(13))
        h = h * np.uint32(0xC2B2AE35)
        h = h ^ (h >> np.uint32(16))
    return h


def shuffled(position: Any, n: Any, key: Any) -> Any:
    """Where the permutation of 0..n-1 named by `key` sends `position`; all uint32 arrays."""
    x = position
    for r in range(ROUNDS):
        k = hashed(key, np.uint32(r)) % n
        partner = k - x + n * (x > k)
        larger = x + (partner - x) * (partner > x)
        coin = hashed(key, np.uint32(r + ROUNDS), larger) & np.uint32(1)
        x = x + (partner - x) * coin  # wraps around where partner < x, as uint32 do
    return x
