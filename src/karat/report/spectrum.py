"""Plot of the spectrum of second moments, from which the number of components is read."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from karat.errors import InputError
from karat.report.display import CORE, FULL, GUIDE, Display, above_zero

SEEN = 0.02  # share of the largest eigenvalue below which differences are noise


class SpectrumDisplay(Display):
    """Plot of the largest eigenvalues of the second moments; those of the components stand out.

    Parameters
    ----------
    spectrum : array (m,)
        In decreasing order.
    leading : int
        How many of them belong to the components.
    """

    def __init__(self, spectrum: Any, leading: int) -> None:
        self.spectrum = np.asarray(spectrum, dtype=float)
        self.leading = leading

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """Read the spectrum of a fitted latent-variable model.

        Parameters
        ----------
        estimator : karat.models.Learner
            Fitted.  About the mean, k components have k - 1 eigenvalues.

        Returns
        -------
        SpectrumDisplay
        """
        recovery = getattr(estimator, "recovery_", None)
        if recovery is None:
            raise InputError(
                "The estimator has no spectrum; fit a latent-variable model of karat.models.", argument="estimator"
            )
        return cls(recovery.spectrum, recovery.leading)

    @property
    def gap(self) -> int:
        """The number of eigenvalues before the largest ratio of neighbours; those below 2 % of the largest count as noise."""
        values = np.maximum(self.spectrum, SEEN * max(float(self.spectrum[0]), 1e-300))
        return int((values[:-1] / values[1:]).argmax()) + 1 if len(values) > 1 else len(values)

    def plot(self, ax: Any = None) -> Self:
        """Draw the eigenvalues on a logarithmic axis, with those of the components filled."""
        ax = self._axes(ax)
        place, size = np.arange(1, len(self.spectrum) + 1), above_zero(self.spectrum)
        ax.plot(place, size, color=GUIDE, linewidth=1.0, zorder=1)
        own, rest = slice(0, self.leading), slice(self.leading, None)
        ax.scatter(place[own], size[own], color=CORE, zorder=2, label=f"{self.leading} of the components")
        if self.leading < len(place):
            ax.scatter(place[rest], size[rest], facecolor="none", edgecolor=FULL, zorder=2, label="the next")
        ax.set(yscale="log", xlabel="eigenvalue", ylabel="size", xticks=place[:: max(1, len(place) // 10)])
        ax.legend(frameon=False)
        return self
