"""What made rows tell about a secret column, by rows per column: the table in docs/synthetic.md.

    python benchmarks/reconstruct.py     half a minute

n persons have d columns that an attacker knows, and a secret answer, 0 or 1 at random.  The
attacker sees the made rows, and in them the sum of the answers and their products with every known
column, d + 1 numbers:

    least squares      answers by their fitted values; any number of rows
    linear programme   some numbers between 0 and 1 with these sums (I. Dinur and K. Nissim, 2003)
    lattice reduction  answers are 0 or 1, and the sums have 40 bits and more: a subset-sum problem
    (J. Lagarias and
                       A. Odlyzko, 1985)
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

import karat

Array = np.ndarray
BITS = 44  # of the sums that the lattice uses
EXACT = 1000  # weight of the number of answers, which is known without an error
SWAP = 0.99  # Lovasz' condition


def tables(n: int, d: int, count: int) -> list[tuple[Array, Array, Array]]:
    """Known columns with a constant, secret answers, and their sums as the made rows have them."""
    rng, found = np.random.default_rng(n), []
    for _ in range(count):
        X, secret = rng.standard_normal((n, d)), rng.integers(0, 2, n)
        core = karat.coreset(X, secret, rows="synthetic", verbatim="error")
        made = np.column_stack([np.ones(len(core)), core.X])
        found.append((np.column_stack([np.ones(n), X]), secret, made.T @ (core.weights * core.y)))
    return found


def by_least_squares(known: Array, sums: Array) -> Array:
    deviation = sums - known.sum(axis=0) / 2
    return (known @ np.linalg.lstsq(known.T @ known, deviation, rcond=None)[0] > 0).astype(int)


def by_linear_programme(known: Array, sums: Array) -> Array:
    found = linprog(
        np.zeros(len(known)), A_eq=known.T, b_eq=sums, bounds=(0, 1), method="highs-ipm"
    ).x
    return np.zeros(len(known), dtype=int) if found is None else (found > 0.5).astype(int)


def by_lattice(known: Array, sums: Array) -> Array:
    """A short vector of +-1 in the lattice of the columns, in integers; nothing found is all
    zeros.
    """
    n, scale = len(known), 2.0**BITS
    rows = [
        [2 * (i == j) for j in range(n)] + [round(v * scale) for v in known[i, 1:]] + [EXACT]
        for i in range(n)
    ]
    rows.append([1] * n + [round(v * scale) for v in sums[1:]] + [EXACT * round(sums[0])])
    for short in reduced(rows):
        if all(abs(v) == 1 for v in short[:n]) and short[-1] == 0:
            one = (1 - np.array(short[:n])) // 2
            return min(one, 1 - one, key=lambda guess: float(np.abs(guess @ known - sums).max()))
    return np.zeros(n, dtype=int)


def reduced(basis: list[list[int]]) -> list[list[int]]:
    """An LLL-reduced basis in exact integer arithmetic (H. Cohen, algorithm 2.6.7)."""
    rows, count = [list(row) for row in basis], len(basis)
    dets, table = [1] + [0] * count, [[0] * count for _ in range(count)]

    def shorten(k: int, j: int) -> None:
        times = (2 * table[k][j] + dets[j + 1]) // (2 * dets[j + 1])
        if times:
            rows[k] = [a - times * b for a, b in zip(rows[k], rows[j], strict=True)]
            table[k][j] -= times * dets[j + 1]
            for i in range(j):
                table[k][i] -= times * table[j][i]

    def swap(k: int, known: int) -> None:
        rows[k], rows[k - 1] = rows[k - 1], rows[k]
        for j in range(k - 1):
            table[k][j], table[k - 1][j] = table[k - 1][j], table[k][j]
        beside = table[k][k - 1]
        middle = (dets[k - 1] * dets[k + 1] + beside * beside) // dets[k]
        for i in range(k + 1, known + 1):
            old = table[i][k]
            table[i][k] = (dets[k + 1] * table[i][k - 1] - beside * old) // dets[k]
            table[i][k - 1] = (middle * old + beside * table[i][k]) // dets[k + 1]
        dets[k] = middle

    k, known = 1, 0
    dets[1] = sum(v * v for v in rows[0])
    while k < count:
        if k > known:
            known = k
            for j in range(k + 1):
                value = sum(a * b for a, b in zip(rows[k], rows[j], strict=True))
                for i in range(j):
                    value = (dets[i + 1] * value - table[k][i] * table[j][i]) // dets[i]
                if j < k:
                    table[k][j] = value
                else:
                    dets[k + 1] = value
        shorten(k, k - 1)
        if (
            100 * dets[k + 1] * dets[k - 1]
            < round(100 * SWAP) * dets[k] ** 2 - 100 * table[k][k - 1] ** 2
        ):
            swap(k, known)
            k = max(1, k - 1)
        else:
            for j in range(k - 2, -1, -1):
                shorten(k, j)
            k += 1
    return rows


def main() -> None:
    print("n / d  attack             n      d   answers found, and tables in which all are")
    cases = [(by_linear_programme, int(40 * share), 40, 10) for share in (1, 1.5, 2, 3)]
    cases += [(by_least_squares, 40 * share, 40, 5) for share in (1, 2, 5, 10, 20, 50, 100, 300)]
    cases += [
        (by_lattice, n, d, 6)
        for n, d in ((20, 1), (30, 1), (36, 1), (42, 1), (40, 2), (60, 3), (80, 4))
    ]
    for attack, n, d, count in cases:
        shares = [
            float(np.mean(attack(known, sums) == secret))
            for known, secret, sums in tables(n, d, count)
        ]
        name = attack.__name__.removeprefix("by_").replace("_", " ")
        whole = sum(share == 1 for share in shares)
        print(
            f"{n / d:5.3g}  {name:18} {n:<6,} {d:<3} {np.mean(shares):6.1%}, {whole} of {count}",
            flush=True,
        )


if __name__ == "__main__":
    main()
