"""Subtracting the means of firms and of years is not absorbing both, if the panel is unbalanced.

duckreg 0.4.1 does so (``DuckDoubleDemeaning``), without a warning: -0.356 where 0.498 is right.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from panels.dummies import Dummies
from panels.made import late_entrants

import karat

FEOLS, DUCKREG = 0.49787075, -0.35639228  # pyfixest 0.60 and duckreg 0.4.1 on these rows


def mean_of(codes, values):
    return (np.bincount(codes, values) / np.bincount(codes))[codes]


def test_an_unbalanced_panel_is_absorbed_and_not_demeaned_twice():
    made = late_entrants()
    (firm, year), x, y = made.factors, made.x[:, 0], made.y
    twice = x - mean_of(firm, x) - mean_of(year, x) + x.mean()
    wrong = (twice @ (y - y.mean())) / (twice @ twice)
    fit = karat.ols("y ~ x1 | f0 + f1", pd.DataFrame(made.columns()))
    right = Dummies(made.x, y, made.factors).params
    assert abs(wrong - DUCKREG) < 1e-7
    assert abs(fit.params["x1"] - FEOLS) < 1e-7
    assert abs(fit.params["x1"] - right[0]) < 1e-12
