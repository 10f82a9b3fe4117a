"""Transformers of a pipeline: which are exact, and how they are fitted.

Transformers are fitted by scikit-learn itself, on all rows of their part of the data: all rows
outside cross-validation, the training rows inside it.  So whatever they learn (quantiles,
categories, components) is what they learn without karat.  Each listed one transforms each row
separately, and what follows it is fitted on few rows, made of the columns that it gives.

Scalers, selections of columns and rotations need not even that.  They are affine maps, so that rows
made of the raw columns may be transformed; and a :class:`~sklearn.preprocessing.StandardScaler`
learns moments, which few rows keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from karat.compat.sklearn import weight_request
from karat.data import containers
from karat.data.transformed import dense
from karat.errors import NotExactError
from karat.estimators import registry
from karat.estimators.fitting import key_of, nested_estimators, overwrites, refuse, unknown

PROBED = 400  # rows on which transformers that the user vouches for are tried


def branches(transformer: Any) -> list[Any]:
    """The direct parts of a pipeline, column transformer or union; none for a single
    transformer.
    """
    key = key_of(transformer)
    if key == "Pipeline":
        return [step for _, step in transformer.steps]
    if key == "ColumnTransformer":
        return [step for _, step, _ in transformer.transformers] + [transformer.remainder]
    return [step for _, step in transformer.transformer_list] if key == "FeatureUnion" else []


def single_steps(transformer: Any) -> Iterator[Any]:
    """Every single transformer, depth first."""
    if transformer in registry.UNCHANGED:
        return
    if key_of(transformer) in registry.COMPOSITES:
        for branch in branches(transformer):
            yield from single_steps(branch)
    else:
        yield transformer


def check_transformers(transformer: Any, rowwise: tuple[Any, ...] = ()) -> None:
    """Refuse transformers that are not known to transform each row separately.

    The user vouches for the classes and functions of ``rowwise``; :func:`check_rowwise` tests them.
    """
    for step in single_steps(transformer):
        if is_known(step) or type(step) in rowwise:
            continue
        name = type(step).__name__
        if key_of(step) == "FunctionTransformer":
            if any(step.func is function for function in rowwise):
                continue
            name = getattr(step.func, "__name__", str(step.func))
            raise refuse(
                step,
                f"karat does not know whether {name} transforms each row separately; use a NumPy"
                " function of numbers, such as np.log1p or np.clip, apply it before building, or,"
                f" if you know that it does, pass rowwise=[{name}]",
            )
        if key_of(step) in registry.WHY_NOT:
            raise unknown(step)
        raise NotExactError(
            f"{name} is not known to transform each row separately, so the model behind it cannot"
            " be fitted on few rows. Transform the columns before building, or leave the step out."
            f" If you know that it does, pass rowwise=[{name}]."
        )


def is_known(step: Any) -> bool:
    """Whether a single transformer is known to transform each row separately."""
    if key_of(step) != "FunctionTransformer" or step.func is None:
        return key_of(step) in registry.TRANSFORMERS
    options = step.kw_args or {}
    # A table as an argument belongs to particular rows; out= and copy=False write in place.
    takes_table = (
        any(np.ndim(value) > 1 for value in options.values())
        or "out" in options
        or options.get("copy") is False
    )
    by_row = isinstance(step.func, np.ufunc) or step.func in registry.ROW_FUNCTIONS
    return by_row and not takes_table


def check_rowwise(fitted: Any, X: Any) -> None:
    """Test fitted transformers that the user vouches for on blocks of rows in another order.

    This finds transformers that look at other rows (a mean, a rank, the order); it cannot prove
    that a transformer does not.
    """
    vouched = [step for step in single_steps(fitted) if not is_known(step)]
    if not vouched:
        return
    count = containers.row_count(X)
    probed = np.unique(np.linspace(0, count - 1, min(count, PROBED)).astype(np.intp))
    of_all_rows = dense(transform(fitted, X))[probed]
    shuffled = np.random.default_rng(0).permutation(probed)
    blocks = [block for block in np.array_split(shuffled, 2) if len(block)]
    of_blocks = np.concatenate(
        [dense(transform(fitted, containers.take_rows(X, block))) for block in blocks]
    )
    expected = of_all_rows[np.searchsorted(probed, np.concatenate(blocks))]
    if of_blocks.shape != expected.shape or not _same(of_blocks, expected):
        names = ", ".join(sorted({_name(step) for step in vouched}))
        raise NotExactError(
            f"rowwise names {names}, but it does not transform each row separately: a block of rows"
            " in another order gives other values than all rows do. Apply it before building, or"
            " leave the step out."
        )


def _name(step: Any) -> str:
    if key_of(step) == "FunctionTransformer":
        return str(getattr(step.func, "__name__", step.func))
    return type(step).__name__


def _same(table: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two tables are equal: numbers up to rounding, text and dates as text."""
    try:
        table, expected = table.astype(float), expected.astype(float)
    except (TypeError, ValueError):
        return bool(np.array_equal(table.astype(str), expected.astype(str)))
    slack = 1e-12 * np.nanmax(np.abs(expected), initial=0.0)
    return bool(np.allclose(table, expected, rtol=1e-10, atol=slack, equal_nan=True))


def scales(step: Any) -> bool:
    """Whether a single transformer maps every column affinely, whatever it learns."""
    return key_of(step) in registry.SCALERS and not getattr(step, "clip", False)


