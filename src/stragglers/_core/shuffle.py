"""A shuffle with an address: where position p of a permutation of n points to, in O(1).

The swap-or-not shuffle (Hoang, Morris and Rogaway, 2012). In each of a few rounds, position x and
its partner k - x (mod n) are swapped or not, by a coin that both compute alike:

    partner = k[r] - x mod n,   x <- partner  if  coin(r, max(x, partner))

It is a permutation for every n, needs no memory and no sort, and so runs inside a compiled loop
over clients of any size. Integers only, operators only: NumPy and JAX arrays give the same bits.
"""

from typing import Any

import numpy as np

ROUNDS = 16  # tests/_core/test_shuffle.py finds no bias left
GOLDEN = np.uint32(0x9E3779B9)


def mixed(h: Any) -> Any:
    """Every bit of a uint32 array on every other (the finaliser of MurmurHash3)."""
    h = h ^ (h >> np.uint32(16))
    h = h * np.uint32(0x85EBCA6B)
    h = h ^ (h >> np.uint32(13))
    h = h * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def hashed(*words: Any) -> Any:
    """One word from several, order included; all uint32 arrays."""
    h = words[0] ^ GOLDEN
    for word in words[1:]:
        h = mixed(h) * np.uint32(5) + word
    return mixed(h)


def seed_word(seed: int) -> np.uint32:
    """A seed of any size as the 32 bits that programs take."""
    words = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32)
    return np.uint32(hashed(words[:1], words[1:])[0])


def shuffled(position: Any, n: Any, key: Any) -> Any:
    """Where the permutation of 0..n-1 named by `key` sends `position`; all uint32 arrays."""
    x = position
    with np.errstate(over="ignore"):  # of NumPy's scalars; arrays wrap silently
        round_words = np.arange(1, 2 * ROUNDS + 1, dtype=np.uint32) * GOLDEN
    for first, second in round_words.reshape(ROUNDS, 2):
        k = mixed(key ^ first) % n
        partner = k - x + n * (x > k)
        larger = x + (partner - x) * (partner > x)
        coin = mixed((key ^ second) + larger * GOLDEN) & np.uint32(1)
        x = x + (partner - x) * coin  # wraps around where partner < x, as uint32 do
    return x
