"""Every tolerance of the engine, with its derivation.  EPS is the spacing of doubles at 1, u = EPS / 2 their rounding.

**What is claimed** (the two terms of every certificate).  For every query q that the problem serves,

    |f_c(q) - f(q)|  <=  loss_error * sum_i u_i |f_i(q)|  +  rounding * R(q),

where R(q) is what rounding does to f(q) on the full data, evaluated in double precision:

    powers of one linear form    R(q) = p sum_i u_i |d_i.z|^(p-1) sum_j |z_j d_ij|      (residual first, then the power)
    sums of features             R(q) = sum_t |h_t| sum_i u_i |phi_t(i)|                (d and phi of shifted columns)

``rounding`` is ROUNDING.  A coreset of coresets inherits the claims of its parts, and their terms add up: every reduction
spends UNSEEN, for what its sums are rounded by, and the remainder that it measured.  Only if that exceeds ROUNDING, as after a
dozen merges, ``rounding`` is more.  The loss error of a part is inherited in full, but for the rounding of coordinates that
lies within R(q) (``Proof.covered``): that is in the first term only to be seen, and the second term has it.  To verify a claim
is to measure within its whole second term, less UNSEEN for the sums of the one who verifies.

**Why 64 EPS.**  The proof compares sums that are themselves rounded.  A feature of degree p is p products and one shift, each
off by u: at most (p + 1) EPS for both sums together, 7 EPS for p = 6.  A block of 1024 rows is summed by BLAS in 8 or more
running sums, blocks are added pairwise: off by about 5 EPS of the sum of absolute values where rounding is random, 20 EPS at
worst seen.  The remainder that a proof may leave per feature, MEASURED, is what is left of the 64.

**Tolerance.**  A query along a direction of relative size 1/kappa has a loss that one ulp of the data moves by about
p EPS kappa.  A hundred times that still counts as exact, but never more than 1e-8; less than 1e-10 always does.  It is kappa,
not kappa^p: residuals are computed before they are raised to the power.  Sums of features have no kappa at all, since the
second term already says what rounding does to them.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(float).eps)
TINY = float(np.finfo(float).tiny)

# The proof (karat.engine.proof).  None of these decides how a coreset is made.
ROUNDING = 64 * EPS
MEASURED = 24 * EPS
UNSEEN = 8 * EPS
EXACT, LOOSEST = 1e-10, 1e-8
RESOLVED = 1e-7  # relative size below which doubles hold so few digits of a direction that only the second term covers it
CENTRED = 0.1  # distance of a shift from the mean, in units of the mean absolute value, within which it counts as the mean
FLOOR_SHARES = (0.1, 0.5, 0.9)  # of Jensen's lower bound in the denominator of an even power: any is valid, the best is taken

# Coordinates (karat.engine.coordinates, karat.engine.dropped).
NULL = 16 * EPS  # per variable: a combination of columns this small beside its terms is their rounding
ROWWISE = 32 * EPS  # in a single row, more than this beside its terms is not rounding,
SHOWN = 0.05  # and a direction is real if such rows add more than this share of the second term
KAPPA = 50.0  # condition up to which a second-moment matrix sums accurately (kappa^2 EPS < 1e-12)
BLIND = 1e-13  # relative eigenvalue of a Gram matrix below which it cannot tell a direction from zero
NOTHING = 16 * EPS  # share of a term in a direction below which it is rounding of zero
SMALL = 1e-7  # relative size of a direction whose coordinates are mostly rounding, which must not spread to others
GRADED = 1e-4  # and below which separate variables are made orthogonal to it only if it explains
LITTLE = 0.25  # more than this share of what is left of them
EXTREME = 1e15  # columns up to this size, and down to its inverse, are multiplied without scaling

# Search (karat.engine.reduce and the modules it calls).
RANK = 1e-13  # singular values of scaled features below this fraction of the largest are zero,
RANK_WHITENED = 1e-11  # and of features of whitened columns, which vanish only up to their rounding
PIVOT = 1e-11  # smallest relative squared Cholesky pivot of independent features
SINGLE = 1e-4  # and down to which single precision, with three digits left, finds directions and a vertex
CLEAR = 1e-5  # relative pivot of QR down to which the features before it are independent beyond doubt
SEEN = 1e-10  # relative pivot of a Gram matrix from which on it tells a direction from zero, to four digits of the square root
HIDDEN = 1e-8  # part of the terms of a combination, which vanishes on a sample, from which on a row shows it
MISSED = 1e-9  # relative part of the target outside the candidates' span beyond which it is not rounding
POLISHED = 1e-14  # relative residual of weights that single precision and refinement have found; else double precision follows
MET = 1e-9  # relative residual of weights that meet the target; polishing brings it to rounding
DOMINATES = 0.1  # share of a feature's absolute moment from which on a row is kept verbatim
SHARP = 1e-13  # rows with a larger error do not represent those they were made of when a sum starts
CONTENT = 1e-11  # a fold of a stream with a larger error tries whether fresh coordinates do better, while ROUNDING has room
