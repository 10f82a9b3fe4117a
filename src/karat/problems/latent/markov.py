"""Hidden Markov models, by their windows of three steps: three views of the middle state
(:mod:`karat.problems.latent.views`).

With O the emissions (A2 of the views), pi the law of a window's first state and T the transitions,

    E[x2 | h2] = O,    E[x3 | h2] = O T,    E[x1 | h2] = O diag(pi) T' diag(g)^-1,    g = T pi;

the joint law of two neighbouring states is J = (M'O)^-1 (M'P12 M) (O'M)^-1.  Gaussian emissions
N(mu_h, s_h^2 I) in d dimensions are centred, and add E[q z1] = sum_h g_h s_h^2 E[z1 | h], q = |P(x2
- m)|^2 / p with P onto the p = d-k+1 dimensions in which the means do not differ: k more features.
(If p = 0, q = |x2 - m|^2, and |mu_h - m|^2 + d s_h^2 takes the place of s_h^2.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.engine.parts import Computed
from karat.errors import InputError
from karat.problems.latent.base import Keep, Maps
from karat.problems.latent.sample import Sample, check_codes, select
from karat.problems.latent.views import ThreeViews


@final
@dataclass(frozen=True)
class HiddenMarkov(ThreeViews):
    """A hidden Markov model, learned from its windows of three steps.

    Parameters
    ----------
    n_states : int
        Number k of states, at most the number of symbols, or of columns and one.
    emissions : {"categorical", "gaussian"}
        Symbols 0, 1, .. in one column, or spherical Gaussians, one column per dimension.
    keep : {"tensor", "moments", "all"}
        What the kept rows carry by themselves, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        With ``keep="tensor"``, also keep the total weight (one more row); other modes, and Gaussian
        emissions, always do.

    Notes
    -----
    Sequences come one after another in X, with their ``lengths``; those under three steps are
    counted and left out. ``sample_weight`` has one entry per row: a window has the weight of its
    first row.  The ``indices`` of a coreset are first rows of windows; its X holds the three steps
    of each window side by side.
    """

    n_states: int
    emissions: Literal["categorical", "gaussian"] = "categorical"
    keep: Keep = "tensor"
    total_weight: bool = True
    part: ClassVar[str] = "state"
    dropped_inputs: ClassVar[tuple[str, str]] = ("sequence", "fewer than 3 steps")
    takes: ClassVar[frozenset[str]] = frozenset({"lengths"})
    rows_per_sample: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.emissions not in ("categorical", "gaussian"):
            raise InputError(
                f'emissions must be "categorical" or "gaussian", not {self.emissions!r}.'
            )

    @property
    def with_variances(self) -> bool:
        return self.emissions == "gaussian"

    @property
    def has_constant(self) -> bool:
        return self.emissions == "categorical"

    def check_size(self, columns: int) -> None:
        if self.emissions == "gaussian":
            return super().check_size(columns)
        return check_one_column(columns)

    def sample(
        self, tables: tuple[Any, ...], weights: Array | None, steps: Indices | None = None
    ) -> Sample:
        (table,) = tables
        self.check_size(int(table.shape[1]))
        count = int(table.shape[0])
        steps = np.arange(count) if steps is None else steps
        starts = np.flatnonzero(steps[2:] == steps[:-2] + 2)
        begins = starts[steps[starts] == 0]
        long = len(begins)
        first = starts if weights is None else starts[weights[starts] > 0]
        observed = self._observations(table, used=first)
        begins = begins if weights is None else begins[weights[begins] > 0]
        share = np.ones(len(begins)) if weights is None else weights[begins]
        opening = np.asarray(observed[begins].T @ share).ravel(), float(share.sum())
        views = tuple(select(observed, first + a) for a in range(3))
        sequences = int((steps == 0).sum())
        own = None if weights is None else weights[first]
        return Sample(views, own, first, count, sequences, sequences - long, opening)

    def empty_message(self, inputs: int, dropped: int) -> str:
        return (
            "No window of three steps has a positive weight: every sequence is shorter than 3, or"
            " has weight 0."
        )

    def _observations(
        self, table: Any, symbols: int | None = None, used: Indices | None = None
    ) -> Any:
        """One-hot rows of the symbols, or the table itself; symbols outside the windows ``used`` do
        not count.
        """
        if self.emissions == "gaussian":
            return table.toarray() if sparse.issparse(table) else table
        codes = symbols_of(np.asarray(table.toarray() if sparse.issparse(table) else table[:]))
        if used is not None:
            inside = np.zeros(len(codes), dtype=bool)
            inside[(used[:, None] + np.arange(3)).ravel()] = True
            codes = np.where(inside, codes, 0)
        width = int(codes.max(initial=-1)) + 1 if symbols is None else symbols
        return sparse.csr_array(
            (np.ones(len(codes)), codes, np.arange(len(codes) + 1)), shape=(len(codes), width)
        )

    def views(self, tables: tuple[Any, ...], maps: Maps | None) -> tuple[Any, ...]:
        (table,) = tables
        d = int(table.shape[1]) // 3
        symbols = (
            d
            if self.emissions == "gaussian"
            else int(table[:].max()) + 1
            if maps is None
            else len(maps["M"])
        )

        def step(a: int) -> Computed:
            columns = slice(a * d, (a + 1) * d)
            return Computed(
                lambda block: self._observations(np.asarray(block)[:, columns], symbols),
                table,
                columns=symbols,
            )

        return step(0), step(1), step(2)


def check_one_column(columns: int) -> None:
    """Raise unless there is one column of symbols."""
    if columns != 1:
        raise InputError(
            f"Categorical emissions are symbols 0, 1, .. in one column; X has {columns} columns."
            ' Columns of numbers need emissions="gaussian".'
        )


def symbols_of(table: np.ndarray) -> np.ndarray:
    """Symbols 0, 1, .. of one column, checked."""
    check_one_column(int(table.shape[1]))
    values = table[:, 0]
    bad = ~np.isfinite(values) | (values < 0) | (values != np.floor(values))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"Symbols must be integers of at least 0; row {row} of X contains {values[row]:g}."
        )
    row = int(values.argmax()) if len(values) else 0
    largest = int(values.max(initial=-1))
    check_codes(
        largest + 1,
        f"Row {row} of X contains the symbol {float(largest):.10g}",
        "Number the symbols that occur: np.unique(X, return_inverse=True)[1].",
    )
    return values.astype(np.int64)
