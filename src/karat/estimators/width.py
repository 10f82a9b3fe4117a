"""How many columns a model sees, and whether a coreset of so many pays.

A coreset of least squares with w columns keeps m = binom(w + 2, 2) moments.  It has up to m rows, and finding them takes
about m^3 operations; a fit on all n rows takes n w^2.  So wide tables are fitted faster as they are:

    most rows kept    parts * m  >=  n / 2
    slow              m^3  >  SLOWER * n * w^2 * candidates

Transformers change w.  The number of columns that they make is found on a sample, because it must cost little."""

from __future__ import annotations

import warnings
from math import comb
from typing import Any

import numpy as np
from sklearn import config_context

from karat._data import containers
from karat.estimators.category_codes import coded, with_codes
from karat.estimators.covers import cover
from karat.estimators.training_rows import TrainingRows
from karat.estimators.transformers import fit_and_transform, narrows, transform

SAMPLE = 512  # rows on which transformers are tried
SHARE = 0.5  # of the rows in coresets from which on nothing is gained
SLOWER = 4  # times as long as a fit on all rows, by the number of operations, from which on nothing is gained


def made_columns(rows: TrainingRows, *fronts: Any) -> int:
    """The columns that transformers, one after the other, make of these rows; of a sample of them, so it may be some less."""
    count = containers.row_count(rows.table) if rows.positions is None else len(rows.positions)
    some = rows.part(np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(np.intp)))
    table = some.X
    for front in fronts:
        if front is not None:
            try:
                with config_context(skip_parameter_validation=True), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # they would speak of the sample
                    table = _made(some.resolved(front), table, some.y)
            except Exception:  # a sample may lack what a transformer needs; the fit itself will tell
                break
    return int(table.shape[1]) if hasattr(table, "shape") else 1


def _made(front: Any, table: Any, y: Any) -> Any:
    """What transformers make of a table, or codes in its place, which have as many columns but one per encoded one."""
    spanned = None if narrows(front) else cover(front)
    codes = None if spanned is None else with_codes(spanned, int(table.shape[1]))
    if codes is not None:
        return np.asarray(coded(codes, table)[1])
    fitted, made = fit_and_transform(front, table, y)
    return transform(fitted, table) if made is None else made


def moments_of(columns: int, targets: int) -> int:
    """The moments that decide least squares of so many columns."""
    return comb(columns + targets + 2, 2)


def pays(count: int, columns: int, targets: int, parts: int, candidates: int) -> bool:
    """Whether coresets of parts of ``count`` rows take less time than fits of all candidates on all rows."""
    moments = moments_of(columns, targets)
    return parts * moments < SHARE * count and moments**3 <= SLOWER * count * columns**2 * candidates
