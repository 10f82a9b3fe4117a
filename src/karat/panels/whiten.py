"""Coordinates in which the columns of a panel, (X, y) less their effects, are orthonormal.

    W = Z'UZ of what is left;  T upper triangular with T'WT = 1;   b from the last column of T

Sums of products lose the square of the condition of the columns, and what is left of columns that
vary little inside the effects may be rounding.  So each pass sums products G of columns that the
coordinates of the pass before make nearly orthonormal, which loses nothing, and T becomes T C^-1
with G = C'C.  A column of which little seems to be left is kept apart: it becomes its difference
from the columns before it, over its length before the effects.  The length of this difference in
the next pass decides whether the column is a combination of effects and other columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from karat.engine.linalg import Array, Flags

SUSPICIOUS = 1e-6  # of a column's length: if less is left, the next pass decides
DEPENDENT = 1e-10  # of a column's length: what is left is rounding


@dataclass(frozen=True)
class Coordinates:
    """An upper triangular T, and which columns are not orthonormal yet.

    Attributes
    ----------
    turn : array of shape (q, q)
    apart : array of bool
        Columns of which little seems to be left: they become their differences from the columns
        before them, over their lengths before the effects times ``lengths``.
    lengths : array
    """

    turn: Array
    apart: Flags
    lengths: Array

    @staticmethod
    def start(products: Array, sizes: Array) -> Coordinates:
        """From the products of what is left, and the lengths of the columns before."""
        count = len(sizes)
        plain = Coordinates(np.diag(1 / sizes), np.zeros(count, dtype=bool), np.ones(count))
        return plain.refined(products / np.outer(sizes, sizes))

    def refined(self, gram: Array) -> Coordinates:
        """The coordinates after a pass that found the products ``gram`` in these."""
        count = len(gram)
        turn, apart = np.eye(count), np.zeros(count, dtype=bool)
        for column in range(count):
            before = np.flatnonzero(~apart[:column])
            basis = turn[:, before]
            rest = np.zeros(count)
            rest[column] = 1.0
            for _ in range(2):  # once more restores the digits that the first time loses
                rest = rest - basis @ (basis.T @ (gram @ rest))
            length = float(rest @ gram @ rest)
            apart[column] = length <= SUSPICIOUS**2
            turn[:, column] = rest if apart[column] else rest / np.sqrt(length)
        return Coordinates(np.asarray(self.turn @ turn), apart, self.lengths)

    def dependent(self, gram: Array) -> Flags:
        """Which columns are combinations, by the products that a pass found."""
        return np.asarray(self.apart & (np.diag(gram) <= np.square(DEPENDENT / self.lengths)))

    def decided(self, gram: Array) -> Coordinates:
        """The coordinates in which columns kept apart, of which something is left, are like the
        others.
        """
        out = self.dependent(gram)
        gram = np.where(out[:, None] | out, 0.0, gram)
        scale = np.where(self.apart & ~out, np.sqrt(np.diag(gram)), 1.0)
        none = np.zeros(len(gram), dtype=bool)
        turned = Coordinates(self.turn / scale, none, self.lengths * scale)
        return turned.refined(gram / np.outer(scale, scale))

    def only(self, columns: Flags) -> Coordinates:
        """Without the other columns, which are combinations and so in no other column."""
        turn = self.turn[np.ix_(columns, columns)]
        return Coordinates(turn, self.apart[columns], self.lengths[columns])
