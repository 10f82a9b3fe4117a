"""Extended precision for the oracles: 64 bits of mantissa and exponents that do not overflow.

Sums are pairwise along contiguous rows, so a sum of n terms is off by about log2(n) * 1e-19 of the
sum of absolute values. Doubles and 64-bit integers are represented exactly, so a column minus a
double is exact to 1e-19 of the *result*.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial, prod

import numpy as np
from scipy import sparse

wide = np.longdouble
EPS = float(np.finfo(float).eps)
WIDE = float(np.finfo(wide).eps)
# what an oracle may be off by, in units of R(q): 2.8e-17, against rounding = 64 eps = 1.4e-14
OWN = 256 * WIDE
CHUNK = 2**16


def extended() -> bool:
    """Whether this machine's long double is longer than a double (x86: yes; some ARM: no)."""
    return WIDE < 2e-19


def dense(table) -> np.ndarray:
    """A table as an array of its own type, so that integers stay exact."""
    return table.toarray() if sparse.issparse(table) else np.asarray(table)


def columns(table) -> np.ndarray:
    """The columns of a table as contiguous rows in extended precision."""
    return np.ascontiguousarray(dense(table).T).astype(wide)


def centre(cols: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Weighted means, rounded to double: the shift of the claim."""
    total = u.sum()
    return np.array([float((u * c).sum() / total) for c in cols]).astype(wide)


def power(x: np.ndarray, p: int) -> np.ndarray:
    """Powers by squaring: the library's power of extended numbers is slow."""
    if p == 0:
        return np.ones_like(x)
    half = power(x, p // 2)
    return half * half * x if p % 2 else half * half


def exponents(variables: int, lowest: int, highest: int) -> np.ndarray:
    """All exponents of monomials of these degrees, one row each, lower degrees first."""
    rows = []
    for degree in range(lowest, highest + 1):
        for chosen in combinations_with_replacement(range(variables), degree):
            row = [0] * variables
            for j in chosen:
                row[j] += 1
            rows.append(row)
    return np.array(rows, dtype=int).reshape(-1, variables)


def monomials(cols: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """The monomials with these exponents, one row each."""
    highest = int(powers.max(initial=0))
    table = [[power(c, k) for k in range(highest + 1)] for c in cols]
    values = np.ones((len(powers), cols.shape[1]), dtype=cols.dtype)
    for t, exponent in enumerate(powers):
        for j in np.flatnonzero(exponent):
            values[t] *= table[j][exponent[j]]
    return values


def multinomial(exponent) -> int:
    return factorial(int(sum(exponent))) // prod(factorial(int(k)) for k in exponent)


def expansion(powers: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Raw monomials as combinations of shifted ones: ``(v + shift)^a = sum_b H[a, b] v^b``."""
    H = np.ones((len(powers), len(powers)), dtype=wide)
    top = int(powers.max(initial=0))
    binomial = np.array([[comb(a, b) for b in range(top + 1)] for a in range(top + 1)], dtype=wide)
    for j, s in enumerate(shift):
        a, b = powers[:, None, j], powers[None, :, j]
        ladder = np.array([s**k if k else wide(1) for k in range(top + 1)], dtype=wide)
        H *= np.where(b <= a, binomial[a, b] * ladder[np.maximum(a - b, 0)], wide(0))
    return H


def form_power(powers: np.ndarray, form: np.ndarray, constant, degree: int) -> np.ndarray:
    """Coefficients of ``(constant + form . v)^degree`` over monomials with these exponents."""
    used = powers.sum(axis=1)
    h = np.zeros(len(powers), dtype=wide)
    for t, exponent in enumerate(powers):
        rest = degree - int(used[t])
        if rest < 0 or (rest and constant == 0):
            continue
        value = wide(multinomial([*exponent, rest]))
        value *= wide(constant) ** rest if rest else wide(1)
        for j in np.flatnonzero(exponent):
            value *= wide(form[j]) ** int(exponent[j])
        h[t] = value
    return h
