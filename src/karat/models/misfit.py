"""Do the data look like the model?  Statistics whose law is known if they do, so that false alarms
are rare.

Every learner compares moments that the model fixes with what sampling noise allows, on at most
PROBE samples: a deviation that cannot be seen among so many is too small to matter.  The checks:

    tensor     the whitened tensor of a model is diagonal in the right basis.  With v_j that basis
               and ell_j the diagonal,
                   s_ij = ell_j T_iij + ell_i T_ijj  (i < j)    and    T_ijl  (i < j < l)
               vanish.  They do not change, to first order, with errors of the basis; the error of
               the whitening is taken off: if M'M2M = I + D for the samples at hand, T_iij changes
               by -ell_i D_ij / 2 (:func:`off_diagonal`).
    rank       products of two views (of two words) have rank k: what remains beyond is noise.  The
               remainder is found in one half of the samples and tested in the other
               (:func:`remainder`).
    quadruples the fourth moments of a document's proportions are those of the model
    (:mod:`karat.models.quadruples`).
    equal      the smallest eigenvalues of the covariance of a spherical mixture are equal
               (:func:`sphericity`).
    round      the directions P(x - m) / |P(x - m)| of a spherical mixture are uniform, whatever its
               variances (:func:`directions`).
    tails      q = |P(x - m)|^2 / p has the fourth moments of p Gaussians (:func:`gaussian_tails`).
    fourth     the fourth moments of a mixture along its components are those that the lower ones
               give (:mod:`karat.models.fourth`).

A check fails if its p-value is below LEVEL.  Where the model fixes nothing that could be compared,
there is no p-value: the check says "not tested" and why.  Samples that follow each other in a chain
are compared by the means of blocks.

That the data show fewer parts than were asked for is no misfit: such a check (``Check.shortage``)
fails if k - 1 parts are *not* refuted, at SEEN standard errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats
from scipy.sparse import csr_array

from karat.engine.linalg import Array, Indices
from karat.problems.latent.sample import Sample
from karat.problems.latent.whiten import orthogonal_part

# p-value below which a check fails: with at most six checks, fewer than 1 false alarm in 100 fits
LEVEL = 1e-3
PROBE = 20_000  # samples that are looked at
SMALLEST = 1e-16  # p-values below it are not told apart: their laws hold for large samples only
SEEN = 3.0  # standard errors of a part that is seen
ROUNDING = 1e-9  # of a sum, relative to its terms
BLOCKS = 100  # blocks of a chain
JACKKNIFE = 50  # blocks of samples of which each is left out once
ALIKE = 1e-6  # variance, relative to the largest, of a direction in which nothing is compared
FEW_WORDS = 200  # words of which all pairs are listed
NOTHING_OFF_DIAGONAL = "two components always have a diagonal tensor"


@dataclass(frozen=True)
class Check:
    """One comparison of the data with the model.

    Attributes
    ----------
    name : str
    p_value : float or None
        Probability of a deviation this large if the data follow the model; for a shortage, if they
        follow the model with one part fewer.  None: not tested.
    says : str
        What a failure means; of a check that was not tested, why not.
    shortage : bool
        Whether a failure means that the data are too few for so many parts, not that they are of
        another model.
    """

    name: str
    p_value: float | None
    says: str
    shortage: bool = False

    @property
    def tested(self) -> bool:
        """Whether there was anything to compare."""
        return self.p_value is not None

    @property
    def ok(self) -> bool:
        """Whether the check speaks against nothing; also if it was not tested."""
        if self.p_value is None:
            return True
        return self.p_value < beyond(SEEN) if self.shortage else self.p_value >= LEVEL

    @property
    def result(self) -> str:
        """The p-value, or that there is none, in words."""
        if self.p_value is None:
            return f"not tested ({self.says})"
        if self.p_value < SMALLEST:
            return f"p < {SMALLEST:.0e}"
        return f"p = {self.p_value:.1e}"

    def __str__(self) -> str:
        return f"{self.says} ({self.result})" if self.tested else f"{self.name}: {self.result}"


def compared(name: str, p_value: float | None, says: str, why: str) -> Check:
    """A check with its p-value, or, if there is none, why it was not tested."""
    return Check(name, p_value, says if p_value is not None else why)


def probe(sample: Sample, chain: bool = False) -> Indices:
    """Some of the samples: evenly spaced, by their weights if they have any; of a chain, BLOCKS
    blocks of neighbours.
    """
    n = len(sample)
    if sample.weights is not None and not chain:
        # Accepted in proportion to their weights, and none twice: copies would look like evidence.
        chance = sample.weights / sample.weights.max()
        taken = np.flatnonzero(np.random.default_rng(0).random(n) < chance)
        return taken[np.linspace(0, len(taken) - 1, min(PROBE, len(taken))).astype(np.int64)]
    if n <= PROBE:
        return np.arange(n)
    if not chain:
        return np.linspace(0, n - 1, PROBE).astype(np.int64)
    starts = np.linspace(0, n - PROBE // BLOCKS, BLOCKS).astype(np.int64)
    return np.asarray((starts[:, None] + np.arange(PROBE // BLOCKS)).ravel())


def block_means(values: Array) -> Array:
    """Means of BLOCKS blocks of neighbouring rows."""
    size = len(values) // BLOCKS
    return values[: size * BLOCKS].reshape(BLOCKS, size, -1).mean(axis=1) if size > 1 else values


def wald(values: Array) -> float | None:
    """The p-value of "all columns have mean zero" (Hotelling's T^2); None if none of them varies or
    the rows are too few.
    """
    if len(values) < 2:
        return None
    n, values = len(values), of_unit_size(values)
    mean = values.mean(axis=0)
    apart = values - mean
    distance, m = squared_distance(mean, apart.T @ apart / (n - 1))
    return hotelling(n * distance, m, n) if m and n > m + 10 else None


def squared_distance(mean: Array, covariance: Array) -> tuple[float, int]:
    """Of a mean from zero, in units of a covariance; and in how many directions, those of no
    variance left out.
    """
    variances, vectors = np.linalg.eigh(covariance)
    used = variances > 1e-10 * max(float(variances[-1:].sum()), 1e-300)
    return float((np.square(vectors[:, used].T @ mean) / variances[used]).sum()), int(used.sum())


def hotelling(distance: float, m: int, n: int) -> float:
    """The p-value of a squared distance in m directions, if the covariance is that of n samples."""
    return float(stats.f.sf(distance * (n - m) / (m * (n - 1)), m, n - m))


def jackknife_p_value(measured: Array, left_out: Array) -> float | None:
    """The p-value of "these numbers have mean zero", from their values without each block of the
    samples in turn.
    """
    blocks = len(left_out)
    apart = left_out - left_out.mean(axis=0)
    noise = (blocks - 1) / blocks * apart.T @ apart
    size = np.sqrt(np.diag(noise))
    if not np.isfinite(noise).all() or not np.isfinite(measured).all():
        return None
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(noise / np.outer(size, size))
    used = values > ALIKE * values[-1]
    m = int(used.sum())
    if not values[-1] > 0 or blocks < m + 10:
        return None
    distance = float((np.square(vectors[:, used].T @ (measured / size)) / values[used]).sum())
    return hotelling(distance, m, blocks)


def orthonormal(V: Array) -> Array:
    """The nearest orthonormal rows."""
    u, _, vt = np.linalg.svd(V)
    return np.asarray(u @ vt)


def triple(a: Array, b: Array, c: Array) -> Callable[[int, int, int], Array]:
    """Entries of the symmetric part of ``a (x) b (x) c``, for every sample."""

    def entry(i: int, j: int, l: int) -> Array:  # noqa: E741
        if a is b:
            return np.asarray(a[:, i] * a[:, j] * a[:, l])
        orders = ((i, j, l), (i, l, j), (j, i, l), (j, l, i), (l, i, j), (l, j, i))
        return np.asarray(sum(a[:, x] * b[:, y] * c[:, z] for x, y, z in orders) / 6.0)

    return entry


def off_diagonal(
    entry: Callable[[int, int, int], Array], pair: Callable[[int, int], Array], ell: Array
) -> Array:
    """What a diagonal tensor does not have, sample by sample.

    Parameters
    ----------
    entry : callable
        Entries (i, j, l) of every sample's part in the tensor, in the basis of its components.
    pair : callable
        Entries (i, j), i != j, of every sample's part in M'M2M.
    ell : array
        The diagonal.
    """
    k, columns = len(ell), []
    for i, j in combinations(range(k), 2):
        parts = ell[j] * entry(i, i, j), ell[i] * entry(i, j, j), -ell[i] * ell[j] * pair(i, j)
        total = np.asarray(parts[0] + parts[1] + parts[2])
        # two components: always zero
        rounding = ROUNDING * max(float(np.abs(part).max(initial=0.0)) for part in parts)
        columns.append(total if np.abs(total).max(initial=0.0) > rounding else np.zeros(len(total)))
    columns += [entry(i, j, m) for i, j, m in combinations(range(k), 3)]
    return np.column_stack(columns) if columns else np.zeros((0, 0))


def view_products(views: list[Array], V: Array, ell: Array) -> Array:
    """What the tensor of three whitened views does not have, sample by sample."""
    a, b, c = (view @ V.T for view in views)

    def pair(i: int, j: int) -> Array:
        return np.asarray(
            sum(x[:, i] * y[:, j] + x[:, j] * y[:, i] for x, y in ((a, b), (a, c), (b, c))) / 6.0
        )

    return off_diagonal(triple(a, b, c), pair, ell)


def sphericity(
    second: float, mean: float, count: int, n: float, inflation: float = 1.0
) -> float | None:
    """The p-value of "``count`` eigenvalues with this sum of squares and mean are equal" (John
    1972, Ledoit and Wolf 2002).

    ``inflation``: how much larger fourth moments are than those of one Gaussian.
    """
    # nothing to compare, or out of range
    if count < 2 or not second < np.finfo(float).max or not mean * mean > 0:
        return None
    unequal = max(second / (count * mean**2) - 1.0, 0.0)
    n = min(n, PROBE)
    # n p U / 2 is about chi-squared for few eigenvalues, and n U - p about N(1, 4) for many: nearly
    # the same moments
    freedom = count * (count + 1) / 2 - 1
    return float(stats.chi2.sf(n * count * unequal / 2 / inflation, freedom))


def gaussian_tails(q: Array, count: int) -> float:
    """The p-value of "q, of mean 1, is the mean of ``count`` squares of Gaussians", by its
    variance.
    """
    q = q / q.mean()
    excess = float(np.mean(np.square(q - 1.0))) - 2.0 / count
    noise = np.sqrt((8.0 / count**2 + 48.0 / count**3) / len(q))
    # 1.2: the law has heavier tails than a Gaussian
    return float(2 * stats.norm.sf(abs(excess) / noise / 1.2))


def directions(rows: Array, top: Array) -> float | None:
    """The p-value of "the parts of the rows across ``top`` point in uniform directions", by third
    and fourth powers.
    """
    across = rows - (rows @ top) @ top.T
    count = rows.shape[1] - top.shape[1]
    size = np.linalg.norm(across, axis=1)
    if count < 2 or not size.all():
        return None
    unit = across / size[:, None]
    shares = 1.0 - np.square(top).sum(axis=1)  # diagonal of the projection
    fourth = 3.0 * float(np.square(shares).sum()) / (count * (count + 2))
    squares = unit * unit
    cubes, fourths = (
        np.einsum("ij,ij->i", squares, unit),
        np.einsum("ij,ij->i", squares, squares) - fourth,
    )
    return wald(np.column_stack([cubes, fourths]))


def constant_columns(rows: Array, samples: int) -> list[Check]:
    """A failed check if columns do not vary in these rows of so many: spherical components have
    noise in every column.
    """
    constant = np.flatnonzero((rows == rows[0]).all(axis=0)).tolist()
    if not constant:
        return []
    named = (
        f"column {constant[0]} is"
        if len(constant) == 1
        else f"columns {', '.join(map(str, constant[:5]))}{' ..' * (len(constant) > 5)} are"
    ) + " nearly" * (len(rows) < samples)
    return [
        Check(
            "constant columns",
            0.0,  # noise that is constant has probability zero
            f"{named} constant, but spherical noise is in every column; drop such columns",
        )
    ]


def remainder(left: Array, right: Array, rank: int) -> float:
    """How many standard errors the part of ``left' right`` beyond its rank has.

    The remainder R comes from one half of the samples, ``l'R r`` is averaged over the other, and
    the halves change places. What the error of the last direction within the rank may leave over,
    if it is tau standard errors long, is taken off.
    """
    n = len(left)
    u, _, vt = np.linalg.svd(left.T @ right / n)
    left_over = 0.0
    if rank:
        tau = _mean_in_standard_errors((left @ u[:, rank - 1]) * (right @ vt[rank - 1]))
        left_over = 3.0 * np.sqrt((left.shape[1] - rank) * (right.shape[1] - rank)) / max(tau, 1e-3)
    left, right = (
        part - (part @ w) @ w.T for part, w in ((left, u[:, :rank]), (right, vt[:rank].T))
    )
    errors = []
    halves = (np.arange(n) < n // 2), (np.arange(n) >= n // 2)
    for find, test in (halves, halves[::-1]):
        beyond_rank = left[find].T @ right[find]
        errors.append(
            _mean_in_standard_errors(np.einsum("ij,ij->i", left[test] @ beyond_rank, right[test]))
        )
    return float(sum(errors) / np.sqrt(2.0)) - left_over


def of_unit_size(table: Array) -> Array:
    """Columns of mean square 1, so that their units do not matter; zero if they do not vary, as one
    that varies elsewhere only, less its mean there, or up to rounding.
    """
    size = np.sqrt(np.mean(np.square(table), axis=0))
    varies = (table != table[:1]).any(axis=0)
    return np.where(varies, table / np.where(varies, size, 1.0), 0.0)


def _mean_in_standard_errors(values: Array) -> float:
    """The mean, in standard errors."""
    return float(values.mean() / max(float(values.std()) / np.sqrt(len(values)), 1e-300))


def word_remainder(counts: csr_array, topics: Array) -> float:
    """How many standard errors the part of the word pairs across some topics has, where it is
    largest; as :func:`remainder`.
    """
    n, d = counts.shape
    if topics.shape[1] >= d:  # as many topics as words explain every pair
        return -np.inf
    length = np.asarray(counts.sum(axis=1)).ravel()
    share = 1.0 / (length * (length - 1))
    basis = np.linalg.qr(topics)[0]
    errors = []
    for find, test in ((slice(n // 2), slice(n // 2, n)), (slice(n // 2, n), slice(n // 2))):
        best, other = _largest_pair(counts[find], share[find], basis), counts[test]
        pairs = (np.square(other @ best) - other @ np.square(best)) * share[test]
        errors.append(_mean_in_standard_errors(pairs))
    return float(sum(errors) / np.sqrt(2.0))


def _largest_pair(counts: csr_array, share: Array, basis: Array) -> Array:
    """The direction across ``basis`` in which the matrix of word pairs is largest."""
    d, words = counts.shape[1], counts.T @ share
    weighted = counts.multiply(share[:, None]).tocsr()

    def times_pairs(vectors: Array) -> Array:
        return np.asarray(counts.T @ (weighted @ vectors) - words[:, None] * vectors)

    if d <= FEW_WORDS:
        pairs = orthogonal_part(
            orthogonal_part((counts.T @ weighted).toarray() - np.diag(words), basis).T, basis
        )
        shifted = pairs - np.abs(pairs).sum() * basis @ basis.T  # the basis comes last
        return np.asarray(np.linalg.eigh((shifted + shifted.T) / 2)[1][:, -1])
    vectors = np.linalg.qr(
        orthogonal_part(np.random.default_rng(0).standard_normal((d, 8)), basis)
    )[0]
    # subspace iteration; the shift makes the largest eigenvalue the largest in size
    for _ in range(30):
        vectors = np.linalg.qr(
            orthogonal_part(times_pairs(vectors) + words.max() * vectors, basis)
        )[0]
    small = vectors.T @ times_pairs(vectors)
    return np.asarray(vectors @ np.linalg.eigh((small + small.T) / 2)[1][:, -1])


def beyond(errors: float) -> float:
    """The p-value of a remainder."""
    return float(stats.norm.sf(errors))
