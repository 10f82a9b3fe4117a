"""A plot of the size of a ridge coreset against alpha (the paper's Figure 1).

The stronger the regulariser, the more of the data it can absorb.  The smallest number of rows falls with alpha; the number that
the linear programme finds does so on the whole, not at every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from karat._core.coreset import coreset
from karat.errors import InputError
from karat.problems import LpRegression, Ridge
from karat.report.display import CORE, FULL, GUIDE, OTHER, Display

LABELS = {"diagonal": "diagonal (the paper's experiments)", "box": "box (Algorithm 2)"}


class SizeDisplay(Display):
    """Plot of the rows kept against the strength of the regulariser.

    Parameters
    ----------
    alphas : array (a,)
    sizes : dict of arrays (a,)
        For each way of absorbing, the rows kept at each alpha.
    exact : int
        Rows of the coreset that absorbs nothing and is exact for every alpha.
    n_rows : int
        Rows of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from karat.report import SizeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3)); y = X.sum(axis=1) + rng.standard_normal(500)
    >>> display = SizeDisplay.from_data(X, y, [1.0, 1e4])
    >>> [int(size) for size in display.sizes["box"]], display.exact
    ([12, 6], 15)
    """

    def __init__(self, alphas: Any, sizes: dict[str, Any], exact: int, n_rows: int) -> None:
        self.alphas, self.exact, self.n_rows = np.asarray(alphas, dtype=float), exact, n_rows
        self.sizes = {name: np.asarray(values) for name, values in sizes.items()}

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        alphas: Sequence[float],
        *,
        p: int = 2,
        fit_intercept: bool = True,
        absorb: Sequence[str] = ("diagonal", "box"),
        sample_weight: Any = None,
        random_state: int = 0,
    ) -> Self:
        """Build one coreset for each alpha and each way of absorbing.

        Parameters
        ----------
        X, y : table and target
        alphas : sequence of positive numbers
        p : int
            Power of the loss: 2 for ridge regression, else l_p regression.
        fit_intercept : bool
        absorb : sequence of {"diagonal", "box"}
        sample_weight, random_state
            As in :func:`karat.coreset`.

        Returns
        -------
        SizeDisplay
        """
        alphas = [float(alpha) for alpha in alphas]
        if not alphas or min(alphas) <= 0:
            raise InputError("alphas must be at least one positive number; a regulariser of strength zero absorbs nothing.")
        unknown = [name for name in absorb if name not in LABELS]
        if unknown:
            raise InputError(f"absorb takes {' and '.join(LABELS)}, not {unknown[0]!r}.")

        def rows(alpha: float, way: Any) -> Any:
            problem = (
                Ridge(alpha, fit_intercept=fit_intercept, absorb=way)
                if p == 2
                else LpRegression(p, alpha, fit_intercept=fit_intercept, absorb=way)
            )
            return coreset(X, y, problem, sample_weight=sample_weight, random_state=random_state)

        exact = rows(alphas[0], None)
        sizes = {way: [len(rows(alpha, way)) for alpha in alphas] for way in absorb}
        return cls(alphas, sizes, len(exact), exact.n_rows)

    def plot(self, ax: Any = None) -> Self:
        """Draw the sizes on a logarithmic axis of alpha."""
        ax = self._axes(ax)
        ax.axhline(self.exact, color=GUIDE, linewidth=1.2, linestyle=(0, (4, 3)), zorder=1)
        ax.annotate(
            f"exact for every alpha: {self.exact:,} rows", (1.0, self.exact), xycoords=("axes fraction", "data"), xytext=(0, 4),
            textcoords="offset points", ha="right", color="#666666", fontsize="small",
        )  # fmt: skip
        for (name, sizes), colour, marker in zip(self.sizes.items(), (FULL, CORE, *OTHER), "os^vD", strict=False):
            ax.plot(self.alphas, sizes, color=colour, marker=marker, markersize=5, linewidth=1.8, label=LABELS.get(name, name))
        ax.set(xscale="log", xlabel="alpha", ylabel="rows kept", ylim=(0, 1.12 * self.exact))
        ax.set_title(f"Size against alpha, {self.n_rows:,} rows", loc="left", fontsize="medium")
        ax.legend(frameon=False, loc="lower left")
        return self
