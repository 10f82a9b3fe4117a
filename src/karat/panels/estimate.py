"""What is found from the rows of a panel, as a generator of passes: each consumer that it yields is
to be sent back with the sums of all rows.

sums        products, sums by level, pairs of levels (:mod:`.sums`); singletons are left out (in one
            more pass, if they are far larger than the other rows, or hang in long chains), and the
            effects of all columns solved for (:mod:`.solve`)
decisions   one pass, if some regressor seems to be a combination of effects and others
scores      one pass, or two if the first estimates were off by more than 1e-10 standard errors,
            which happens where columns vary far more between levels than within (:mod:`.scores`)
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy import linalg

from karat.core.regression import ADJUSTED, CLUSTERED
from karat.engine.least_squares import LeastSquaresSolution
from karat.engine.linalg import Array, Flags
from karat.engine.products import Products
from karat.errors import InputError, NotExactError, several
from karat.formulas.design import Design
from karat.inference.submodels import adjusted
from karat.io.row_hashes import OTHER_ROWS
from karat.panels.model import (
    MOST_DENSE,
    ClusterMiddles,
    PanelModel,
    Parameters,
    check_cluster_counts,
)
from karat.panels.rows import PanelPass, PanelPlan
from karat.panels.scores import PanelScores
from karat.panels.singletons import Singletons, drop_singletons
from karat.panels.solve import AbsorbedEffects, NormalEquations, absorb_effects, within_products
from karat.panels.sums import PanelSums
from karat.panels.whiten import Coordinates

CONSTANT = 64 * np.finfo(float).eps  # of its size: a column that varies less is constant
MOVED = 1e-10  # standard errors: what estimates may move by in the last pass
ROUND = 1e-8  # what the products of the last pass may be off from orthonormal ones
EXPECTED = 0.01  # what the first products may be off; those of other rows are
LARGER = 1e4  # times the squares of the rows that are left: singletons that cost them digits
PASSES = 4  # at the solution, at most
EXTREME = 2.0**200  # size of a column beyond which squares of coefficients may leave the doubles

T = TypeVar("T")
P = TypeVar("P", bound=PanelPass)
Passes = Generator[PanelPass, Any, T]  # that return T


def _pass(empty: P) -> Passes[P]:
    """The consumer after all rows."""
    filled: P = yield empty
    return filled


@dataclass(frozen=True)
class SolvedPanel:
    """What the first pass found.

    Attributes
    ----------
    sums : PanelSums
    singletons : Singletons
    equations : NormalEquations
    absorbed : AbsorbedEffects
    repeated : dict
        The combinations of two ways of clustering that have several rows.
    """

    sums: PanelSums
    singletons: Singletons
    equations: NormalEquations
    absorbed: AbsorbedEffects
    repeated: dict[tuple[int, int], np.ndarray]

    @staticmethod
    def solved(sums: PanelSums, singletons: Singletons) -> SolvedPanel:
        """Solve for the effects."""
        equations = NormalEquations(sums)
        repeated = {pair: pairs.repeated() for pair, pairs in sums.pairs.items()}
        sums.pairs.clear()  # their memory
        absorbed = absorb_effects(sums, equations)
        return SolvedPanel(sums, singletons, equations, absorbed, repeated)

    def parameters(self, regressors: int, exact: bool) -> Parameters:
        """How many there are; raises if no degree of freedom is left."""
        rows = self.sums.rows
        levels = tuple(int((by.counts > 0).sum()) for by in self.sums.by_level)
        rank: int | None = levels[0]
        if len(levels) == 2:
            rank = sum(levels) - len(np.setdiff1d(self.equations.components, [-1]))
        elif len(levels) > 2:
            rank = self.equations.rank() if exact and sum(levels) <= MOST_DENSE else None
        parameters = Parameters(rows, regressors, levels, (False,) * len(levels), rank)
        if rows - regressors - parameters.absorbed(False) <= 0:
            raise InputError(
                f"No degrees of freedom are left: {several(rows, 'observation')},"
                f" {several(regressors, 'regressor')} and {several(sum(levels), 'level')} of fixed"
                " effects."
            )
        return parameters


@dataclass(frozen=True)
class Estimation:
    """How a panel is estimated.

    Attributes
    ----------
    plan : PanelPlan
    design : Design
    text : str
        The formula.
    sample : str
        Which rows these are, for messages.
    """

    plan: PanelPlan
    design: Design
    text: str
    sample: str = ""

    @property
    def names(self) -> list[str]:
        """Of the regressors, then the response."""
        return [*self.design.names, self.design.formula.response.text]

    def passes(self, kinds: Sequence[str], drop: bool, exact: bool) -> Passes[PanelModel]:
        """The estimates, and sums for covariances."""
        first = SolvedPanel.solved(*(yield from self._summed()))
        chosen, coordinates = yield from self._independent(first, drop)
        parameters = first.parameters(int(chosen.sum()) - 1, exact)
        last, coordinates = yield from self._scored(first, kinds, chosen, coordinates, parameters)
        parameters = replace(parameters, nested=tuple(last.nested()))
        return self._finished(first, last, coordinates, chosen, parameters, kinds)

    def _check_size(self, sizes: Array) -> None:
        """Refuse columns whose squares, or those of their coefficients, leave the doubles."""
        extreme = (sizes > 0) & ((sizes < 1 / EXTREME) | ~(sizes <= EXTREME))
        if extreme.any():
            name, size = self.names[int(extreme.argmax())], float(sizes[extreme.argmax()])
            raise InputError(
                f"Change the units of the column {name!r}: its values differ by about {size:.0e},"
                " so that variances overflow or underflow in double precision.",
                column=name,
            )

    def _summed(self) -> Passes[tuple[PanelSums, Singletons]]:
        """The sums without singletons, again if these took the digits of the other rows along."""
        first = PanelSums(self.plan, np.zeros(self.plan.width))
        sums = yield from _pass(first)
        sums.finish()
        read, sizes = sums.rows, np.diag(sums.products).copy()
        self._check_size(np.sqrt(sizes / max(read, 1)))
        singletons = drop_singletons(sums)
        if not sums.rows:
            raise InputError(
                f"All {read:,} rows are singletons: each is alone in a level of a fixed effect, so"
                " nothing is left to estimate from."
            )
        if singletons.rows:
            warnings.warn(
                f"{self.sample}Some rows are singletons, each alone in a level of a fixed effect"
                f" that fits it exactly: {singletons.rows:,} of {read:,} left out.",
                UserWarning,
                stacklevel=8,
            )
        for levels in sums.levels:
            levels.freeze()
        for _ in range(PASSES):
            lost = sizes > LARGER * np.diag(sums.centred_products())
            if not singletons.counted and not (singletons.rows and lost.any()):
                break
            singletons = replace(singletons, counted=False)
            shift = sums.shift + sums.total / sums.weight
            again = PanelSums(self.plan, shift, sums.levels, singletons)
            sums.pairs.clear()  # their memory
            sums = yield from _pass(again)
            sums.finish()
            sizes = np.diag(sums.products).copy()
        return sums, singletons

    def _scores(
        self, first: SolvedPanel, turn: Array, kinds: Sequence[str] = ()
    ) -> Passes[PanelScores]:
        """A pass in some coordinates."""
        sums = first.sums
        wanted = dict.fromkeys("HC0" if kind == "HC1" else kind for kind in kinds)
        if not ADJUSTED.keys().isdisjoint(wanted):
            wanted[CLUSTERED] = None
        empty = PanelScores(
            self.plan, sums.shift, sums.levels, first.absorbed.values, first.singletons, turn,
            tuple(kind for kind in wanted if kind != "nonrobust"), sums.by_level[0].weights,
            first.repeated if len(self.plan.clusters) > 1 and CLUSTERED in kinds else {},
        )  # fmt: skip
        scores = yield from _pass(empty)
        scores.flush()
        if scores.rows != sums.rows:
            raise InputError(OTHER_ROWS)
        return scores

    def _independent(self, first: SolvedPanel, drop: bool) -> Passes[tuple[Flags, Coordinates]]:
        """Which columns are no combinations of effects and columns before them, and coordinates of
        these.
        """
        sums = first.sums
        products, whole = within_products(sums, first.absorbed.values), sums.centred_products()
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
                gram = (yield from self._scores(first, turn)).gram
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
            if dependent[-1]:
                first.parameters(int((~dependent).sum()), False)  # raises if there are too few rows
                raise InputError(
                    f"The response {self.names[-1]!r} is a combination of the regressors and the"
                    " fixed effects, up to rounding, so nothing is left to estimate errors from."
                )
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
            f" {'name a reference in i(..., ref=)' if '::' in name else 'remove it'}, or pass"
            " on_collinear='drop'.",
            column=name,
            argument="on_collinear",
        )

    def _scored(
        self, first: SolvedPanel, kinds: Sequence[str], chosen: Flags, coordinates: Coordinates,
        parameters: Parameters,
    ) -> Passes[tuple[PanelScores, Coordinates]]:  # fmt: skip
        """The last pass, and its coordinates: in it the estimates do not move."""
        whole = np.zeros((len(chosen), int(chosen.sum())))
        for attempt in range(PASSES):
            whole[chosen] = coordinates.turn
            last = yield from self._scores(first, whole, kinds)
            if attempt == 0 and np.abs(last.gram - np.eye(len(last.gram))).max() > EXPECTED:
                raise InputError(OTHER_ROWS)
            if _settled(last, parameters):
                return last, coordinates
            coordinates = coordinates.decided(last.gram)
        raise NotExactError(
            "The estimates still move from pass to pass: inside the fixed effects the regressors"
            " vary too little for double precision. Subtract means by level in the data first, or"
            " remove a regressor."
        )

    def _finished(
        self, first: SolvedPanel, last: PanelScores, coordinates: Coordinates, chosen: Flags,
        parameters: Parameters, kinds: Sequence[str],
    ) -> PanelModel:  # fmt: skip
        """The solution and the middles of covariances, in its orthonormal coordinates."""
        sums, gram, turn = first.sums, last.gram, coordinates.turn
        root = linalg.cholesky(gram[:-1, :-1])
        inverse = linalg.solve_triangular(root, np.eye(len(root)))
        move = inverse @ (inverse.T @ gram[:-1, -1])
        scale = 1 / turn[-1, -1]  # of the residuals
        whitening = turn[:-1, :-1] @ inverse
        params = scale * (turn[:-1, :-1] @ move - turn[:-1, -1])
        rss = scale**2 * float(gram[-1, -1] - gram[:-1, -1] @ move)
        unwhitening = linalg.solve_triangular(whitening, np.eye(len(whitening)))
        solution = LeastSquaresSolution(
            np.zeros(len(params)), 0.0, params, whitening, params, whitening, max(rss, 0.0),
            unwhitening @ params, unwhitening,
        )  # fmt: skip
        back = linalg.solve_triangular(turn, np.eye(len(turn)))
        change = scale * inverse
        clusters = ClusterMiddles.of(last.clusters, change)
        check_cluster_counts(self.plan.clusters, clusters)
        names = np.array(self.names[:-1], dtype=object)
        middles = {kind: change.T @ m @ change for kind, m in last.middles.items()}
        products = self._cluster_products(last, turn)
        for kind in ADJUSTED.keys() & set(kinds):
            assert products is not None
            choice = products.choice(range(len(params)), solution.shift, whitening)
            middles[kind] = adjusted(products, choice, kind)
        return PanelModel(
            formula=self.text,
            design=self.design,
            plan=self.plan,
            names=list(names[chosen[:-1]]),
            dropped=tuple(names[~chosen[:-1]]),
            solution=solution,
            middles=middles,
            products=products,
            clusters=clusters,
            parameters=parameters,
            total=float(sums.centred_products()[-1, -1]),
            within=float((back.T @ gram @ back)[-1, -1]),
            log_weights=sums.log_weights,
            singletons=first.singletons.rows,
            missing=sums.missing,
            absorbed=first.absorbed,
            levels=sums.levels[: len(self.plan.effects)],
            counts=[by.counts for by in sums.by_level],
            components=first.equations.components if len(self.plan.effects) == 2 else None,
            shift=sums.shift,
            chosen=chosen,
        )

    def _cluster_products(self, last: PanelScores, turn: Array) -> Products | None:
        """The sums of every cluster, in the coordinates ``turn``; raises if an effect is not nested
        in clusters.
        """
        if last.by_cluster is None:
            return None
        for effect, nested in zip(self.plan.effects, last.nested(), strict=True):
            if not nested:
                raise NotExactError(
                    f"CR2, CR3 and the wild bootstrap need fixed effects whose levels each lie"
                    f" within one cluster of {self.plan.clusters[0]!r}; levels of {effect.name!r}"
                    " lie in several, and without one cluster their effects would differ. Use"
                    f" cov_type='cluster', or write C({effect.name}) among the regressors if it has"
                    " few levels."
                )
        sums = last.by_cluster.values[:, last.by_cluster.counts > 0]
        nothing = np.zeros((len(sums), 0))
        return Products(np.zeros(len(turn)), turn, sums.sum(axis=1), nothing @ nothing.T, sums)


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
