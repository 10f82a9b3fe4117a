"""Latent-variable problems, in small number: class L, over the entries of a tensor in coordinates
that the coreset stores.

With the maps of the full data fixed, a sample's statistic is a polynomial of ``z = M'x``.  The
oracle takes M, as stored, for exact, and forms in extended precision

    GaussianMixture  z_i z_j z_k - s^2 (z_i G_jk + z_j G_ik + z_k G_ij), G = M'M, z = M'(x-m), 1
    ICA              z_i z_j z_k z_l  and  z_i z_j,   z = M'(x - mean)
    SingleTopic      (z_i z_j z_k - (z_i S_jk + z_j S_ik + z_k S_ij) + 2 R_ijk) / (l (l-1) (l-2))

and 1, with S and R sums over words.  R(q) allows for the rounding of z: its sizes are those of
``|M|'|x|``.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import numpy as np

from .arithmetic import columns, dense, wide

NAMES = ("GaussianMixture", "ICA", "SingleTopic")


class Tensor:
    """Features of latent problems, given the stored maps."""

    def __init__(self, name: str, maps: dict[str, np.ndarray]) -> None:
        self.name, self.M = name, np.asarray(maps["M"]).astype(wide)
        self.mean = (
            np.asarray(maps["mean"]).astype(wide)
            if "mean" in maps
            else np.zeros(len(self.M), dtype=wide)
        )
        self.constant = int(name == "GaussianMixture" and "mean" in maps)
        self.size = self.M.shape[1] + self.constant  # coordinates
        self.sigma2 = wide(float(maps["sigma2"])) if name == "GaussianMixture" else wide(0)
        self.order = 4 if name == "ICA" else 3
        self.sets = list(combinations_with_replacement(range(self.size), self.order))

    def __call__(self, table) -> np.ndarray:
        return self._entries(columns(table) - self.mean[:, None], self.M, 1)

    def absolute(self, table) -> np.ndarray:
        return self._entries(np.abs(columns(table) - self.mean[:, None]), np.abs(self.M), -1)

    def plain(self, table) -> np.ndarray:
        return self(table).astype(float)

    def _entries(self, x: np.ndarray, M: np.ndarray, sign: int) -> np.ndarray:
        """The statistics; with ``sign = -1`` everything is added, for sums of absolute values."""
        z = np.array([(m[:, None] * x).sum(axis=0) for m in M.T])
        one = np.ones((1, x.shape[1]), dtype=wide)
        z = np.vstack([z.reshape(-1, x.shape[1]), one]) if self.constant else z
        if self.name == "ICA":
            pairs = [z[i] * z[j] for i, j in combinations_with_replacement(range(len(z)), 2)]
            return np.vstack([[z[i] * z[j] * z[k] * z[m] for i, j, k, m in self.sets], pairs, one])
        if self.name == "GaussianMixture":
            G = np.pad(M.T @ M * self.sigma2, (0, self.constant))
            rows = [
                z[i] * z[j] * z[k] - sign * (z[i] * G[j, k] + z[j] * G[i, k] + z[k] * G[i, j])
                for i, j, k in self.sets
            ]
            return np.vstack([rows, one])
        size = x.sum(axis=0)
        rows = []
        for i, j, k in self.sets:
            S = {
                pair: ((M[:, pair[0]] * M[:, pair[1]])[:, None] * x).sum(axis=0)
                for pair in ((i, j), (i, k), (j, k))
            }
            R = ((M[:, i] * M[:, j] * M[:, k])[:, None] * x).sum(axis=0)
            cube = (
                z[i] * z[j] * z[k]
                - sign * (z[i] * S[j, k] + z[j] * S[i, k] + z[k] * S[i, j])
                + 2 * R
            )
            rows.append(cube / (size * (size - 1) * (size - 2)))
        return np.vstack([rows, one])

    def queries(self, rng: np.random.Generator) -> list[np.ndarray]:
        return []

    def contraction(self, table, w: np.ndarray, q: np.ndarray) -> tuple[float, float]:
        """``sum_i w_i t_i(q, .., q)``, and the sum of absolute values of its terms."""
        counts = [len(set(permutations(chosen))) for chosen in self.sets]
        h = np.array(
            [c * np.prod(q[list(chosen)]) for c, chosen in zip(counts, self.sets, strict=True)],
            dtype=wide,
        )
        phi = self(table)[: len(h)]
        return float((h[:, None] * phi * w).sum()), float(
            np.abs(h[:, None] * self.absolute(table)[: len(h)] * w).sum()
        )


def check_loss(core, features: Tensor, table, u: np.ndarray) -> str:
    """``core.loss`` against the full data's contraction at a few vectors."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        q = rng.standard_normal(features.size)
        value, size = features.contraction(table, u, q)
        seen = core.loss(q)
        if not abs(seen - value) <= 1e-8 * size:
            return f"core.loss is {seen:.17g}, not {value:.17g}"
    return ""


def supports(table, u: np.ndarray, k: int) -> bool:
    """Whether the k-th principal variance is far from rounding, so that a refusal would be a
    shame.
    """
    X = dense(table).astype(float)
    share = (u / u.sum()).astype(float)
    values = np.linalg.eigvalsh(np.cov(X.T, aweights=share).reshape(X.shape[1], -1))
    return bool(values[-k] > 1e-8 * values[-1])
