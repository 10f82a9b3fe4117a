"""Which rows a stream has seen: the smallest hashes of its keys, which show a repeated source.

Every key is hashed to 64 bits and the SIZE smallest hashes are kept.  They are a uniform sample of
the distinct keys, whatever the order and the chunks, and the sample of a union follows from those
of its parts.  Equal sources have equal samples.  Sources that share a fraction f of their rows
share about ``f * SIZE`` sampled keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from karat.data.labels import STEP, first_word, key_numbers, mixed
from karat.errors import InputError

SIZE = 1024
PRIME = np.uint64(0x100000001B3)  # that of the FNV-1a hash


@dataclass(frozen=True)
class Fingerprint:
    """The smallest key hashes, increasing; and their keys, if a sketch may hold them."""

    hashes: np.ndarray
    keys: np.ndarray | None

    @staticmethod
    def of(keys: np.ndarray) -> Fingerprint:
        """The fingerprint of a batch; a repeated key is an error."""
        return _smallest(_hash(keys), keys)

    def plus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint of both together; a key that both have is an error."""
        keys = (
            None
            if self.keys is None or other.keys is None
            else np.concatenate([self.keys, other.keys])
        )
        return _smallest(np.concatenate([self.hashes, other.hashes]), keys)

    def nameless(self) -> Fingerprint:
        """The hashes alone."""
        return Fingerprint(self.hashes, None)


def _smallest(hashes: np.ndarray, keys: np.ndarray | None) -> Fingerprint:
    kept = np.arange(len(hashes)) if len(hashes) <= SIZE else np.argpartition(hashes, SIZE)[:SIZE]
    order = kept[np.argsort(hashes[kept], kind="stable")]
    hashes, keys = hashes[order], None if keys is None else keys[order]
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(repeated):
        subject = "A key" if keys is None else f"Key {keys[repeated[0]].item()!r}"
        raise InputError(
            f"{subject} comes twice. Pass every source once, and a key column without repeated"
            " values."
        )
    return Fingerprint(hashes, keys)


def _hash(keys: np.ndarray) -> np.ndarray:
    """Sixty-four bits per key: splitmix64 of the number, or of a polynomial in the characters."""
    if keys.dtype.kind in "US":
        unit: Any = np.uint32 if keys.dtype.kind == "U" else np.uint8
        letters = np.ascontiguousarray(keys).view(unit).reshape(len(keys), -1)
        polynomial = np.zeros(len(keys), dtype=np.uint64)
        power = np.uint64(1)
        with np.errstate(over="ignore"):
            # padding is zero and adds nothing, so the width of the array does not matter
            for column in letters.T:
                polynomial += column.astype(np.uint64) * power
                power = power * PRIME
        return mixed(polynomial + STEP)
    return first_word(*key_numbers(keys))
