"""Plot of the curve from which ``LatentDirichlet(alpha0="auto")`` reads alpha_0."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from karat.errors import InputError
from karat.report.display import CORE, FULL, Display


class Alpha0Display(Display):
    """Plot of the share of the tensor that topics do not explain against alpha_0.

    Parameters
    ----------
    values, residuals : arrays (m,)
    """

    def __init__(self, values: Any, residuals: Any) -> None:
        self.values = np.asarray(values, dtype=float)
        self.residuals = np.asarray(residuals, dtype=float)

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Read the curve of a fitted :class:`karat.models.LatentDirichlet`.

        Parameters
        ----------
        estimator : LatentDirichlet
            Fitted with ``alpha0="auto"``.

        Returns
        -------
        Alpha0Display
        """
        curve = getattr(estimator, "alpha0_curve_", None)
        if curve is None:
            raise InputError('The estimator has no curve; fit LatentDirichlet with alpha0="auto".', argument="estimator")
        return cls(*curve)

    @property
    def best(self) -> float:
        """The value with the smallest residual."""
        return float(self.values[self.residuals.argmin()])

    def plot(self, ax: Any = None) -> Self:
        """Draw the curve and mark its minimum."""
        ax = self._axes(ax)
        ax.plot(self.values, self.residuals, color=FULL, marker="o", markersize=4)
        ax.axvline(self.best, color=CORE, linewidth=1.2, label=f"alpha0 = {self.best:.3g}")
        ax.set(xscale="log", ylim=(0, None), xlabel="alpha0", ylabel="share of the tensor not explained")
        ax.legend(frameon=False)
        return self
