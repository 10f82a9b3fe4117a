"""scikit-learn's own tests of linear models, with estimators that are fitted through karat.

    python -m tests.estimators.sklearn_suite           all, as ``make nightly`` does; minutes
    python -m tests.estimators.sklearn_suite -k ridge  arguments go to pytest

In ``sklearn.linear_model`` every class of :data:`REGRESSORS` and :data:`CLASSIFIERS` gives way to a
subclass whose ``fit`` goes through ``CoresetRegressor`` or ``CoresetClassifier`` with few_rows=0,
so that rows are made however few there are.  A test may fail because karat refuses what it asks
for, or for a reason that ``sklearn_failures.json`` states; the latter holds for the newest
scikit-learn.  Any other failure is a finding.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

import pytest
from sklearn import linear_model

import karat

REGRESSORS = (
    "LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV",
    "MultiTaskLasso", "MultiTaskLassoCV", "MultiTaskElasticNet", "MultiTaskElasticNetCV",
    "BayesianRidge", "Lars", "LassoLars", "LassoLarsIC", "OrthogonalMatchingPursuit",
    "OrthogonalMatchingPursuitCV",
)  # fmt: skip
CLASSIFIERS = ("RidgeClassifier", "RidgeClassifierCV")
MODULES = (
    "base",
    "bayes",
    "common",
    "coordinate_descent",
    "least_angle",
    "omp",
    "ridge",
    "sparse_coordinate_descent",
)
TRIAGED = json.loads(Path(__file__).with_name("sklearn_failures.json").read_text(encoding="utf-8"))
REFUSED = "refused by karat"


def through_karat(kind, wrapper):
    """A subclass of an estimator that is fitted through karat and has the attributes that this
    gives.
    """

    def fit(self, X, y, sample_weight=None, **others):
        parameters = self.get_params(deep=False)
        if hasattr(parameters.get("cv"), "__next__"):  # karat asks for a list
            parameters["cv"] = list(parameters["cv"])
        self.few_ = wrapper(kind(**parameters), few_rows=0).fit(
            X, y, sample_weight=sample_weight, **others
        )
        vars(self).update(
            {
                name: value
                for name, value in vars(self.few_.estimator_).items()
                if name.endswith("_")
            }
        )
        return self

    def predict(self, X, **options):
        return (
            self.few_.predict(X, **options)
            if "few_" in vars(self)
            else kind.predict(self, X, **options)
        )

    own = {"__init__": kind.__init__, "fit": fit, "predict": predict, "__module__": kind.__module__}
    fit.__signature__ = inspect.signature(kind.fit)  # metadata routing reads it
    return type(kind.__name__, (kind,), own)


class Triage:
    """Sorts failures as they come."""

    def __init__(self):
        self.counts, self.findings, self.used = Counter(), [], set()

    def pytest_runtest_makereport(self, item, call):
        if call.when != "call":
            return
        if call.excinfo is None:
            self.counts["passed"] += 1
            return
        marked = item.get_closest_marker("xfail") is not None
        if marked or isinstance(call.excinfo.value, pytest.skip.Exception | pytest.xfail.Exception):
            self.counts["skipped, or known to fail in scikit-learn"] += 1
            return
        name = f"{item.path.name}::{item.name}"
        known = next((key for key in TRIAGED if fnmatchcase(name, key.replace("[", "[[]"))), None)
        if known is not None:
            self.used.add(known)
            self.counts["triaged: " + TRIAGED[known]] += 1
        elif refusal(call.excinfo.value):
            self.counts[REFUSED] += 1
        else:
            self.counts["not triaged"] += 1
            self.findings.append(f"{name}: {str(call.excinfo.value).strip()[:300]!r}")


def refusal(error):
    """Whether karat said no, in its own words, somewhere on the way."""
    while error is not None:
        if isinstance(error, karat.NotExactError):
            return True
        error = error.__cause__ or error.__context__
    return False


def main(arguments):
    for names, wrapper in (
        (REGRESSORS, karat.CoresetRegressor),
        (CLASSIFIERS, karat.CoresetClassifier),
    ):
        for name in names:
            setattr(linear_model, name, through_karat(getattr(linear_model, name), wrapper))
    folder = Path(find_spec("sklearn").origin).parent / "linear_model" / "tests"
    files = [str(folder / f"test_{module}.py") for module in MODULES]
    triage = Triage()
    options = [
        "-q",
        "--tb=no",
        "--no-header",
        "--no-summary",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-W",
        "ignore",
    ]
    code = pytest.main(
        [*options, "-c", "/dev/null", "--rootdir", str(folder), *files, *arguments],
        plugins=[triage],
    )
    print(*(f"{count:6,}  {what}" for what, count in triage.counts.most_common()), sep="\n")
    print(*triage.findings, sep="\n")
    if not arguments:
        print(*(f"no failure any more: {key}" for key in TRIAGED.keys() - triage.used), sep="\n")
    ran = code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    return int(bool(triage.findings) or not ran)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
