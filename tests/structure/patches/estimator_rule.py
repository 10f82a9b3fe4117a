"""An estimator rule: KernelRidge with a linear kernel is ridge regression without an intercept;
other kernels stay refused.
"""

ROW = "an estimator, scorer, splitter or transformer"

NEW_FILES: dict[str, str] = {}

CHANGES = [
    (
        "estimators/registry.py",
        '    "Ridge": RIDGE,\n',
        '    "Ridge": RIDGE,\n'
        '    "KernelRidge": (\n'
        '        Rule("kernel", Except(("linear",)),'
        ' "kernel={value!r} compares every pair of rows"),\n'
        "    ),\n",
    ),
    (
        "estimators/registry.py",
        '    **dict.fromkeys(["KernelRidge", "GaussianProcessRegressor"],'
        ' "it compares every pair of rows"),\n',
        '    "GaussianProcessRegressor": "it compares every pair of rows",\n',
    ),
]

SCRIPT = """
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
import karat

rng = np.random.default_rng(0)
X = rng.standard_normal((500, 4)) + [0, 1, 2, 3]
y = X @ [1, -2, 3, 0.5] + 5 + rng.standard_normal(500)
weights = rng.uniform(0.5, 2.0, 500)
new = rng.standard_normal((50, 4))


def check(fitted, full):
    expected = full.predict(new)
    assert np.allclose(fitted.predict(new), expected, rtol=0, atol=1e-10 * abs(expected).max())


full = KernelRidge(alpha=2.0).fit(X, y, sample_weight=weights)
for rows in ("real", "synthetic"):
    core = karat.coreset(X, y, sample_weight=weights, rows=rows)
    assert len(core) < 30
    fitted = core.fit(KernelRidge(alpha=2.0))
    assert len(fitted.X_fit_) == len(core)
    check(fitted, full)
few = karat.CoresetRegressor(KernelRidge(alpha=2.0), few_rows=0).fit(X, y, sample_weight=weights)
assert few.reduced_ and len(few.estimator_.X_fit_) < 30
check(few, full)

search = GridSearchCV(KernelRidge(), {"alpha": [0.1, 1, 10, 100]}, cv=5)
exact = karat.CoresetRegressor(search, few_rows=0).fit(X, y)
search.fit(X, y)
scores = exact.estimator_.cv_results_["mean_test_score"]
assert np.allclose(scores, search.cv_results_["mean_test_score"], rtol=1e-10)
assert exact.estimator_.best_params_ == search.best_params_
check(exact, search)

for kernel in ("rbf", "polynomial"):
    with pytest.raises(karat.NotExactError, match="compares every pair"):
        core.fit(KernelRidge(kernel=kernel))
"""
