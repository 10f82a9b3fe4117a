"""Every tolerance of the engine, with its derivation.

EPS is the spacing of doubles at 1, u = EPS / 2 their rounding.

**What is claimed** (the two terms of every certificate; :mod:`karat.engine.proof`).  For every
query that the problem serves,

    powers of one linear form  |f_c - f|  <=  loss_error f  +  (f^(1/p) + rounding U^(1/p) S)^p - f
    sums of features           |f_c - f|  <=  loss_error sum_i u_i |f_i|  +  rounding sum_t |h_t|
                                          sum_i u_i |phi_t(i)|

with U the total weight and S = sum_j |z_j| sigma_j, where sigma_j is the size of column j about its
mean: the coreset is exact, up to ``loss_error``, for data whose columns differ from the given ones
by at most ``rounding`` of their own size.  At most EXACT of the first term counts as exact.

``rounding`` has two parts.  What is *measured* may be ROUNDING at most (MEASURED, for sums of
features), whatever the data. What is *derived* bounds the rounding of the proof's own arithmetic,
and may be COORDINATES per column at most.  A coreset of coresets inherits the claims of its parts,
and both terms add up.

**Why 64 EPS.**  A value in a file is off by u, and a computed column by a few u more.  A change of
64 EPS of a column's size is far below what any solver of least squares guarantees (Householder's:
about d n^(1/2) u column by column).
"""

from __future__ import annotations

import sys

EPS = sys.float_info.epsilon
TINY = sys.float_info.min
LARGEST = sys.float_info.max

# The proof (karat.engine.proof).  None of these decides how a coreset is made.
EXACT = 1e-10
ROUNDING = 64 * EPS
MEASURED = 24 * EPS
COORDINATES = 256 * EPS  # times the number of columns and 2
# shares of a constant lower bound in the denominator of an even power: any is valid, the best wins
FLOOR_SHARES = (0.01, 0.1, 0.5, 0.9)

# Coordinates (karat.engine.coordinates).
# a combination of columns is dropped if its size, as a change of a column, is at most this
NULL = 8 * EPS
UNSCALED = 16 * EPS  # per variable: relative size in a sample below which it is not yet scaled
# rounding of sums, as a loss error, beyond which they are summed again in better coordinates
ACCURATE = 2e-11
KAPPA = 50.0  # condition up to which variables need no coordinates, as far as a sample tells
# relative eigenvalue of a Gram matrix below which it cannot tell a direction from zero
BLIND = 1e-13
# relative size of a direction whose coordinates are mostly rounding, which must not spread to
# others
SMALL = 1e-7
GRADED = 1e-4  # and below which separate variables are not made orthogonal to it,
EXPLAINED = 1e-4  # unless it explains all but this part of the square of one
SMALLISH, HALF_EXPLAINED = 1e-2, 0.25  # the same for larger directions that explain less
EXTREME = 1e15  # columns up to this size, and down to its inverse, are multiplied without scaling
# times the typical size of a column: rows beyond it are kept apart, if they are what makes its size
WILD = 2.0**13

# Search (karat.engine.reduce and the modules it calls).
RANK = 1e-13  # singular values of scaled features below this fraction of the largest are zero,
RANK_WHITENED = 1e-11  # and of features of whitened columns, which vanish only up to their rounding
PIVOT = 1e-11  # smallest relative squared Cholesky pivot of independent features
# and down to which single precision, with three digits left, finds directions and a vertex
SINGLE = 1e-4
# relative pivot of QR down to which the features before it are independent beyond doubt
CLEAR = 1e-5
# relative pivot of a Gram matrix from which on it tells a direction from zero, to four digits of
# the square root
SEEN = 1e-10
# part of the terms of a combination, which vanishes on a sample, from which on a row shows it
HIDDEN = 1e-8
# relative part of the target outside the candidates' span beyond which it is not rounding
MISSED = 1e-9
# relative residual of weights that single precision and refinement have found; else double
# precision follows
POLISHED = 1e-14
MET = 1e-9  # relative residual of weights that meet the target; polishing brings it to rounding
DOMINATES = 0.1  # share of a feature's absolute moment from which on a row is kept verbatim
SHARP = 1e-13  # rows with a larger error do not represent those they were made of when a sum starts
# a fold of a stream with a larger error tries whether fresh coordinates do better, while it can
CONTENT = 1e-11
AFFORD = 4.0  # afford it: what reductions have spent of the second term, in units of ROUNDING

# of the claim that certificates make; 2: 0.2.0, whose claim was made row by row
PROOF_VERSION = 3
