"""The bound on the rounding of sums is that of the sums that were made."""

from __future__ import annotations

import numpy as np
import pytest

from karat.engine.kernel import fit_moments, pilot_size
from karat.engine.powers import Powers
from karat.engine.rows import Rows
from karat.engine.sums import STACKED, squares_rounding


@pytest.mark.parametrize("copies", [0, 5, 15])
def test_where_a_sample_drops_columns_before_the_pass(copies):
    """Few coordinates are summed in other pieces than many variables, with more roundings."""
    distinct = np.random.default_rng(0).standard_normal((20_000, STACKED - 5))
    rows = Rows([np.hstack([distinct, distinct[:, :copies]])])
    kernel = Powers(rows.columns, 2, affine=True)
    fitted, _ = fit_moments(rows, kernel, np.arange(pilot_size(len(rows))))
    frame = fitted.frame
    assert len(frame.second) <= STACKED
    least = squares_rounding(frame.count, len(frame.second), frame.degree + 2)
    assert frame.sum_errors(100)[0] >= least
