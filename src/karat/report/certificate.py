"""A plot of the certificate: moments of the coreset against those of the full data, and their differences."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from karat._core.coreset import Coreset
from karat._core.wording import PAGE
from karat.errors import InputError
from karat.report.data import open_data
from karat.report.display import CORE, GUIDE, SEEN, Display, above_zero, strip_below
from karat.report.moments import thinned


class CertificateDisplay(Display):
    """Plot of every moment that the problem keeps, of the coreset against the full data, and of the differences.

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
        cls, core: Coreset, X: Any, y: Any = None, *, sample_weight: Any = None, groups: Any = None, lengths: Any = None
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
        found = data.moments()
        if found is None:
            raise InputError(
                "The regulariser has absorbed a part of this coreset's data, so its rows alone do not have the moments of the "
                "data; core.verify measures rows and correction together."
            )
        fresh = data.verify()
        return cls(found.full, found.kept, fresh["loss_error"], fresh["tolerance"])

    def plot(self, ax: Any = None) -> Self:
        """Draw the moments and, below in ``difference_ax_``, the absolute differences."""
        ax = self._axes(ax, (5.6, 5.4))
        shown = thinned(self.kept - self.full, SEEN)
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
            f"tolerance {PAGE.error(self.tolerance)}", (0.0, self.tolerance), xycoords=("axes fraction", "data"), xytext=(4, 3),
            textcoords="offset points", fontsize="small", color="#666666",
        )  # fmt: skip
        below.set(yscale="log", xlabel="moment of the full data", ylabel="difference")
        below.set_ylim(1e-17, max(10 * self.tolerance, 10 * np.abs(kept - full).max()))
        ax.set_title(
            f"{len(self.full):,} moments; worst loss error over every query {PAGE.error(self.loss_error)}",
            loc="left", fontsize="medium",
        )  # fmt: skip
        return self
