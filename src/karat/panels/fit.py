"""The regression of a formula with fixed effects: ``karat.ols("y ~ x | firm + year", data)``.

levels      one pass, if regressors have categories or transforms of all rows
sums        one pass: products, sums by level, pairs of levels (:mod:`.sums`); singletons are left
            out, and the effects of all columns solved for (:mod:`.solve`)
decisions   one pass, if some regressor seems to be a combination of effects and others
scores      one pass, or two if the first estimates were off by more than 1e-10 standard errors,
            which happens where columns vary far more between levels than within (:mod:`.scores`)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import linalg

from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array, Flags
from karat.engine.rows import Progress
from karat.errors import InputError, NotExactError
from karat.formulas.design import INTERCEPT, Design, make_design
from karat.formulas.formula import parse
from karat.formulas.layout import formula_columns
from karat.formulas.learn import Learn
from karat.formulas.passes import needed_columns, open_rows
from karat.inference.options import check_design
from karat.inference.ssc import SmallSample
from karat.panels.effects import Effect, parse_effects
from karat.panels.errors import MOST_DENSE, ClusterMiddles, Parameters, check_cluster_counts
from karat.panels.read import PanelLayout
from karat.panels.results import PanelModel, PanelResults
from karat.panels.rows import PanelPlan
from karat.panels.scores import PanelScores
from karat.panels.singletons import Singletons, drop_singletons
from karat.panels.solve import AbsorbedEffects, NormalEquations, absorb_effects, within_products
from karat.panels.sums import PanelSums
from karat.panels.whiten import Coordinates

MEMORY = 2**32  # bytes of pairs of levels, unless memory= says otherwise
CONSTANT = 64 * np.finfo(float).eps  # of its size: a column that varies less is constant
MOVED = 1e-10  # standard errors: what estimates may move by in the last pass
ROUND = 1e-8  # what the products of the last pass may be off from orthonormal ones
PASSES = 4  # at the solution, at most


def panel_table(
    text: str, data: Any, *, kinds: Sequence[str], clusters: Sequence[str], weights: str | None,
    ssc: SmallSample, use_t: bool | None, on_missing: str, drop: bool, memory: int | None,
    progress: Progress | None,
) -> PanelResults:  # fmt: skip
    """The table of a formula with fixed effects; see :func:`karat.inference.ols`."""
    regressors, effects = parse_effects(text)
    _check_kinds(kinds, clusters, effects)
    if weights is not None and not isinstance(weights, str):
        raise InputError("weights must be the name of a column of the data.", argument="weights")
    panel = Panel.opened(
        text, regressors, effects, clusters, weights, data, on_missing, memory, progress
    )
    model = panel.model(kinds, drop, ssc.k_fixef_exact)
    return PanelResults(model, kinds[0], ssc, use_t)


def _check_kinds(kinds: Sequence[str], clusters: Sequence[str], effects: Sequence[Effect]) -> None:
    if "cluster" in kinds and not clusters:
        raise InputError(
            "cov_type='cluster' needs cluster=, the column that labels the clusters.",
            argument="cluster",
        )
    unknown = [kind for kind in kinds if kind in ("HC2", "HC3")]
    if unknown and len(effects) > 1:
        raise NotExactError(
            f"{unknown[0]} needs the leverage of every row, which has no closed form with"
            f" {len(effects)} fixed effects; use HC1, or cluster the errors."
        )


@dataclass(frozen=True)
class Panel:
    """The rows of a panel, and how they are read.

    Attributes
    ----------
    rows : SourceRows or ClusterRows
    layout : PanelLayout
    plan : PanelPlan
    design : Design
    text : str
        The formula.
    """

    rows: Any
    layout: PanelLayout
    plan: PanelPlan
    design: Design
    text: str

    @staticmethod
    def opened(
        text: str, regressors: str, effects: tuple[Effect, ...], clusters: Sequence[str],
        weights: str | None, data: Any, on_missing: str, memory: int | None,
        progress: Progress | None,
    ) -> Panel:  # fmt: skip
        """Find the columns, and learn the levels of categories among the regressors."""
        labels = tuple(dict.fromkeys([*(c for e in effects for c in e.columns), *clusters]))
        others = [name for name in (weights, *labels) if name is not None]
        rows = open_rows(needed_columns(data, regressors, others), progress)
        schema = rows.schema()
        formula = parse(regressors, [name for name in schema.names if name not in others])
        columns = formula_columns(formula, schema, weights, on_missing, labels)
        text_labels = [name for name in labels if name in columns.text]
        rows.as_codes(list(dict.fromkeys([*columns.coded(), *text_labels])))
        learn = Learn(columns, rows.declared, rows.all_doubles)
        if learn.categories or learn.transforms:
            learn = rows.scan(learn.reading(), learn)
        else:
            learn.layout = replace(columns, roles=replace(columns.roles, weight=None))
        design = make_design(formula, learn.learned())
        if design.names in ([], [INTERCEPT]):
            raise InputError(
                f"The formula {text!r} has no regressor beside the fixed effects; add one."
            )
        check_design(design)
        base = replace(columns.of_design(design), labelled=True)
        layout = PanelLayout(**{field.name: getattr(base, field.name) for field in fields(base)})
        plan = PanelPlan(
            effects, tuple(clusters), labels, len(design.names) + 1, weights is not None,
            MEMORY if memory is None else memory,
        )  # fmt: skip
        return Panel(rows, layout, plan, design, text)

    @property
    def names(self) -> list[str]:
        """Of the regressors, then the response."""
        return [*self.design.names, self.design.formula.response.text]

    def model(self, kinds: Sequence[str], drop: bool, exact: bool) -> PanelModel:
        """The estimates, and sums for covariances."""
        first = PanelSums(self.plan, np.zeros(self.plan.width))
        sums: PanelSums = self.rows.scan(self.layout, first)
        sums.finish()
        read = sums.rows
        singletons = drop_singletons(sums)
        if not sums.rows:
            raise InputError(
                f"All {read:,} rows are singletons: each is alone in a level of a fixed effect, so"
                " nothing is left to estimate from."
            )
        if singletons.rows:
            warnings.warn(
                f"{singletons.rows:,} of {read:,} rows are singletons, each alone in a level of a"
                " fixed effect that fits it exactly; they are left out.",
                UserWarning,
                stacklevel=5,
            )
        equations = NormalEquations(sums)
        absorbed = absorb_effects(sums, equations)
        for levels in sums.levels:
            levels.freeze()
        chosen, coordinates = self._independent(sums, absorbed, singletons, drop)
        parameters = self._parameters(sums, equations, int(chosen.sum()) - 1, exact)
        last, coordinates = self._scored(
            sums, absorbed, singletons, kinds, chosen, coordinates, parameters
        )
        parameters = replace(parameters, nested=tuple(last.nested()))
        return self._finished(
            sums, absorbed, singletons, equations, last, coordinates, chosen, parameters
        )

    def _scores(
        self, sums: PanelSums, absorbed: AbsorbedEffects, singletons: Singletons, turn: Array,
        kinds: Sequence[str] = (),
    ) -> PanelScores:  # fmt: skip
        """A pass in some coordinates."""
        wanted = dict.fromkeys("HC0" if kind == "HC1" else kind for kind in kinds)
        repeated = {pair: pairs.repeated() for pair, pairs in sums.pairs.items()}
        first = PanelScores(
            self.plan, sums.shift, sums.levels, absorbed.values, singletons, turn,
            tuple(kind for kind in wanted if kind != "nonrobust"), sums.by_level[0].weights,
            repeated if len(self.plan.clusters) > 1 and "cluster" in kinds else {},
        )  # fmt: skip
        scores: PanelScores = self.rows.scan(self.layout, first)
        scores.flush()
        if scores.rows != sums.rows:
            raise InputError(
                f"The passes over the data read {sums.rows:,} and {scores.rows:,} rows. The data"
                " must be the same in every pass."
            )
        return scores

    def _independent(
        self, sums: PanelSums, absorbed: AbsorbedEffects, singletons: Singletons, drop: bool
    ) -> tuple[Flags, Coordinates]:
        """Which columns are no combinations of effects and columns before them, and coordinates of
        these.
        """
        products, whole = within_products(sums, absorbed.values), sums.centred_products()
        sizes = np.sqrt(np.maximum(np.diag(whole), 0.0))
        means = np.abs(sums.total / sums.weight + sums.shift) * np.sqrt(sums.weight)
        constant = sizes <= CONSTANT * means
        if constant[-1]:
            raise InputError(f"The response {self.names[-1]!r} is constant.")
        coordinates = Coordinates.start(products, np.where(constant, 1.0, sizes))
        dependent = constant.copy()
        if coordinates.apart.any():
            gram = np.zeros_like(products)
            for _ in range(PASSES):
                turn = coordinates.turn
                gram = self._scores(sums, absorbed, singletons, turn).gram
                dependent |= coordinates.dependent(gram)
                coordinates = coordinates.decided(gram)
                if not (coordinates.apart & ~dependent).any():
                    break
            back = linalg.solve_triangular(turn, np.eye(len(turn)))
            left = float((back.T @ gram @ back)[-1, -1])
            if left <= (1e-10 * sizes[-1]) ** 2:
                raise InputError(
                    f"The response {self.names[-1]!r} is in the span of the fixed effects, so there"
                    " is nothing to explain."
                )
            dependent[-1] = False  # an exact fit
        if dependent.any() and not drop:
            self._refuse(int(np.flatnonzero(dependent)[0]), products, sizes, dependent)
        if dependent[:-1].all():
            raise InputError(
                "Every regressor is a combination of fixed effects; there is nothing to estimate."
            )
        return ~dependent, coordinates.only(~dependent)

    def _refuse(self, column: int, products: Array, sizes: Array, dependent: Flags) -> None:
        """Name a column that is a combination of others."""
        effects = ", ".join(repr(effect.name) for effect in self.plan.effects)
        name = self.names[column]
        alone = products[column, column] <= 1e-12 * sizes[column] ** 2
        others = ", ".join(
            repr(self.names[place]) for place in range(column) if not dependent[place]
        )
        of = f"of the fixed effects {effects}" + ("" if alone else f" and the columns {others}")
        raise InputError(
            f"The column {name!r} is a combination {of}, so its coefficient is not defined;"
            " remove it, or pass on_collinear='drop'.",
            column=name,
            argument="on_collinear",
        )

    def _parameters(
        self, sums: PanelSums, equations: NormalEquations, regressors: int, exact: bool
    ) -> Parameters:
        levels = tuple(int((by.counts > 0).sum()) for by in sums.by_level)
        rank: int | None = levels[0]
        if len(levels) == 2:
            rank = sum(levels) - len(np.setdiff1d(equations.components, [-1]))
        elif len(levels) > 2:
            rank = equations.rank() if exact and sum(levels) <= MOST_DENSE else None
        parameters = Parameters(sums.rows, regressors, levels, (False,) * len(levels), rank)
        if sums.rows - regressors - parameters.absorbed(False) <= 0:
            raise InputError(
                f"{sums.rows:,} observations leave no degrees of freedom for {regressors}"
                f" regressors and {sum(levels):,} levels of fixed effects."
            )
        return parameters

    def _scored(
        self, sums: PanelSums, absorbed: AbsorbedEffects, singletons: Singletons,
        kinds: Sequence[str], chosen: Flags, coordinates: Coordinates, parameters: Parameters,
    ) -> tuple[PanelScores, Coordinates]:  # fmt: skip
        """The last pass, and its coordinates: in it the estimates do not move."""
        whole = np.zeros((len(chosen), int(chosen.sum())))
        for _ in range(PASSES):
            whole[chosen] = coordinates.turn
            last = self._scores(sums, absorbed, singletons, whole, kinds)
            if _settled(last, parameters):
                return last, coordinates
            coordinates = coordinates.decided(last.gram)
        raise NotExactError(
            "The estimates still move from pass to pass: inside the fixed effects the regressors"
            " vary too little for double precision. Subtract means by level in the data first, or"
            " remove a regressor."
        )

    def _finished(
        self, sums: PanelSums, absorbed: AbsorbedEffects, singletons: Singletons,
        equations: NormalEquations, last: PanelScores, coordinates: Coordinates, chosen: Flags,
        parameters: Parameters,
    ) -> PanelModel:  # fmt: skip
        """The solution and the middles of covariances, in its orthonormal coordinates."""
        gram, turn = last.gram, coordinates.turn
        root = linalg.cholesky(gram[:-1, :-1])
        inverse = linalg.solve_triangular(root, np.eye(len(root)))
        move = inverse @ (inverse.T @ gram[:-1, -1])
        scale = 1 / turn[-1, -1]  # of the residuals
        whitening = turn[:-1, :-1] @ inverse
        params = scale * (turn[:-1, :-1] @ move - turn[:-1, -1])
        rss = scale**2 * float(gram[-1, -1] - gram[:-1, -1] @ move)
        unwhitening = linalg.solve_triangular(whitening, np.eye(len(whitening)))
        solution = LeastSquaresSolution(
            np.zeros(len(params)), params, whitening, params, whitening, max(rss, 0.0),
            unwhitening @ params, unwhitening,
        )  # fmt: skip
        back = linalg.solve_triangular(turn, np.eye(len(turn)))
        change = scale * inverse
        clusters = ClusterMiddles.of(last.clusters, change)
        check_cluster_counts(self.plan.clusters, clusters)
        names = np.array(self.names[:-1], dtype=object)
        return PanelModel(
            formula=self.text,
            design=self.design,
            plan=self.plan,
            names=list(names[chosen[:-1]]),
            dropped=tuple(names[~chosen[:-1]]),
            solution=solution,
            middles={kind: change.T @ m @ change for kind, m in last.middles.items()},
            clusters=clusters,
            parameters=parameters,
            total=float(sums.centred_products()[-1, -1]),
            within=float((back.T @ gram @ back)[-1, -1]),
            log_weights=sums.log_weights,
            singletons=singletons.rows,
            absorbed=absorbed,
            levels=sums.levels[: len(self.plan.effects)],
            counts=[by.counts for by in sums.by_level],
            components=equations.components if len(self.plan.effects) == 2 else None,
            shift=sums.shift,
            chosen=chosen,
        )


def _settled(last: PanelScores, parameters: Parameters) -> bool:
    """Whether the estimates of a pass are those that its scores were taken at."""
    gram = last.gram
    off = gram[:-1, :-1] - np.eye(len(gram) - 1)
    if np.abs(off).max() > ROUND:
        return False
    degrees = parameters.rows - parameters.regressors - parameters.absorbed(False)
    move = np.abs(gram[:-1, -1])
    errors = [np.full(len(move), np.sqrt(gram[-1, -1] / degrees))]
    errors += [np.sqrt(np.diag(middle)) for middle in last.middles.values()]
    errors += [
        np.sqrt(np.diag(sums.middle)) for ways, sums in last.clusters.items() if len(ways) == 1
    ]
    rounding = 2**10 * np.finfo(float).eps * np.sqrt(gram[-1, -1])
    return all((move <= MOVED * error + rounding).all() for error in errors)