def only_scales(transformer: Any) -> bool:
    """Whether there are no steps but scalers."""
    if transformer is None or key_of(transformer) != "Pipeline":
        return transformer is None
    return all(step in registry.UNCHANGED or scales(step) for step in branches(transformer))


def is_affine(transformer: Any) -> bool:
    """Whether few rows of the raw columns may be transformed in place of all: scalers and
    selections, then a rotation.

    A rotation comes last: scaling what it gives would blow up directions in which the columns
    hardly vary, and of which few rows keep nothing.
    """
    if transformer is None or key_of(transformer) != "Pipeline":
        return transformer is None
    *before, last = [step for step in branches(transformer) if step not in registry.UNCHANGED] or [
        None
    ]
    if key_of(last) in registry.ROTATIONS and not getattr(last, "whiten", False):
        last = None
    return all(
        step is None or key_of(step) in registry.SELECTIONS or scales(step)
        for step in (*before, last)
    )


def fitted_by_moments(transformer: Any) -> bool:
    """Whether all steps come out the same if they are fitted on few rows with weights."""
    return only_scales(transformer) and all(
        key_of(step) in registry.MOMENT_FITTED for step in single_steps(transformer)
    )


def fit_and_transform(
    transformer: Any, X: Any, y: Any = None, weights: Any = None, other: Any = None
) -> tuple[Any, Any]:
    """A copy fitted on all rows of X, as scikit-learn fits it in a pipeline, and what it makes of
    them, or of other rows.

    Weights reach every step that takes them.
    """
    fitted = clone(transformer)
    probes = watch_randomness(fitted)
    X, y = containers.in_double(X), containers.in_double(y)
    X = containers.copied(X) if overwrites(fitted) else X
    with config_context(enable_metadata_routing=weights is not None):
        weighted = weights is not None and request_weights(fitted)
        options = {"sample_weight": weights} if weighted else {}
        fit = fitted.fit_transform if other is None else fitted.fit
        table = fit(X, y, **options)
    check_not_random(probes)
    check_rowwise(fitted, X)
    return fitted, table if other is None else transform(fitted, other)


def transform(fitted: Any, X: Any) -> Any:
    """The columns that fitted transformers make of rows, in double precision; X itself is left
    alone.
    """
    X = containers.in_double(X)
    return fitted.transform(containers.copied(X) if overwrites(fitted) else X)


def request_weights(estimator: Any) -> bool:
    """Make every part that takes sample weights ask for them, in place; returns whether there is
    one.
    """
    takers = [
        part
        for part in nested_estimators(estimator)
        if hasattr(part, "set_fit_request") and has_fit_parameter(part, "sample_weight")
    ]
    for part in takers:
        part.set_fit_request(sample_weight=True)
    return bool(takers)


def check_request(part: Any) -> None:
    """Refuse a part whose request says that it wants no sample_weight, or other weights than those
    of fit.
    """
    request = weight_request(part)
    if request is False:
        raise refuse(
            part,
            "set_fit_request(sample_weight=False) asks for a fit without weights, but karat gives"
            " weights to every step; leave the request out",
        )
    if isinstance(request, str) and request != "sample_weight":
        raise refuse(
            part,
            f"set_fit_request(sample_weight={request!r}) asks for weights of its own, but karat"
            " gives every step those of fit(X, y, sample_weight=...); leave the request out",
        )


def resolve_columns(transformer: Any, table: Callable[[], Any]) -> None:
    """Evaluate functions that choose columns on the rows of a table as they are, in place.

    Later rows may come in another type (single precision is computed in double), which must not
    change the choice.
    """
    key = key_of(transformer)
    if key == "Pipeline":
        first = next(
            (step for _, step in transformer.steps if step not in registry.UNCHANGED), None
        )
        resolve_columns(first, table)
    elif key == "FeatureUnion":
        for branch in branches(transformer):
            resolve_columns(branch, table)
    elif key == "ColumnTransformer" and any(
        callable(columns) for _, _, columns in transformer.transformers
    ):
        X = table()
        transformer.transformers = [
            (name, step, columns(X) if callable(columns) else columns)
            for name, step, columns in transformer.transformers
        ]


class _Probe(np.random.RandomState):
    """Random numbers that know whether they were used; copies are the same object."""

    def __deepcopy__(self, memo: Any) -> _Probe:
        return self

    def was_used(self) -> bool:
        now, then = (
            self.get_state(legacy=False)["state"],
            np.random.RandomState(0).get_state(legacy=False)["state"],
        )
        return now["pos"] != then["pos"] or not np.array_equal(now["key"], then["key"])


def check_not_random(probes: list[tuple[Any, _Probe]]) -> None:
    """Refuse a fitted part that has used its probe; take the others away."""
    for step, probe in probes:
        if probe.was_used():
            raise refuse(
                step,
                "its answer is random; give it an integer random_state, so that every fit gives the"
                " same answer",
            )
        step.set_params(random_state=None)


def watch_randomness(transformer: Any) -> list[tuple[Any, _Probe]]:
    """Give every part without a seed a probe; the parts and their probes."""
    probes = []
    for part in nested_estimators(transformer):
        options = part.get_params(deep=False)
        # Cyclic coordinate descent has a random_state, but does not use it.
        if options.get("random_state", 0) is None and options.get("selection") != "cyclic":
            probes.append((part, _Probe(0)))
            part.set_params(random_state=probes[-1][1])
    return probes
