"""A projection of the data and of the kept rows to two dimensions.

The plane is spanned by the first two principal components of the standardised columns: with z = (row - mean) / deviation and
the singular value decomposition Z = U S V', the coordinates of a row are the first two of z V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from karat._core.coreset import Coreset
from karat.engine.linalg import Array
from karat.report.data import SAMPLE, kept_block, open_data
from karat.report.display import CORE, FULL, Display


@dataclass(frozen=True)
class Plane:
    """A map from rows to two coordinates.

    Attributes
    ----------
    mean, scale : arrays (d,)
    axes : array (d, 2)
        Orthonormal columns; the second is zero if the rows are on a line.
    share : array (2,)
        The share of the variance of the scaled columns along each axis.
    """

    mean: Array
    scale: Array
    axes: Array
    share: Array

    @staticmethod
    def fit(rows: Array, weights: Array | None = None) -> Plane:
        """Fit the plane to weighted rows."""
        mean = np.average(rows, axis=0, weights=weights)
        centred = rows - mean
        deviation = np.sqrt(np.average(np.square(centred), axis=0, weights=weights))
        constant = deviation <= 1e-12 * np.maximum(np.abs(mean), np.abs(centred).max(axis=0, initial=0.0))
        scale = np.where(constant, 1.0, deviation)
        scaled = np.where(constant, 0.0, centred / scale)
        root = np.sqrt((np.ones(len(rows)) if weights is None else weights)[:, None])
        _, s, v = np.linalg.svd(root * scaled, full_matrices=False)
        axes, share = np.zeros((rows.shape[1], 2)), np.zeros(2)
        found = min(2, int((s > 1e-12 * max(s[:1], default=0.0)).sum()))
        axes[:, :found] = v[:found].T
        axes *= np.where(axes.sum(axis=0) < 0, -1.0, 1.0)  # singular vectors have no sign; this choice is stable
        share[:found] = s[:found] ** 2 / max(float(np.square(s).sum()), 1e-300)
        return Plane(mean, scale, axes, share)

    def __call__(self, rows: Array) -> Array:
        """Project rows (n, d) to coordinates (n, 2)."""
        return np.asarray((rows - self.mean) / self.scale @ self.axes)


class ProjectionDisplay(Display):
    """Plot of the kept rows over the data, in the plane of two principal components.

    Parameters
    ----------
    background : array (s, 2) or None
        A sample of the data.
    kept : array (k, 2)
    weights : array (k,)
        Weights, drawn as the areas of the marks.
    share : array (2,)
        Share of the variance along each axis.
    """

    def __init__(self, background: Any, kept: Any, weights: Any, share: Any) -> None:
        self.background = None if background is None else np.asarray(background, dtype=float)
        self.kept, self.weights, self.share = (np.asarray(v, dtype=float) for v in (kept, weights, share))

    @classmethod
    def from_coreset(
        cls, core: Coreset, X: Any = None, y: Any = None, *, lengths: Any = None, sample: int = SAMPLE, random_state: int = 0
    ) -> Self:
        """Project a coreset and a sample of its data; without X, the kept rows alone.

        Parameters
        ----------
        core : Coreset
        X, y
            The full data, of which ``sample`` rows are drawn.
        lengths : array of int, optional
            Lengths of sequences, for sequence models.
        sample : int
            Number of rows in the background.
        random_state : int
            Seed of the sample.

        Returns
        -------
        ProjectionDisplay
        """
        kept = kept_block(core)
        rows = None if X is None else open_data(core, (X, y), lengths=lengths, size=sample, seed=random_state).sample()
        plane = Plane.fit(kept, core.weights) if rows is None else Plane.fit(rows)
        return cls(None if rows is None else plane(rows), plane(kept), core.weights, plane.share)

    def plot(self, ax: Any = None) -> Self:
        """Draw the sample as dots and the kept rows as rings with areas proportional to the weights."""
        ax = self._axes(ax, (5.6, 4.6))
        if self.background is not None:
            ax.scatter(
                *self.background.T, s=6, color=FULL, alpha=0.35, linewidths=0, rasterized=True,
                label=f"{len(self.background):,} rows of the data",
            )  # fmt: skip
        area = 14 + 110 * self.weights / self.weights.max()
        ax.scatter(
            *self.kept.T,
            s=area,
            facecolor=CORE + "55",
            edgecolor="#5a3c00",
            linewidths=0.9,
            label=f"{len(self.kept):,} kept rows",
        )
        for name, set_label, share in zip(("first", "second"), (ax.set_xlabel, ax.set_ylabel), self.share, strict=True):
            set_label(f"{name} principal component ({share:.0%} of the variance)")
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.1), ncols=2, borderaxespad=0, handletextpad=0.3)
        return self
