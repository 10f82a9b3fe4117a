"""Advice for error messages: what a caller probably meant, and where the NaN is.

The pass does not look for NaN and infinity; it sums them like other numbers.  If a moment is then
not finite, one more pass finds the column to blame: the first with NaN or infinity; else one with
an outlier beyond every unit; else the one whose values are furthest from 1, because its powers
overflow or underflow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from karat import problems
from karat.engine.linalg import Array
from karat.engine.parts import Part
from karat.engine.points import LOOKED_AT
from karat.engine.rows import Rows, sample, sweep, typical
from karat.errors import InputError

# Names that other libraries give to an argument of karat.
SYNONYMS = {
    "sample_weight": ("weights", "weight", "sample_weights", "w"),
    "groups": ("group", "by", "fold", "folds"),
    "random_state": ("seed", "rng"),
    "problem": ("loss", "objective", "model", "task"),
    "y": ("target", "targets", "label", "labels"),
    "target": ("y", "label", "labels", "targets"),
    "X": ("data", "df", "frame"),
    "columns": ("features", "feature_names"),
    "on_missing": ("missing", "na", "dropna"),
    "source": ("path", "paths", "files"),
}
# Names under which a problem is known elsewhere.
KNOWN_AS = {
    "LeastSquares": (
        "ols",
        "linear",
        "linearregression",
        "regression",
        "squarederror",
        "mse",
        "lasso",
        "elasticnet",
    ),
    "LpRegression": ("lp",),
    "GroupedLogistic": ("logistic", "logisticregression", "logit"),
    "TensorContraction": ("tensor",),
    "GaussianMixture": ("gmm", "mixture", "em"),
    "LatentDirichlet": ("lda", "latentdirichletallocation"),
    "HiddenMarkov": ("hmm", "gaussianhmm", "categoricalhmm"),
    "ICA": ("fastica",),
    "Moments": ("covariance", "gram", "pca"),
}
# arguments of coreset_files
FILES = ("checkpoint", "memory", "columns", "key")
EXAMPLES = {
    "p": "4",
    "alpha0": "1.0",
    "function": "function",
    "problem": "karat.problems.LeastSquares()",
}
DATES = (
    "a date is no number until you choose one: days since a start (in pandas: (t - t.min()) /"
    " pandas.Timedelta('1D')), or parts of the date, such as month and weekday (t.dt.month,"
    " t.dt.dayofweek)"
)
IMPUTE = "Impute it, or leave such rows out with on_missing='drop'"
OR_MEAN = f"{IMPUTE} (or, features only, on_missing='mean')."
FILL = (
    "A target or weight cannot be filled with a mean: leave such rows out ('drop' instead of"
    " 'mean'), or fill it."
)
SHOWN = 20  # names that a message lists
DURATIONS = (
    "choose the unit of a duration: divide it by one hour or one day (in pandas: t /"
    " pandas.Timedelta('1h'))"
)
# times the typical size of a column: the squares of such a value and of the others do not fit into
# doubles of one unit
OUTLIER = 1e100


def unknown_argument(function: Callable[..., Any], unknown: Iterable[str]) -> TypeError:
    """The error for an unknown argument, with the one that the caller probably meant."""
    names = [
        name for name in inspect.signature(function).parameters if name not in ("self", "unknown")
    ]
    given = next(iter(unknown))
    meant = [name for name in names if given in SYNONYMS.get(name, ())] or get_close_matches(
        given, names, n=1
    )
    hint = f"; did you mean {meant[0]}=?" if meant else f"; it takes {', '.join(names)}."
    if function.__name__ == "coreset" and given in FILES:
        hint = (
            "; karat.coreset_files has it, for frames too: karat.coreset_files(X, 'y',"
            f" {given}=...)."
        )
    return TypeError(f"{function.__name__}() has no argument {given!r}{hint}")


def closest(name: str, names: Iterable[Any]) -> str | None:
    """The name that the caller probably meant: one that differs little, or only in case."""
    plain = {str(each).lower(): str(each) for each in names}
    close = get_close_matches(name.lower(), plain, n=1)
    return plain[close[0]] if close else None


def instead(name: str, names: Iterable[Any]) -> str:
    """The end of a message about a missing column: a similar name, or the names there are."""
    listed = [str(each) for each in names]
    close = closest(name, listed)
    if close is not None:
        return f"did you mean {close!r}?"
    more = f" and {len(listed) - SHOWN:,} more" if len(listed) > SHOWN else ""
    return f"it has {', '.join(listed[:SHOWN])}{more}."


def problem_correction(given: Any) -> str:
    """What to write instead of something that is not a problem."""
    name = (
        given
        if isinstance(given, str)
        else given.__name__
        if isinstance(given, type)
        else type(given).__name__
    )
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    kinds = {each.lower(): each for each in problems.__all__ if each != "Problem"}
    kinds |= {other: each for each, others in KNOWN_AS.items() for other in others}
    close = [plain] if plain in kinds else get_close_matches(plain, kinds, n=1, cutoff=0.75)
    if not close:
        return (
            "problem must be one of karat.problems, such as karat.problems.LeastSquares(), not"
            f" {given!r}."
        )
    call = example_call(getattr(problems, kinds[close[0]]))
    if isinstance(given, type) and issubclass(given, problems.Problem):
        return f"problem is the class {name}; it must be an instance: problem={call}."
    if isinstance(given, str):
        return f"problem is the text {given!r}; it must be an object: problem={call}."
    return (
        f"problem is the estimator {name}; it must say what a coreset keeps: problem={call}, and"
        f" then core.fit({name}(...))."
    )


def example_call(kind: type) -> str:
    """A call that makes such a problem, with an example for every required parameter."""
    if hasattr(kind, "of"):  # a class method that makes the problem from the data
        return f"karat.problems.{kind.__name__}.of(X)"
    required = [
        p.name
        for p in inspect.signature(kind).parameters.values()
        if p.default is inspect.Parameter.empty
    ]
    arguments = ", ".join(f"{name}={EXAMPLES.get(name, 3)}" for name in required)
    return f"karat.problems.{kind.__name__}({arguments})"


def about_time(kind: Any) -> str | None:
    """Advice for a column of dates or durations; None for another type."""
    name = str(kind).lower()
    if (
        name.startswith(("datetime", "date", "timestamp", "time32", "time64"))
        or name == "time"
        or "<m8" in name
    ):
        return DURATIONS if "<m8" in name and not name.startswith("datetime") else DATES
    return DURATIONS if name.startswith(("timedelta", "duration")) else None


def leave_or_encode(names: Sequence[str], others: Sequence[str], one_hot: bool) -> str:
    """What to do about features that are not numeric, with the arguments to paste; ``others`` are
    the features that are, and ``one_hot`` says whether there is such an argument.
    """
    few = len(others) <= SHOWN
    if len(names) == 1:
        encode = "name it in one_hot=, or encode it by a fitted pipeline=."
        alone = "or encode it before."
        return f"Leave it out of columns=, {encode if one_hot else alone}"
    listed = ", ".join(map(repr, names))
    leave = f"leave them out with columns={list(others)!r}" if few else "leave them out of columns="
    encode = f"one_hot=[{listed}], or " if one_hot else "encode them before, or "
    return f"So are all of {listed}: {encode}{leave}."


def too_long_integers(name: str, values: np.ndarray, problem: problems.Problem, offset: int) -> str:
    """The message for a column of integers that doubles cannot hold, and what to do."""
    low, high = int(values.min()), int(values.max())
    size = (
        f"Column {name} holds integers up to {max(-low, high):.1e}, which double precision"
        " cannot tell apart"
    )
    otherwise = "or convert it with astype(float) if rounding does no harm."
    if offset:
        return (
            f"{size}: they are more than 2^53 away from those of other rows, about {offset:.1e}."
            f" Use a coarser unit, {otherwise}"
        )
    if problem.shifts and high - low > 2**53:
        return (
            f"{size}: they range over {high - low:.1e}, more than 2^53. Use a coarser unit,"
            f" {otherwise}"
        )
    return f"{size}; subtract an offset, for example its minimum {low}, {otherwise}"


def explain_non_finite(parts: Sequence[Part], names: Sequence[str]) -> InputError:
    """The error that names the first column with NaN or infinity, or else the one to rescale."""
    rows = Rows(parts)

    def visit(block: Array, _weights: Array | None, start: int) -> tuple[Any, ...]:
        values = block[:, 1:]
        bad = ~np.isfinite(values)
        first = np.where(bad.any(axis=0), start + bad.argmax(axis=0), len(rows))
        return (
            bad.sum(axis=0),
            np.isnan(values).any(axis=0),
            first,
            values.max(axis=0),
            values.min(axis=0),
        )

    def join(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
        return (
            a[0] + b[0],
            a[1] | b[1],
            np.minimum(a[2], b[2]),
            np.maximum(a[3], b[3]),
            np.minimum(a[4], b[4]),
        )

    counts, nan, first, high, low = sweep(
        rows, np.zeros(rows.columns), visit, join, (rows.columns + 1, 1)
    )
    if not counts.any():
        return _explain_outlier(rows, names) or _explain_sizes(high, low, names)
    i = int(np.flatnonzero(counts)[0])
    name, row = names[i], int(first[i])
    many = f"{counts[i]} {'NaN' if nan[i] else 'infinite'} value{'s' if counts[i] > 1 else ''}"
    message = f"Column {name} has {many}, the first in row {row}; drop or impute those rows."
    return InputError(message, column=name, row=row)


def _explain_outlier(rows: Rows, names: Sequence[str]) -> InputError | None:
    """The error that names a row too far from the others for any unit; None if there is none."""
    block = rows.take(
        sample(np.random.default_rng(0), len(rows), LOOKED_AT), np.zeros(rows.columns)
    )[:, 1:]
    with np.errstate(over="ignore", invalid="ignore"):
        middle, usual = typical(block.T, centred=True)

    def visit(values: Array, _weights: Array | None, start: int) -> Array:
        away = np.abs(values[:, 1:])
        return np.array([away.max(axis=0), start + away.argmax(axis=0)])

    largest, where = sweep(
        rows,
        np.nan_to_num(middle),
        visit,
        lambda a, b: np.where(a[0] >= b[0], a, b),
        (rows.columns + 1, 1),
    )
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.where(usual > 0, largest / usual, 0.0)
    i = int(ratio.argmax())
    if not ratio[i] > OUTLIER:
        return None
    row = int(where[i])
    return InputError(
        f"Column {names[i]} has a value in row {row} that is {ratio[i]:.0e} times as far from the"
        " others as they are from each other. Correct or drop such rows: double precision cannot"
        " hold the squares of both.",
        column=names[i],
        row=row,
    )


def _explain_sizes(high: Array, low: Array, names: Sequence[str]) -> InputError:
    """The error that names the column furthest from 1, too large or too small: the one to rescale.

    ``high`` and ``low`` are the largest and the smallest value of every column.
    """
    # the difference of the largest doubles of either sign overflows
    with np.errstate(over="ignore"):
        sizes, spreads = np.maximum(np.abs(high), np.abs(low)), high - low
    smallest = np.where(spreads > 0, np.minimum(sizes, spreads), np.where(sizes > 0, sizes, 1.0))
    above, below = np.log2(sizes.clip(1.0)), -np.log2(smallest)
    i = int(np.argmax(np.maximum(above, below)))
    name = names[i]
    if above[i] >= below[i]:
        fault = (
            f"has values up to {sizes[i]:.1e}; rescale it, because its powers overflow double"
            " precision."
        )
    else:
        kind = "values up to" if smallest[i] == sizes[i] else "values that differ by at most"
        fault = (
            f"has {kind} {smallest[i]:.1e}, so small that double precision loses their digits;"
            " rescale or drop it."
        )
    return InputError(f"Column {name} {fault}", column=name)
