"""Damaged copies of a file, for tests and longer runs."""

import numpy as np


def bit_flipped(whole: bytes, rng: np.random.Generator) -> bytes:
    """The file with one bit turned over."""
    at = int(rng.integers(len(whole)))
    return whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :]


def mutated(whole: bytes, rng: np.random.Generator) -> bytes:
    """The file with damage of a random kind: a bit, a byte, a cut, zeros, a part twice or left out, a large number."""
    at, length = int(rng.integers(len(whole))), int(rng.integers(1, 64))
    rest = whole[at + length :]
    kinds = (
        lambda: bit_flipped(whole, rng),
        lambda: whole[:at] + rng.bytes(1) + whole[at + 1 :],
        lambda: whole[:at],
        lambda: whole[:at] + bytes(length) + rest,
        lambda: whole[: at + length] + whole[at:],
        lambda: whole[:at] + rest,
        lambda: whole[:at] + b"\xff" * int(rng.choice([2, 4, 8])) + rest,
        lambda: whole[:at] + str(int(rng.integers(10**9))).encode() + rest,
    )
    return kinds[int(rng.integers(len(kinds)))]()
