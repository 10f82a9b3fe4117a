"""HC0 of kept rows from the fourth moments of their cells (:mod:`karat.engine.fourth_moments`),
beside sums over the rows themselves, from which clustered errors follow.

In every cell the columns x of a design and the response are affine forms of the data, so the
residual e is one, too, and the sum of u e^2 x x' is a function of fourth moments: weights count
rows here.
"""

from __future__ import annotations

import numpy as np

from karat.engine.fourth_moments import FourthSums
from karat.engine.linalg import Array
from karat.errors import NotExactError
from karat.formulas.kept import KeptSource
from karat.formulas.layout import DesignLayout
from karat.inference.instruments import StageScores
from karat.inference.scores import Scores
from karat.inference.submodels import LEAST


def add_robust_sums(
    scores: Scores | StageScores, rows: KeptSource, layout: DesignLayout,
    endogenous: tuple[int, ...],
) -> None:  # fmt: skip
    """Add the sums of HC0, and those of submodels if they are wanted, to scores of kept rows.

    ``endogenous`` are the positions of the endogenous columns, whose first stages come last.
    """
    stages = scores.stages if isinstance(scores, StageScores) else [scores]
    forms, fourth = rows.forms(layout), rows.kept.fourth
    assert fourth is not None
    fixed = int(stages[0].solution.intercept)
    if fixed:  # one everywhere
        constant = np.zeros((*forms.shape[:2], 1))
        constant[:, 0] = 1.0
        forms = np.concatenate([constant, forms], axis=2)
    responses = [forms.shape[2] - 1, *(fixed + place for place in endogenous)]
    for stage, response in zip(stages, responses, strict=True):
        _add_to_stage(stage, fourth, forms, response)


def _add_to_stage(scores: Scores, fourth: FourthSums, forms: Array, response: int) -> None:
    """Those of one solution, whose response is one of the forms."""
    estimate, k = scores.solution.estimate, scores.solution.width
    columns = scores.solution.columns
    base = forms[:, :, [*range(columns), response]]
    base[:, 0] -= np.append(estimate.shift, estimate.centre)
    # whitened columns, the residual, and the combinations that belong to the parameters
    turn = np.zeros((columns + 1, 2 * k + 1))
    turn[:columns, :k] = estimate.whitening
    turn[:, k] = np.append(-estimate.shifted, 1.0)
    turn[:columns, k + 1 :] = estimate.whitening @ estimate.root.T
    i, j = np.triu_indices(k) if scores.submodels else (np.arange(0), np.arange(0))
    first = np.concatenate([i, np.arange(k), np.arange(k + 1, 2 * k + 1)])
    second = np.concatenate([j, np.full(2 * k, k)])
    totals, squares, errors = fourth.squares(base, turn, first, second)
    if not errors[-k:].max() <= LEAST:
        raise NotExactError(
            "The fourth moments of these cells have too few digits for HC0 and HC1 (an error of"
            f" about {errors[-k:].max():.0e}): the columns are nearly collinear, or the residuals"
            " that a coefficient depends on are rounding errors. Call karat.ols with the data."
        )
    of_rows = slice(0, -k)
    totals, squares = totals[of_rows], squares[of_rows, of_rows]
    scores.sums["HC0"] = squares[-k:, -k:]
    if scores.submodels:
        assert scores.products is not None
        scores.products.put_single(totals, squares)
