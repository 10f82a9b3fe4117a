"""HC2 and HC3 with one effect against the leverages of indicators in long double."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from panels.dummies import Dummies
from panels.made import panel

import karat
from karat.errors import NotExactError

pytestmark = pytest.mark.filterwarnings("ignore:.*are singletons, each alone:UserWarning")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 16, 32])  # one effect
def test_robust_errors_by_leverages(seed, weighted):
    made = panel(seed)
    weights = 1 + np.arange(len(made.y)) % 5 if weighted else None
    frame = pd.DataFrame(made.columns()).assign(w=1.0 if weights is None else weights)
    fit = karat.ols(made.formula, frame, cov_type=["HC2", "HC3"], weights="w" if weighted else None)
    oracle = Dummies(made.x, made.y, made.absorbed, weights)
    rest = 1 - oracle.leverages()
    for kind, scale in (("HC2", np.sqrt(rest)), ("HC3", rest)):
        scores = oracle.scores / scale[:, None]
        right = oracle.bread @ (scores.T @ scores) @ oracle.bread
        errors = np.sqrt(np.diag(right).astype(float))
        assert np.abs(fit.with_covariance(kind).bse / errors - 1).max() < 1e-10


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
def test_several_effects_are_refused(kind):
    made = panel(1)
    with pytest.raises(NotExactError, match="needs the leverage of every row"):
        karat.ols(made.formula, pd.DataFrame(made.columns()), cov_type=kind)
