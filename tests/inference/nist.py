"""NIST's reference data sets for linear regression (StRD), with exact solutions by rational
arithmetic.

Wampler's are made by their formulas; Norris, Pontius and Filip are data.  ``solved`` solves the
normal equations in fractions, so it needs no certified values; those that NIST printed are compared
with it in the tests.
"""

from __future__ import annotations

from fractions import Fraction

# of what Wampler3 adds to Wampler1
HALF = (759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048)
WAVES = (*HALF, 2048, *reversed(HALF))

NORRIS_Y = """
0.1 338.8 118.1 888.0 9.2 228.1 668.5 998.5 449.1 778.9 559.2 0.3 0.1 778.1 668.8 339.3 448.9
10.8 557.7 228.3 998.0
888.8 119.6 0.3 0.6 557.6 339.3 888.0 998.5 778.9 10.2 117.6 228.9 668.4 449.2 0.2
"""
NORRIS_X = """
0.2 337.4 118.2 884.6 10.1 226.5 666.3 996.3 448.6 777.0 558.2 0.4 0.6 775.5 666.9 338.0 447.5
11.6 556.0 228.1 995.8
887.6 120.2 0.3 0.3 556.8 339.1 887.2 999.0 779.0 11.1 118.3 229.2 669.1 448.9 0.5
"""
PONTIUS_Y = """
.11019 .21956 .32949 .43899 .54803 .65694 .76562 .87487 .98292 1.09146 1.20001 1.30822 1.41599
1.52399 1.63194 1.73947
1.84646 1.95392 2.06128 2.16844 .11052 .22018 .32939 .43886 .54798 .65739 .76596 .87474 .98300
1.09150 1.20004 1.30818
1.41613 1.52408 1.63159 1.73965 1.84696 1.95445 2.06177 2.16829
"""
FILIP_Y = """
.8116 .9072 .9052 .9039 .8053 .8377 .8667 .8809 .7975 .8162 .8515 .8766 .8885 .8859 .8959 .8913
.8959 .8971 .9021 .909
.9139 .9199 .8692 .8872 .89 .891 .8977 .9035 .9078 .7675 .7705 .7713 .7736 .7775 .7841 .7971
.8329 .8641 .8804 .7668
.7633 .7678 .7697 .77 .7749 .7796 .7897 .8131 .8498 .8741 .8061 .846 .8751 .8856 .8919 .8934
.894 .8957 .9047 .9129
.9209 .9219 .7739 .7681 .7665 .7703 .7702 .7761 .7809 .7961 .8253 .8602 .8809 .8301 .8664 .8834
.8898 .8964 .8963 .9074
.9119 .9228
"""
FILIP_X = """
-6.860120914 -4.324130045 -4.358625055 -4.358426747 -6.955852379 -6.661145254 -6.355462942
-6.118102026 -7.115148017
-6.815308569 -6.519993057 -6.204119983 -5.853871964 -6.109523091 -5.79832982 -5.482672118
-5.171791386 -4.851705903
-4.517126416 -4.143573228 -3.709075441 -3.499489089 -6.300769497 -5.953504836 -5.642065153
-5.031376979 -4.680685696
-4.329846955 -3.928486195 -8.56735134 -8.363211311 -8.107682739 -7.823908741 -7.522878745
-7.218819279 -6.920818754
-6.628932138 -6.323946875 -5.991399828 -8.781464495 -8.663140179 -8.473531488 -8.247337057
-7.971428747 -7.676129393
-7.352812702 -7.072065318 -6.774174009 -6.478861916 -6.159517513 -6.835647144 -6.53165267
-6.224098421 -5.910094889
-5.598599459 -5.290645224 -4.974284616 -4.64454848 -4.290560426 -3.885055584 -3.408378962
-3.13200249 -8.726767166
-8.66695597 -8.511026475 -8.165388579 -7.886056648 -7.588043762 -7.283412422 -6.995678626
-6.691862621 -6.392544977
-6.067374056 -6.684029655 -6.378719832 -6.065855188 -5.752272167 -5.132414673 -4.811352704
-4.098269308 -3.66174277
-3.2644011
"""


def numbers(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def wampler(which: int) -> tuple[list[float], list[float]]:
    """x and y of Wampler1 to Wampler5."""
    x = list(range(21))
    if which == 2:
        y = [float(sum(Fraction(1, 10**k) * i**k for k in range(6))) for i in x]
    else:
        size = {1: 0, 3: 1, 4: 100, 5: 10_000}[which]
        y = [
            float(sum(i**k for k in range(6)) + size * wave)
            for i, wave in zip(x, WAVES, strict=True)
        ]
    return [float(i) for i in x], y


def data_set(name: str) -> tuple[list[float], list[float], int, bool]:
    """x, y, the degree of the polynomial in x, and whether there is an intercept."""
    if name.startswith("Wampler"):
        return (*wampler(int(name[-1])), 5, True)
    if name == "NoInt1":
        return [float(i) for i in range(60, 71)], [float(i) for i in range(130, 141)], 1, False
    if name == "NoInt2":
        return [4.0, 5.0, 6.0], [3.0, 4.0, 4.0], 1, False
    if name == "Norris":
        return numbers(NORRIS_X), numbers(NORRIS_Y), 1, True
    if name == "Pontius":
        return [150_000.0 * i for i in range(1, 21)] * 2, numbers(PONTIUS_Y), 2, True
    assert name == "Filip"
    return numbers(FILIP_X), numbers(FILIP_Y), 10, True


# The first and the last parameter that NIST certified.
CERTIFIED = {
    "Norris": (-0.262323073774029, 1.00211681802045),
    "Pontius": (0.673565789473684e-03, -0.316081871345029e-14),
    "Filip": (-1467.48961422980, -0.402962525080404e-04),
    "NoInt1": (2.07438016528926, 2.07438016528926),
    "NoInt2": (0.727272727272727, 0.727272727272727),
    "Wampler1": (1.0, 1.0),
    "Wampler2": (1.0, 1e-5),
    "Wampler3": (1.0, 1.0),
    "Wampler4": (1.0, 1.0),
    "Wampler5": (1.0, 1.0),
}


def solved(
    X: list[list[float]], y: list[float]
) -> tuple[list[Fraction], Fraction, list[list[Fraction]]]:
    """Parameters, residual sum of squares and inverse of X'X, without rounding."""
    rows = [[Fraction(value) for value in row] for row in X]
    target, width = [Fraction(value) for value in y], len(X[0])
    gram = [[sum(row[i] * row[j] for row in rows) for j in range(width)] for i in range(width)]
    table = [gram[i] + [Fraction(int(i == j)) for j in range(width)] for i in range(width)]
    for i in range(width):
        pivot = next(r for r in range(i, width) if table[r][i] != 0)
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [value / table[i][i] for value in table[i]]
        for r in range(width):
            if r != i and table[r][i] != 0:
                table[r] = [a - table[r][i] * b for a, b in zip(table[r], table[i], strict=True)]
    inverse = [row[width:] for row in table]
    right = [sum(row[i] * t for row, t in zip(rows, target, strict=True)) for i in range(width)]
    params = [sum(inverse[i][j] * right[j] for j in range(width)) for i in range(width)]
    errors = [
        t - sum(a * b for a, b in zip(row, params, strict=True))
        for row, t in zip(rows, target, strict=True)
    ]
    return params, sum((e * e for e in errors), Fraction(0)), inverse
