"""Pictures of latent-variable models: how many components there are, which alpha_0 fits, and
estimated against true components.

The order of components is arbitrary, so estimated ones are matched to the true ones by the
assignment with the least sum of squared distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from karat.engine.linalg import Array
from karat.errors import InputError
from karat.report.display import CORE, FULL, GUIDE, MOST_POINTS, OTHER, Display, above_zero

MARKS = (("o", 46), ("x", 26), ("^", 30), ("s", 22), ("v", 30), ("D", 22))
NOISE = 0.02  # share of the largest eigenvalue below which differences are noise


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
                "The estimator has no spectrum; fit a latent-variable model of karat.models.",
                argument="estimator",
            )
        return cls(recovery.spectrum, recovery.leading)

    @property
    def gap(self) -> int:
        """The number of eigenvalues before the largest ratio of neighbours; those below 2 % of the
        largest count as noise.
        """
        values = np.maximum(self.spectrum, NOISE * max(float(self.spectrum[0]), 1e-300))
        return int((values[:-1] / values[1:]).argmax()) + 1 if len(values) > 1 else len(values)

    def plot(self, ax: Any = None) -> Self:
        """Draw the eigenvalues on a logarithmic axis, with those of the components filled."""
        ax = self._axes(ax)
        place, size = np.arange(1, len(self.spectrum) + 1), above_zero(self.spectrum)
        ax.plot(place, size, color=GUIDE, linewidth=1.0, zorder=1)
        leading, rest = slice(0, self.leading), slice(self.leading, None)
        ax.scatter(
            place[leading],
            size[leading],
            color=CORE,
            zorder=2,
            label=f"{self.leading} of the components",
        )
        if self.leading < len(place):
            ax.scatter(
                place[rest],
                size[rest],
                facecolor="none",
                edgecolor=FULL,
                zorder=2,
                label="the next",
            )
        ax.set(
            yscale="log",
            xlabel="eigenvalue",
            ylabel="size",
            xticks=place[:: max(1, len(place) // 10)],
        )
        ax.legend(frameon=False)
        return self


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
            raise InputError(
                'The estimator has no curve; fit LatentDirichlet with alpha0="auto".',
                argument="estimator",
            )
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
        ax.set(
            xscale="log",
            ylim=(0, None),
            xlabel="alpha0",
            ylabel="share of the tensor not explained",
        )
        ax.legend(frameon=False)
        return self


def matched(true: Array, estimated: Array) -> Array:
    """Reorder estimated components (k, d) to match the true ones."""
    from scipy.optimize import linear_sum_assignment  # 0.1 s that only these plots need

    if true.shape != estimated.shape:
        raise InputError(
            f"The true components have shape {true.shape}, the estimated ones {estimated.shape};"
            " they must be equal."
        )
    distance = np.square(true[:, None, :] - estimated[None, :, :]).sum(axis=2)
    return np.asarray(estimated[linear_sum_assignment(distance)[1]])


def relative_error(true: Array, estimated: Array) -> float:
    """Norm of the difference of matched components, relative to that of the true ones."""
    return float(np.linalg.norm(matched(true, estimated) - true) / np.linalg.norm(true))


def _components(values: Any, name: str) -> Array:
    array = np.asarray(values, dtype=float)
    if array.ndim != 2 or not len(array):
        raise InputError(
            f"{name} has shape {array.shape}; components must be an array with one row each."
        )
    return array


class RecoveryDisplay(Display):
    """Plot of estimated against true components.

    Parameters
    ----------
    true : array (k, d)
    estimated : dict of arrays (k, d)
        By name, in the order of the true components.
    """

    def __init__(self, true: Any, estimated: dict[str, Any]) -> None:
        self.true = _components(true, "true")
        self.estimated = {name: _components(values, name) for name, values in estimated.items()}

    @classmethod
    def from_components(cls, true: Any, estimated: dict[str, Any]) -> Self:
        """Match estimated components to the true ones.

        Parameters
        ----------
        true : array (k, d)
            Means of a mixture, word distributions of topics, rows of an emission matrix...
        estimated : dict of arrays (k, d)
            By name, such as ``{"full data": a.means_, "coreset": b.means_}``, in any order of the
            components.

        Returns
        -------
        RecoveryDisplay
        """
        truth = _components(true, "true")
        return cls(
            truth,
            {name: matched(truth, _components(values, name)) for name, values in estimated.items()},
        )

    @property
    def errors(self) -> dict[str, float]:
        """Relative error of each estimate."""
        return {name: relative_error(self.true, values) for name, values in self.estimated.items()}

    def plot(self, ax: Any = None) -> Self:
        """Draw every entry of every component; recovered ones are on the diagonal."""
        ax = self._axes(ax, (5.2, 4.8))
        every = [self.true, *self.estimated.values()]
        ends = min(v.min() for v in every), max(v.max() for v in every)
        ax.plot(ends, ends, color=GUIDE, linewidth=1.0, zorder=1)
        shown = slice(None, None, -(-self.true.size // MOST_POINTS))
        for (name, values), colour, (mark, size) in zip(
            self.estimated.items(), (FULL, CORE, *OTHER), MARKS, strict=False
        ):
            look = {"color": colour} if mark == "x" else {"facecolor": "none", "edgecolor": colour}
            label = f"{name}: error {self.errors[name]:.1e}"
            ax.scatter(
                self.true.ravel()[shown],
                values.ravel()[shown],
                marker=mark,
                s=size,
                linewidths=1.3,
                label=label,
                **look,
            )
        k, d = self.true.shape
        ax.set(xlabel="true", ylabel="estimated")
        ax.set_title(f"{k} components x {d} numbers", loc="left", fontsize="medium")
        ax.legend(frameon=False, loc="upper left")
        return self


class RecoveryErrorDisplay(Display):
    """Plot of the error of the estimated components against the number of rows.

    Parameters
    ----------
    rows : array (s,)
    errors : dict of arrays (s,)
        Relative errors by name.
    """

    def __init__(self, rows: Any, errors: dict[str, Any]) -> None:
        self.rows = np.asarray(rows)
        self.errors = {name: np.asarray(values, dtype=float) for name, values in errors.items()}

    @classmethod
    def from_components(
        cls, true: Any, rows: Sequence[int], estimated: dict[str, Sequence[Any]]
    ) -> Self:
        """Match the components estimated from growing data to the true ones.

        Parameters
        ----------
        true : array (k, d)
        rows : sequence of int
            Number of rows of the data for each estimate.
        estimated : dict of sequences of arrays (k, d)
            By name, one array for each entry of ``rows``.

        Returns
        -------
        RecoveryErrorDisplay
        """
        truth = _components(true, "true")
        for name, values in estimated.items():
            if len(values) != len(rows):
                raise InputError(
                    f"rows has {len(rows)} entries, but {name!r} has {len(values)} estimates."
                )
        errors = {
            name: [relative_error(truth, _components(value, name)) for value in values]
            for name, values in estimated.items()
        }
        return cls(rows, errors)

    def plot(self, ax: Any = None) -> Self:
        """Draw the errors, and a line proportional to 1 / sqrt(n), the rate of sampling error."""
        ax = self._axes(ax)
        first = next(iter(self.errors.values()))
        slope = first[0] * np.sqrt(self.rows[0] / self.rows)
        ax.plot(
            self.rows,
            slope,
            color=GUIDE,
            linewidth=1.0,
            linestyle=(0, (4, 3)),
            label="proportional to 1 / √n",
        )
        for (name, values), colour, (mark, size) in zip(
            self.errors.items(), (FULL, CORE, *OTHER), MARKS, strict=False
        ):
            style = "-" if mark == "o" else (0, (2, 2))
            face = {} if mark == "x" else {"markerfacecolor": "none"}
            ax.plot(
                self.rows, values, color=colour, marker=mark, markersize=1.2 * size**0.5,
                linestyle=style, label=name, **face
            )  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="relative error of the components")
        ax.legend(frameon=False)
        return self
