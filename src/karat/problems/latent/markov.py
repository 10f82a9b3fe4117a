"""Hidden Markov models, by their windows of three steps: three views of the middle state (:mod:`karat.problems.latent.views`).

With O the emissions (A2 of the views), pi the law of a window's first state and T the transitions,

    E[x2 | h2] = O,    E[x3 | h2] = O T,    E[x1 | h2] = O diag(pi) T' diag(g)^-1,    g = T pi;

the joint law of two neighbouring states is J = (M'O)^-1 (M'P12 M) (O'M)^-1.  Gaussian emissions N(mu_h, s_h^2 I) in d
dimensions add E[|x2|^2 z1] = sum_h g_h (|mu_h|^2 + d s_h^2) M'mu_h: k more features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from scipy import sparse

from karat.engine.linalg import Array, Indices
from karat.errors import InputError
from karat.problems.latent.base import Keep, Maps
from karat.problems.latent.sample import Sample, select
from karat.problems.latent.views import ThreeViews


@final
@dataclass(frozen=True)
class HiddenMarkov(ThreeViews):
    """A hidden Markov model, learned from its windows of three steps.

    Parameters
    ----------
    n_states : int
        Number k of states, at most the number of symbols or columns.
    emissions : {"categorical", "gaussian"}
        Symbols 0, 1, .. in one column, or spherical Gaussians, one column per dimension.
    keep : {"tensor", "moments", "all"}
        What the coreset carries by itself, see :mod:`karat.problems.latent.base`.
    total_weight : bool, default True
        Also keep the total weight (one more row with ``keep="tensor"``; part of the other modes in any case).

    Notes
    -----
    Sequences come one after another in X, with their ``lengths``; those under three steps are counted and left out.
    ``sample_weight`` has one entry per row: a window has the weight of its first row.  The ``indices`` of a coreset are first
    rows of windows; its X holds the three steps of each window side by side.
    """

    n_states: int
    emissions: Literal["categorical", "gaussian"] = "categorical"
    keep: Keep = "tensor"
    total_weight: bool = True
    parts: ClassVar[str] = "states"

    def __post_init__(self) -> None:
        self.check()
        if self.emissions not in ("categorical", "gaussian"):
            raise InputError(f'emissions must be "categorical" or "gaussian", not {self.emissions!r}.')

    @property
    def k(self) -> int:
        return self.n_states

    @property
    def with_variances(self) -> bool:
        return self.emissions == "gaussian"

    def sample(self, tables: tuple[Any, ...], weights: Array | None, lengths: Indices | None) -> Sample:
        (table,) = tables
        count = int(table.shape[0])
        long, starts = self._starts(lengths, count)
        first = starts if weights is None else starts[weights[starts] > 0]
        begins = (np.concatenate([[0], np.cumsum(long)[:-1]]))[long >= 3]
        short = int((long < 3).sum())
        notes: tuple[str, ...] = ()
        if short:
            notes = (f"{short:,} of {len(long):,} sequences have fewer than 3 steps and were left out.",)
        if not len(first):
            raise InputError(
                "No window of three steps has a positive weight: every sequence is shorter than 3, or has weight 0."
            )
        steps = self._observations(table)
        share = np.ones(len(begins)) if weights is None else weights[begins]
        opening = np.asarray(steps[begins].T @ share).ravel() / max(float(share.sum()), 1e-300)
        views = tuple(select(steps, first + a) for a in range(3))
        return Sample(views, None if weights is None else weights[first], first, count, short, opening, notes)

    @staticmethod
    def _starts(lengths: Indices | None, count: int) -> tuple[Indices, Indices]:
        long = np.array([count]) if lengths is None else np.asarray(lengths)
        if long.ndim != 1 or long.dtype.kind not in "iu" or (long < 1).any():
            raise InputError("lengths must be a list of whole numbers of at least 1, one per sequence.")
        if int(long.sum()) != count:
            raise InputError(f"lengths add up to {int(long.sum())}, but X has {count} rows; they must be equal.")
        begins = np.concatenate([[0], np.cumsum(long)[:-1]])
        step = np.arange(count) - np.repeat(begins, long)
        return long.astype(np.intp), np.flatnonzero(step < np.repeat(long, long) - 2)

    def _observations(self, table: Any, symbols: int | None = None) -> Any:
        """One-hot rows of the symbols, or the table itself."""
        if self.emissions == "gaussian":
            return table.toarray() if sparse.issparse(table) else table
        values = table.toarray() if sparse.issparse(table) else table
        if values.shape[1] != 1:
            raise InputError(f"Categorical emissions are symbols 0, 1, .. in one column; X has {values.shape[1]} columns.")
        values = np.asarray(values)[:, 0]
        bad = ~np.isfinite(values) | (values < 0) | (values != np.floor(values))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(f"Symbols must be whole numbers of at least 0; row {row} of X holds {values[row]!r}.")
        codes = values.astype(np.int64)
        width = int(codes.max()) + 1 if symbols is None else symbols
        return sparse.csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), shape=(len(codes), width))

    def kept_rows(self, tables: tuple[Any, ...], origin: Indices) -> Any:
        table = tables[0].toarray() if sparse.issparse(tables[0]) else tables[0]
        return np.hstack([np.asarray(table[origin + a]) for a in range(3)])

    def kept_sample(self, tables: tuple[Any, ...], weights: Array, maps: Maps | None) -> Sample:
        steps = np.split(np.asarray(tables[0]), 3, axis=1)
        if self.emissions == "gaussian":
            return Sample(tuple(steps), weights, None, len(weights))
        symbols = int(tables[0].max()) + 1 if maps is None else len(maps["M"])
        return Sample(tuple(self._observations(s, symbols) for s in steps), weights, None, len(weights))
