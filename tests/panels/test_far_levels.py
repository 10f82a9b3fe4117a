"""Levels far from the others, in graphs too large for eigenvalues: rounding of their sums must not
lead the solver astray, and rows that are left out must not cost the others their digits.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from panels.dummies import Dummies
from panels.made import Draws, panel

import karat


def wide(shift: float) -> pd.DataFrame:
    """A panel of 800 firms, each with some of the 400 products near it; y of one firm is far from
    the others.
    """
    draws = Draws(7)
    firm = draws.below(800, 6000)
    product = (firm // 2 + draws.below(5, 6000)) % 400
    x = draws.noise(6000) + draws.noise(800)[firm]
    y = x / 2 + draws.noise(800)[firm] + draws.noise(400)[product] + draws.noise(6000)
    return pd.DataFrame({"firm": firm, "product": product, "x": x, "y": y + shift * (firm == 3)})


@pytest.mark.filterwarnings("ignore:.*are singletons, each alone:UserWarning")
@pytest.mark.parametrize("shift", [2.0**16, 2.0**20, 2.0**24])
def test_a_level_far_from_the_others_changes_nothing_but_its_effect(shift):
    near = karat.ols("y ~ x | firm + product", wide(0.0))
    far = karat.ols("y ~ x | firm + product", wide(shift))
    rounding = 64 * np.finfo(float).eps * shift
    assert abs(far.params["x"] - near.params["x"]) < rounding * near.bse["x"]
    assert abs(far.bse["x"] / near.bse["x"] - 1) < rounding


@pytest.mark.filterwarnings("ignore:.*are singletons, each alone:UserWarning")
@pytest.mark.parametrize("seed", [0, 2, 6, 7])  # one effect, two, weights, three
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("size", [2.0**20, 2.0**40, 2.0**90])
def test_a_singleton_of_any_size_costs_the_other_rows_no_digits(seed, first, size):
    made = panel(seed)
    frame = pd.DataFrame(made.columns())
    alone = frame.iloc[[0]].copy()
    alone["f0"] = "another" if isinstance(frame["f0"].iloc[0], str) else 10**6
    alone[["y", *made.names]] = size
    frame = pd.concat([alone, frame] if first else [frame, alone], ignore_index=True)
    fit = karat.ols(
        made.formula, frame, cov_type="HC1", weights=None if made.weights is None else "w"
    )
    oracle = Dummies(made.x, made.y, made.absorbed, made.weights)
    errors = np.sqrt(np.diag(oracle.hc1()).astype(float))
    assert fit.nobs == oracle.n
    assert np.abs((fit.params - oracle.params) / errors).max() < 1e-11
    assert np.abs(fit.bse / errors - 1).max() < 1e-11
    assert abs(fit.rsquared - oracle.r2()) < 1e-11
    assert abs(fit.rsquared_within - oracle.r2_within()) < 1e-11
