"""Two-stage least squares, ``y ~ w + [endogenous ~ instruments]``, from the kept rows.

With Z = (w, instruments), X = (w, endogenous) and the projection P of the endogenous columns on Z,

    first stage    P = least squares of each endogenous column on Z;   X^ = (w, Z P)
    second stage   b = least squares of y on X^;   residuals e = y - X b  (of X, not of X^)
    classical      RSS / (n - k) (X^'X^)^-1
    robust         the sandwich of the scores u e x^, in the whitened coordinates of X^

so b and its covariances have the algebra of a table (:mod:`karat.inference.covariance`), with X^ in
the place of X and the right residuals.  Scores are linear in the columns of the pass, (w,
instruments, endogenous), so it is the pass of other tables, once for the second stage and once for
each first stage.  With U the instruments partialled for w and whitened, q = U'endogenous and M the
sandwich of its first stage,

    partial F      Wald test of the instruments / their number, with the covariance of the table
    effective F    q'q / trace(M)   (Montiel Olea and Pflueger), one endogenous column
    Sargan         n R2 of e on Z, chi2 with as many degrees of freedom as instruments are too many
    Wu-Hausman     F test of the residuals of the first stages as regressors beside X

Conventions are those of linearmodels with ``debiased=True``: n - k, n / (n - k) for HC1,
G / (G - 1) (n - 1) / (n - k) for clusters, n - l in first stages with l columns of Z.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from karat.core.regression import stage_sums
from karat.data.batch import Batch
from karat.engine.least_squares import DependentColumnError, LeastSquaresSolution, solve
from karat.engine.linalg import Array
from karat.errors import InputError, NotExactError, several
from karat.formulas.design import INTERCEPT
from karat.inference import show
from karat.inference.covariance import Covariance, FullData
from karat.inference.results import FrequencyWLS, FullDataResults
from karat.inference.scores import FullDataSolution, Scores
from karat.io.scan import Consumer
from karat.io.source import Chunk

# of its length, what the instruments must explain of a column: errors are this times smaller
IDENTIFIED = 2**26 * np.finfo(float).eps
KINDS = ("nonrobust", "HC0", "HC1", "cluster")  # of covariances; leverages have no meaning here


def check_instruments(design: Any, kinds: Sequence[str], submodels: bool) -> None:
    """Refuse covariances that need leverages, submodels, and too few instruments."""
    if submodels:
        raise InputError("A regression with instruments has no submodels.", argument="submodels")
    refuse_leverages(kinds)
    few, many = len(design.instruments), len(design.endogenous)
    if few < many:
        raise InputError(
            f"The formula has {several(many, 'endogenous column')}"
            f" ({', '.join(design.endogenous)}) and {several(few, 'instrument')}"
            f" ({', '.join(design.instruments)}); it needs as many instruments,"
            " or more."
        )


def refuse_leverages(kinds: Sequence[str]) -> None:
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(
                f"A regression with instruments has the covariances {', '.join(KINDS)}, not"
                f" {kind}.",
                argument="cov_type",
            )


@dataclass(frozen=True)
class Stage:
    """The least-squares solution of a stage, and the same one in the columns of the pass."""

    solution: LeastSquaresSolution
    passed: LeastSquaresSolution


def _stage(
    solution: LeastSquaresSolution, pass_shift: Array, centre: float, columns: Any, turn: Array
) -> Stage:
    """From the solution in columns that had ``pass_shift`` subtracted, with a response of which
    ``centre`` is the mean, if it was subtracted, too.

    ``columns`` are the positions of its columns in the pass, and ``turn`` makes from all columns of
    the pass those that are orthogonal to the residuals.
    """
    shifted, rotated = solution.shifted.copy(), solution.rotated
    if centre:  # the mean of what is left is near zero, and no digit of it goes into the centre
        shifted[0] += solution.centre
        rotated = rotated + solution.centre * solution.unwhitening[:, 0]
        solution = replace(solution, centre=centre)
    shift, back = pass_shift[columns] + solution.shift, np.eye(len(shifted))
    back[0] -= shift
    params = back @ shifted
    params[0] += solution.centre
    in_data = replace(
        solution, shift=shift, shifted=shifted, rotated=rotated,
        params=params, root=back @ solution.whitening,
    )  # fmt: skip
    in_pass = np.zeros(len(turn))
    in_pass[columns] = shifted
    in_pass[0] -= solution.shift @ shifted
    passed = replace(in_data, shift=pass_shift, shifted=in_pass, whitening=turn @ solution.root)
    return Stage(in_data, passed)


class InstrumentalVariables(FrequencyWLS):
    """Two-stage least squares of the kept rows.

    Parameters
    ----------
    y, rows, weights, full, coreset
        As in :class:`~karat.inference.results.FrequencyWLS`; ``rows`` has the exogenous columns,
        the instruments and the endogenous columns, in this order, and the coreset says which.
    """

    results_class = property(lambda self: InstrumentalResults)

    def __init__(
        self, y: Any, rows: pd.DataFrame, weights: Array, full: FullData, coreset: Any
    ) -> None:
        facts = coreset.regression.facts
        self.instruments = [name for name in facts["instruments"] if name in rows]
        self.rows, self.endogenous = rows, list(facts["endogenous"])
        super().__init__(y, rows.drop(columns=self.instruments), weights, full, coreset)

    @property
    def solution(self) -> LeastSquaresSolution:
        """The solution of the second stage."""
        return self.stages[0].solution

    @cached_property
    def stages(self) -> list[Stage]:
        """The second stage, and the first one of every endogenous column."""
        rows, y, weights = self.rows.to_numpy(), self.endog, self.weights
        names, width = list(map(str, self.rows.columns)), self.rows.shape[1]
        intercept = names[0] == INTERCEPT
        last = np.array([names.index(name) for name in self.endogenous])
        z = np.setdiff1d(np.arange(width), last)
        x = np.setdiff1d(np.arange(width), [names.index(name) for name in self.instruments])
        shift = np.zeros(width)
        if intercept:
            shift[1:] = weights @ rows[:, 1:] / weights.sum()
        centred = rows - shift
        try:
            first = [solve(centred[:, z], centred[:, j], weights, intercept) for j in last]
        except DependentColumnError as error:
            named = [names[place] for place in z]
            raise InputError(show.dependent_column(error, named, intercept)) from error
        onto_z = np.eye(width)[:, z]
        projection = np.eye(width)
        for j, solution in zip(last, first, strict=True):
            projection[:, j] = onto_z @ solution.params
        turn = projection[:, x]
        try:
            second = solve(centred @ turn, y, weights, intercept)
        except DependentColumnError as error:
            raise self._not_identified(names[x[error.column]]) from error
        lengths = np.sqrt(weights @ np.square(centred[:, x]))
        apart = 1 / (np.linalg.norm(second.whitening, axis=1) * lengths)
        if (apart < IDENTIFIED * first[0].condition).any():
            raise self._not_identified(names[x[int(np.argmin(apart))]])
        errors = second.residuals(centred[:, x], y)
        second = replace(second, rss=float(weights @ errors**2))
        return [
            _stage(second, shift, 0.0, x, turn),
            *(
                _stage(solution, shift, shift[j], z, onto_z)
                for j, solution in zip(last, first, strict=True)
            ),
        ]

    def _not_identified(self, name: str) -> InputError:
        return InputError(
            f"The instruments do not identify the coefficient of {name!r}: what they explain of the"
            " endogenous regressors is, with the exogenous ones, collinear to the digits that"
            " doubles have. Add instruments that move it, or remove the term.",
            column=name,
        )

    def size(self, place: int) -> float:
        """The sum of squares of an endogenous column, about its mean if there is an intercept."""
        column = self.rows[self.endogenous[place]].to_numpy()
        centre = (
            np.average(column, weights=self.weights) if self.rows.columns[0] == INTERCEPT else 0
        )
        return float(self.weights @ np.square(column - centre))

    def determined(self, place: int) -> bool:
        """Whether the instruments determine an endogenous column, up to rounding."""
        solution = self.stages[1 + place].solution
        return bool(solution.rss <= (IDENTIFIED * solution.condition) ** 2 * self.size(place))

    def first_stage(self, place: int, kind: str) -> Covariance:
        """The covariance of the first stage of an endogenous column."""
        solution = self.stages[1 + place].solution
        if kind == "nonrobust":
            width = len(solution.params)
            scale = self.ssc.classical(solution.rss, self.nobs, width)
            return Covariance(solution, scale * np.eye(width))
        stored = {} if self.coreset.regression is None else self.coreset.regression.sums
        full = replace(self.full, sums=stage_sums(stored, 1 + place))
        return full.covariance(kind, solution, self.ssc)


def responses(facts: dict[str, Any]) -> tuple[int, ...]:
    """The positions of the endogenous columns among those of the pass, without the intercept."""
    columns = [name for name in facts["columns"] if name not in (facts.get("dropped") or ())]
    return tuple(columns.index(name) for name in facts.get("endogenous") or ())


@dataclass
class StageScores(Consumer):
    """The scores of both stages, or of several responses, in one pass.

    Parameters
    ----------
    solutions : tuple of FullDataSolution
        Of the responses, then of the first stages, in the columns of the pass.
    responses : tuple of int
        The positions of the endogenous columns among those of the design, without the intercept.
    kinds, ways, frequencies, submodels
        As in :class:`~karat.inference.scores.Scores`.
    """

    background = True

    solutions: tuple[FullDataSolution, ...]
    responses: tuple[int, ...]
    kinds: tuple[str, ...]
    ways: int = 0
    frequencies: bool = False
    submodels: bool = False
    stages: list[Scores] = field(init=False)

    def __post_init__(self) -> None:
        options = self.kinds, self.ways, self.frequencies, self.submodels
        self.stages = [Scores(solution, *options) for solution in self.solutions]

    def add(self, chunk: Chunk, batch: Batch) -> None:
        many = len(self.solutions) - len(self.responses)
        design, responses = batch.parts[:-many], batch.parts[-many:]
        if self.responses:
            columns = [part[:, [place]] for part in design for place in range(part.shape[1])]
            responses = [*responses, *(columns[place] for place in self.responses)]
        for scores, response in zip(self.stages, responses, strict=True):
            scores.add(chunk, replace(batch, parts=[*design, response]))

    def merge(self, other: StageScores) -> None:
        """Add the sums of other rows."""
        for scores, others in zip(self.stages, other.stages, strict=True):
            scores.merge(others)


class InstrumentalResults(FullDataResults):
    """Results of two-stage least squares; see :func:`karat.inference.ols`."""

    def __init__(self, model: Any, solution: Any, cov_type: str, use_t: bool | None) -> None:
        refuse_leverages((cov_type,))
        super().__init__(model, solution, cov_type, use_t)

    @cached_property
    def _slopes(self) -> Any:
        """The test that all coefficients but the intercept are zero."""
        first = int(self.labels[0] == INTERCEPT)
        return self.f_test(np.eye(len(self.labels))[first:]) if first < len(self.labels) else None

    @property
    def fvalue(self) -> float:
        """The Wald statistic of all coefficients but the intercept, divided by their number."""
        return np.nan if self._slopes is None else float(self._slopes.fvalue)

    @property
    def f_pvalue(self) -> float:
        return np.nan if self._slopes is None else float(self._slopes.pvalue)

    @cached_property
    def first_stage(self) -> pd.DataFrame:
        """A line for each endogenous column: R2, partial R2, the partial F of the instruments with
        the covariance of the table, its p value, and for a single endogenous column the effective
        F of Montiel Olea and Pflueger.  F of a column that the instruments determine is infinite.
        """
        model, rows = self.model, []
        for place in range(len(model.endogenous)):
            covariance = model.first_stage(place, self.cov_type)
            solution = covariance.solution
            labels = [name for name in model.rows.columns if name not in model.endogenous]
            tested = np.eye(len(labels))[[labels.index(name) for name in model.instruments]]
            explained, noise = covariance.strength(tested)
            wald, count = np.inf, len(tested)
            if model.determined(place):
                noise = 0.0
            else:
                wald, _ = covariance.wald(tested, np.zeros(count))
            effective = np.nan
            if len(model.endogenous) == 1:
                effective = explained / noise if noise else np.inf
            freedom = self.nobs - len(labels)
            if self.cov_type == "cluster":
                freedom = self.df_resid_inference
            rows.append(
                {
                    "r_squared": 1 - solution.rss / model.size(place),
                    "partial_r_squared": explained / (explained + solution.rss),
                    "f_statistic": wald / count,
                    "p_value": float(stats.f.sf(wald / count, count, freedom)),
                    "effective_f": effective,
                }
            )
        return pd.DataFrame(rows, index=list(model.endogenous))

    @cached_property
    def sargan(self) -> pd.Series:
        """The test of overidentifying restrictions, for homoscedastic errors; NaN if there are as
        many instruments as endogenous columns.
        """
        model = self.model
        degrees = len(model.instruments) - len(model.endogenous)
        if not degrees:
            return pd.Series({"statistic": np.nan, "p_value": np.nan, "df": 0})
        labels = [name for name in model.rows.columns if name not in model.endogenous]
        errors = self.solution.residuals(model.exog, model.endog)
        onto = solve(model.rows[labels].to_numpy(), errors, model.weights, labels[0] == INTERCEPT)
        statistic = self.nobs * float(onto.rotated @ onto.rotated) / self.ssr
        p_value = float(stats.chi2.sf(statistic, degrees))
        return pd.Series({"statistic": statistic, "p_value": p_value, "df": degrees})

    @cached_property
    def wu_hausman(self) -> pd.Series:
        """The F test that the endogenous columns are exogenous, for homoscedastic errors; NaN if
        the instruments determine one of them.
        """
        model, count = self.model, len(self.model.endogenous)
        if any(model.determined(place) for place in range(count)):
            return pd.Series({"statistic": np.nan, "p_value": np.nan, "df": count})
        missing = [name for name in model.rows.columns if name not in model.endogenous]
        z = model.rows[missing].to_numpy()
        left = np.column_stack(
            [
                stage.solution.residuals(z, model.rows[name].to_numpy())
                for name, stage in zip(model.endogenous, model.stages[1:], strict=True)
            ]
        )
        freedom = self.nobs - len(self.labels) - count
        try:
            beside = np.column_stack([model.exog, left])
            larger = solve(beside, model.endog, model.weights, missing[0] == INTERCEPT)
        except DependentColumnError:
            return pd.Series({"statistic": np.nan, "p_value": np.nan, "df": count})
        covariance = Covariance(larger, larger.rss / freedom * np.eye(len(larger.params)))
        tested = np.eye(len(larger.params))[-count:]
        statistic = covariance.wald(tested, np.zeros(count))[0] / count
        p_value = float(stats.f.sf(statistic, count, freedom))
        return pd.Series({"statistic": statistic, "p_value": p_value, "df": count})

    def summary(self, *args: Any, **kwargs: Any) -> Any:
        """The table, with tests of the instruments below it."""
        left = [("Model:", ["IV"]), ("Method:", ["Two-Stage Least Squares"])]
        notes = [
            f"Endogenous: {', '.join(self.model.endogenous)}. Instruments:"
            f" {', '.join(self.model.instruments)}."
        ]
        for name, line in self.first_stage.iterrows():
            strength = line.effective_f
            effective = f", effective F {strength:.4g}" if np.isfinite(strength) else ""
            notes.append(
                f"First stage of {name}: F {line.f_statistic:.4g} (p {line.p_value:.3g})"
                f"{effective}, partial R-squared {line.partial_r_squared:.3g}."
            )
        for name, test in (("Wu-Hausman F", self.wu_hausman), ("Sargan chi2", self.sargan)):
            if np.isfinite(test.statistic):
                notes.append(f"{name}({test.df:.0f}): {test.statistic:.4g} (p {test.p_value:.3g}).")
        options: dict[str, Any] = {**kwargs, "model": left, "likelihood": False, "notes": notes}
        return show.summary(self, *args, **options)

    def glance(self) -> Any:
        """The statistics of the whole model as a frame of one row."""
        first = self.first_stage
        return show.glance(self, likelihood=False).assign(
            first_stage_f=first["f_statistic"].min(),
            effective_f=first["effective_f"].iloc[0],
            wu_hausman=self.wu_hausman.statistic,
            wu_hausman_p=self.wu_hausman.p_value,
            sargan=self.sargan.statistic,
            sargan_p=self.sargan.p_value,
        )

    def submodel(self, terms: Any, cov_type: str = "nonrobust", use_t: bool | None = None) -> Any:
        """Raises an error: the instruments would have to change with the terms."""
        raise NotExactError(
            "A regression with instruments has no submodels; call ols with the smaller formula."
        )

    def _no_likelihood(self, *args: Any, **kwargs: Any) -> Any:
        raise NotExactError(
            "Two-stage least squares has no likelihood, so no AIC, BIC or test of nested models;"
            " use wald_test."
        )

    llf = aic = bic = property(_no_likelihood)
    info_criteria = compare_f_test = compare_lr_test = _no_likelihood
