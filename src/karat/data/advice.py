"""Advice for error messages: what a caller probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from karat import problems

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
