"""Plots of one coreset: its weights, its rows over those of the data, and its moments against those
of the data.

The plane of the rows is spanned by the first two principal components of the standardised columns:
with z = (row - mean) / deviation and the singular value decomposition Z = U S V', the coordinates
of a row are the first two of z V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from karat.core.coreset import Coreset
from karat.core.export import weight_facts
from karat.core.wording import PAGE
from karat.engine.linalg import Array
from karat.errors import InputError
from karat.report.data import SAMPLE, kept_block, open_data
from karat.report.display import CORE, FULL, GUIDE, MOST_POINTS, Display, above_zero, strip_below
from karat.report.moments import thinned

BINS = 30


def weight_bins(weights: Array) -> tuple[Array, Array]:
    """Bin the weights: edges with equal steps of the logarithm, and counts."""
    low, high, bins = float(weights.min()), float(weights.max()), BINS
    if high <= low * (1 + 1e-9):  # all equal: one bin around them
        low, high, bins = low / 2, high * 2, 1
    edges = np.geomspace(low, high, min(bins, max(1, 2 * len(weights))) + 1)
    edges[[0, -1]] = low, high
    return edges, np.histogram(weights, edges)[0]


class WeightsDisplay(Display):
    """Histogram of the weights, on a logarithmic axis.

    Parameters
    ----------
    weights : array (k,)
        Positive weights.
    """

    def __init__(self, weights: Any) -> None:
        self.weights = np.asarray(weights, dtype=float)

    @classmethod
    def from_coreset(cls, core: Coreset) -> Self:
        """Take the weights of a coreset."""
        return cls(core.weights)

    def plot(self, ax: Any = None) -> Self:
        """Draw the histogram and the median."""
        ax = self._axes(ax, (5.6, 3.4))
        edges, counts = weight_bins(self.weights)
        facts = weight_facts(self.weights)
        ax.bar(
            edges[:-1],
            counts,
            np.diff(edges),
            align="edge",
            color=CORE,
            edgecolor="white",
            linewidth=0.8,
        )
        ax.axvline(facts["median"], color=GUIDE, linewidth=1.2, linestyle=(0, (4, 3)))
        ax.annotate(
            f" median {PAGE.number(facts['median'], 3)}",
            (facts["median"], 1.0),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize="small",
            color="#666666",
        )
        ax.set(xscale="log", xlabel="weight of a row", ylabel="rows")
        ax.set_title(
            f"{PAGE.count(len(self.weights))} weights, effective sample size"
            f" {PAGE.number(facts['effective'], 3)}",
            loc="left",
            fontsize="medium",
        )
        ax.yaxis.get_major_locator().set_params(integer=True)
        return self


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
        constant = deviation <= 1e-12 * np.maximum(
            np.abs(mean), np.abs(centred).max(axis=0, initial=0.0)
        )
        scale = np.where(constant, 1.0, deviation)
        scaled = np.where(constant, 0.0, centred / scale)
        root = np.sqrt((np.ones(len(rows)) if weights is None else weights)[:, None])
        _, s, v = np.linalg.svd(root * scaled, full_matrices=False)
        axes, share = np.zeros((rows.shape[1], 2)), np.zeros(2)
        rank = min(2, int((s > 1e-12 * max(s[:1], default=0.0)).sum()))
        axes[:, :rank] = v[:rank].T
        # singular vectors have no sign; this choice is stable
        axes *= np.where(axes.sum(axis=0) < 0, -1.0, 1.0)
        share[:rank] = s[:rank] ** 2 / max(float(np.square(s).sum()), 1e-300)
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
        self.kept, self.weights, self.share = (
            np.asarray(v, dtype=float) for v in (kept, weights, share)
        )

    @classmethod
    def from_coreset(
        cls,
        core: Coreset,
        X: Any = None,
        y: Any = None,
        *,
        lengths: Any = None,
        sample: int = SAMPLE,
        random_state: int = 0,
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
        rows = (
            None
            if X is None
            else open_data(core, (X, y), lengths=lengths, size=sample, seed=random_state).sample()
        )
        plane = Plane.fit(kept, core.weights) if rows is None else Plane.fit(rows)
        return cls(None if rows is None else plane(rows), plane(kept), core.weights, plane.share)

    def plot(self, ax: Any = None) -> Self:
        """Draw the sample as dots and the kept rows as rings with areas proportional to the
        weights.
        """
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
        for name, set_label, share in zip(
            ("first", "second"), (ax.set_xlabel, ax.set_ylabel), self.share, strict=True
        ):
            set_label(f"{name} principal component ({share:.0%} of the variance)")
        ax.legend(
            frameon=False,
            loc="upper left",
            bbox_to_anchor=(0, 1.1),
            ncols=2,
            borderaxespad=0,
            handletextpad=0.3,
        )
        return self


class CertificateDisplay(Display):
    """Plot of every moment that the problem keeps, of the coreset against the full data, and of the
    differences.

    Parameters
    ----------
    full, kept : arrays (m,)
        Moments of all rows and of the coreset, each divided by the root mean square of its feature.
    loss_error, tolerance : float
        Loss error and tolerance of the certificate that was measured on the same data.

    Examples
    --------
    >>> import numpy as np, karat
    >>> from karat.report import CertificateDisplay
    >>> X = np.random.default_rng(0).standard_normal((1000, 3))
    >>> display = CertificateDisplay.from_coreset(karat.coreset(X), X)
    >>> len(display.full), bool(abs(display.kept - display.full).max() < 1e-14)
    (10, True)
    """

    def __init__(self, full: Any, kept: Any, loss_error: float, tolerance: float) -> None:
        self.full, self.kept = np.asarray(full, dtype=float), np.asarray(kept, dtype=float)
        self.loss_error, self.tolerance = loss_error, tolerance

    @classmethod
    def from_coreset(
        cls,
        core: Coreset,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        lengths: Any = None,
    ) -> Self:
        """Measure a coreset on its full data.

        Parameters
        ----------
        core : Coreset
        X, y, sample_weight, groups, lengths
            As in :meth:`karat.Coreset.verify`.

        Returns
        -------
        CertificateDisplay
        """
        data = open_data(core, (X, y), sample_weight=sample_weight, groups=groups, lengths=lengths)
        moments = data.moments()
        if moments is None:
            raise InputError(
                "Use core.verify, which measures rows and correction together: the regulariser has"
                " absorbed a part of this coreset's data, so its rows alone do not have the moments"
                " of the data."
            )
        fresh = data.verify()
        return cls(moments.full, moments.kept, fresh["loss_error"], fresh["tolerance"])

    def plot(self, ax: Any = None) -> Self:
        """Draw the moments and, below in ``difference_ax_``, the absolute differences."""
        ax = self._axes(ax, (5.6, 5.4))
        shown = thinned(self.kept - self.full, MOST_POINTS)
        full, kept = self.full[shown], self.kept[shown]
        ends = min(full.min(), kept.min(), 0.0), max(full.max(), kept.max(), 0.0)
        ax.plot(ends, ends, color=GUIDE, linewidth=1.0, zorder=1)
        mark = {"s": 22, "facecolor": CORE + "66", "edgecolor": "#5a3c00", "linewidths": 0.7}
        ax.scatter(full, kept, **mark)
        ax.set_ylabel("moment of the coreset")
        below = self.difference_ax_ = strip_below(ax)
        below.scatter(full, above_zero(kept - full), **mark)
        below.axhline(self.tolerance, color=GUIDE, linewidth=1.2, linestyle=(0, (4, 3)))
        below.annotate(
            f"tolerance {PAGE.error(self.tolerance)}",
            (0.0, self.tolerance),
            xycoords=("axes fraction", "data"),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize="small",
            color="#666666",
        )
        below.set(yscale="log", xlabel="moment of the full data", ylabel="difference")
        below.set_ylim(1e-17, max(10 * self.tolerance, 10 * np.abs(kept - full).max()))
        ax.set_title(
            f"{len(self.full):,} moments; worst loss error over every query"
            f" {PAGE.error(self.loss_error)}",
            loc="left",
            fontsize="medium",
        )
        return self
