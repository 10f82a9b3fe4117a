"""Tables from rows that stand for others: those of a coreset, or of the cells of a cube.

Kept rows have the weight, the means and the second moments of all rows, and those of a cube have
them in every cell.  So sums of products of two columns of a design are those of all rows if, in
each cell, a column of the design is a number times 1 or times one column of the data:

    labels     in any way: C(region), np.log(year), clusters of a covariance
    features   at most one in a term, as it is: x, C(region):x

The weights count rows.  Where the fourth moments of each cell are kept, too, HC0 and HC1 follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat.core.certify import Certificate
from karat.core.coreset import Coreset
from karat.core.provenance import Provenance
from karat.core.regression import BY_CLUSTER
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.data.batch import Batch
from karat.engine.fourth_moments import FourthSums
from karat.engine.linalg import Array
from karat.engine.rows import Progress
from karat.engine.tolerances import ROUNDING
from karat.errors import InputError, NotExactError
from karat.formulas.cells import FREQUENCY, RESPONSE
from karat.formulas.formula import Factor, Formula
from karat.formulas.layout import DesignLayout, FormulaLayout
from karat.formulas.learn import transforms_of
from karat.formulas.passes import SourceRows, open_table
from karat.io.scan import Consumer
from karat.io.source import Chunk
from karat.problems import Problem

NOTE = "The table was made from the kept rows of a {}, which have the second moments of all rows."
BY_SUMS = ("HC0", "HC1")  # covariances that follow from fourth moments
COUNTED = 1e-9  # how far from an integer a total weight may be


@dataclass(frozen=True)
class Kept:
    """Kept rows by column.

    Attributes
    ----------
    kind : str
        What they were kept in.
    labels, features : dict of arrays
        Columns that are constant in every cell, and all others.
    fourth : FourthSums or None
        Of all rows, cell by cell, if they were kept.
    columns : tuple of str
        The columns that these are of.
    cells : dict of arrays
        The labels of every cell.
    """

    kind: str
    labels: dict[str, Any]
    features: dict[str, Any]
    weights: np.ndarray
    certificate: Certificate
    problem: Problem
    rows: int
    fourth: FourthSums | None
    columns: tuple[str, ...]
    cells: dict[str, np.ndarray]


def kept_rows(
    data: Any, weight: str | None, quantiles: bool, progress: Progress | None
) -> KeptSource:
    """The rows of a coreset or a cube; refuses options for which they do not suffice."""
    if weight is not None:
        raise InputError(
            "Remove weights= and frequencies=: kept rows have weights of their own.",
            argument="weights",
        )
    if quantiles:
        raise InputError(
            "Quantiles of residuals need all rows; call ols with the data.",
            argument="residual_quantiles",
        )
    return KeptSource(_of_coreset(data) if isinstance(data, Coreset) else _of_cube(data), progress)


def _of_coreset(core: Coreset) -> Kept:
    X, y = core.arrays()
    names = list(containers.columns_of(core.X)) if containers.is_frame(core.X) else []
    names = names or [f"x{i + 1}" for i in range(X.shape[1])]
    columns = dict(zip(names, X.T, strict=True))
    if y is not None:
        targets = Provenance.read(core.provenance).targets or [getattr(core.y, "name", None) or "y"]
        columns |= zip(map(str, targets), np.atleast_2d(y.T), strict=True)
    return Kept(
        "coreset", {}, columns, core.weights, core.certificate, core.problem, core.n_rows,
        core.fourth, tuple(columns), {},
    )  # fmt: skip


def _of_cube(cube: Any) -> Kept:
    cells = cube.cells
    labels = {
        name: np.repeat(values, cells.sizes)
        for name, values in zip(cube.by, cells.labels, strict=True)
    }
    features = dict(zip((*cube.columns, *cube.targets), cells.columns, strict=True))
    return Kept(
        "cube", labels, {name: v for name, v in features.items() if name not in labels},
        cells.weights, Certificate.union(cells.certificates), cube.problem,
        int(cells.counts.sum()), cells.fourth, (*cube.columns, *cube.targets),
        dict(zip(cube.by, cells.labels, strict=True)),
    )  # fmt: skip


class DesignRows(Consumer):
    """Holds the rows of a design, and the response."""

    def __init__(self) -> None:
        self.rows: list[Array] = []

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.rows.append(np.column_stack([np.asarray(part, dtype=float) for part in batch.parts]))


class KeptSource(SourceRows):
    """Kept rows, in the place of those of a source."""

    def __init__(self, kept: Kept, progress: Progress | None) -> None:
        problem, synthetic = kept.problem, kept.certificate.rows == SYNTHETIC
        enough = synthetic or (problem.keeps_squares and problem.keeps_total)
        if not enough or problem.absorb is not None:
            raise NotExactError(
                f"A table needs the second moments, the means and the total weight of all rows,"
                f" which a {kept.kind} of LeastSquares() keeps, and one of"
                f" {problem.describe()} does not."
            )
        total = float(kept.weights.sum())
        if abs(total - round(total)) > COUNTED * total:
            raise InputError(
                f"The weights of this {kept.kind} sum to {total:.9g}, so they do not count rows."
                " Call ols with the data and weights=."
            )
        self.kept = kept
        self.robust = () if kept.fourth is None else BY_SUMS
        columns = {**kept.labels, **kept.features}
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        self.table = table.append_column(FREQUENCY, pa.array(kept.weights))
        super().__init__(open_table(table), {}, progress)

    def schema(self) -> pa.Schema:
        """The columns, without the weights."""
        return self.table.drop_columns([FREQUENCY]).schema

    def columns(
        self,
        formula: Formula,
        columns: FormulaLayout,
        kinds: Sequence[str],
        clusters: Sequence[str],
    ) -> FormulaLayout:
        """The layout of a formula that these rows can answer; raises for others."""
        self._check_covariances(kinds, clusters)
        response = formula.response
        if not response.looked_up or response.text not in self.kept.features:
            raise NotExactError(
                f"The response {response.text!r} is not a column that this {self.kept.kind} keeps;"
                f" it keeps {', '.join(self.kept.features)}."
            )
        factors = {factor.text: factor for factor in formula.factors}
        for term in (*formula.terms, *formula.endogenous, *formula.instruments):
            self._check_term(
                str(term), [factors[f.expr] for f in term.factors if f.expr in factors]
            )
        self.source = open_table(
            self.table.append_column(RESPONSE, self.table.column(response.text).cast(pa.float64()))
        )
        return columns.as_joined(RESPONSE, FREQUENCY)

    def _check_covariances(self, kinds: Sequence[str], clusters: Sequence[str]) -> None:
        kind = self.kept.kind
        for name in kinds:
            if name not in ("nonrobust", *BY_CLUSTER, *self.robust):
                needs = "fourth moments" if name in BY_SUMS else "the leverage of every row"
                advice = "a cube that was made with cov='HC1', and its slices, keep them. Or make"
                raise NotExactError(
                    f"{name} needs {needs}, which this {kind} does not keep:"
                    f" {advice if name in BY_SUMS else 'make'} the table, then add the sums in a"
                    f" pass over the data: fit = ols(formula, {kind}); ols(fit.coreset, data,"
                    f" cov_type={name!r})."
                )
        for name in clusters:
            if name not in self.kept.labels:
                raise NotExactError(
                    f"Errors clustered by {name!r} need sums over its clusters; a {kind} keeps"
                    f" those of its labels ({', '.join(self.kept.labels) or 'it has none'}) alone."
                )

    def forms(self, layout: DesignLayout) -> Array:
        """For every cell the columns of a design and the response as affine forms of the features:
        their values at the means of the cell's coordinates, and their slopes.
        """
        fourth, columns, cells = self.kept.fourth, self.kept.columns, self.kept.cells
        assert fourth is not None
        count, many = len(fourth) if cells else 1, 1 + len(columns)
        # in every cell a row of zeros, and one for each column
        units = np.tile(np.eye(many)[:, 1:], (count, 1))
        probes: dict[str, Any] = dict(zip(columns, units.T, strict=True))
        probes |= {name: np.repeat(values, many) for name, values in cells.items()}
        response = probes[layout.formula.response.text].copy()
        table = pa.table(probes | {RESPONSE: response, FREQUENCY: np.ones(len(response))})
        found = SourceRows(open_table(table), {}, None).scan(layout, DesignRows())
        rows = np.concatenate(found.rows).reshape(count, many, -1)
        slopes = rows[:, 1:] - rows[:, :1]
        at_means = rows[:, 0] + np.einsum("gc,gcm->gm", fourth.shift, slopes)
        return np.concatenate(
            [at_means[:, None], np.broadcast_to(slopes, (len(fourth), *slopes.shape[1:]))], axis=1
        )

    def _check_term(self, text: str, factors: Sequence[Factor]) -> None:
        if list(transforms_of(tuple(factors))):
            raise NotExactError(
                f"The term {text!r} depends on all rows; a {self.kept.kind} keeps only some."
            )
        features = [
            factor for factor in factors if not set(factor.variables) <= set(self.kept.labels)
        ]
        if len(features) > 1 or not all(factor.looked_up for factor in features):
            raise NotExactError(
                f"The term {text!r} needs other moments than those that this {self.kept.kind}"
                " keeps, which are those of its columns and of products of two; a term may have"
                " one of its columns, as it is"
                + (", and labels in any way." if self.kept.labels else ".")
            )
        if not features and not self.kept.problem.shifts:
            raise NotExactError(
                f"This {self.kept.kind} was made without an intercept, so it does not keep means;"
                " write the formula with 0 +, and a column in each term."
            )

    def coreset(self, layout: DesignLayout) -> Coreset:
        """The coreset of all rows."""
        core, kept = super().coreset(layout), self.kept
        claim = kept.certificate.after(core.certificate)
        certificate = replace(
            core.certificate.of_coresets(),
            **vars(claim),
            rounding=ROUNDING * claim.spent,
            n_rows=kept.rows,
            notes=(*core.certificate.notes, NOTE.format(kept.kind)),
        )
        provenance = layout.provenance(core.problem, 0, {"given": [], "files": []}, {}, None)
        return replace(core, n_rows=kept.rows, certificate=certificate, provenance=provenance)
