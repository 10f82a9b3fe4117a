"""
A million rows, one lasso path, twice
=====================================

The path of 40 penalties on all rows, and on the few dozen that karat keeps.  ``make demo`` runs it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import HuberRegressor, Lasso

import karat


def timed(job: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return job(), time.perf_counter() - start


def lasso_path(X: np.ndarray, y: np.ndarray, alphas: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    model = Lasso(warm_start=True, tol=1e-12, max_iter=100_000)
    path = []
    for alpha in alphas:
        model.set_params(alpha=alpha).fit(X, y, sample_weight=weights)
        path.append(np.append(model.coef_, model.intercept_))
    return np.array(path)


def main() -> None:
    rng = np.random.default_rng(0)
    n, d = 1_000_000, 10
    print(f"Making {n:,} rows x {d} correlated, skewed, shifted columns and a target ...")
    X = np.exp(0.5 * rng.standard_normal((n, d))) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d))) + rng.uniform(-5, 5, d)
    y = X @ np.where(np.arange(d) % 2, rng.standard_normal(d), 0.0) + 3.0 + rng.standard_t(5, n)
    alphas = np.geomspace(2.0, 0.002, 40)

    core, build_time = timed(lambda: karat.coreset(X, y, karat.problems.LeastSquares()))
    print(f"\n{core!r}\n\n{core.certificate}\n")

    full, full_time = timed(lambda: lasso_path(X, y, alphas))
    small, small_time = timed(lambda: lasso_path(np.asarray(core.X), np.asarray(core.y), alphas, core.weights))

    print(f"{'alpha':>10}  {'non-zero':>8}  {'R2 full data':>16}  {'R2 coreset':>16}  {'largest coefficient difference':>30}")
    variance = float(np.var(y))
    weight = core.weights / core.weights.sum()
    for i in range(0, len(alphas), 6):
        a, b = full[i], small[i]
        r2 = 1 - np.mean((X @ a[:-1] + a[-1] - y) ** 2) / variance
        mean = weight @ core.y
        r2_core = 1 - weight @ (core.X @ b[:-1] + b[-1] - core.y) ** 2 / (weight @ (core.y - mean) ** 2)
        print(f"{alphas[i]:10.4f}  {int((a[:-1] != 0).sum()):8d}  {r2:16.12f}  {r2_core:16.12f}  {np.abs(a - b).max():30.1e}")

    print(f"\n{'':24}{'seconds':>10}   worst difference of a coefficient")
    print(f"{'full data, 40 alphas':24}{full_time:10.3f}   -")
    print(
        f"{'build the coreset':24}{build_time:10.3f}   {core.certificate.loss_error:.0e} worst relative loss error, every query"
    )
    print(f"{'coreset, 40 alphas':24}{small_time:10.3f}   {np.abs(full - small).max():.0e}")
    print(
        f"\nThe same path from {len(core)} rows, {full_time / (build_time + small_time):,.0f} times faster, building included."
    )

    verified, verify_time = timed(lambda: core.verify(X, y))
    print(f"Verified afresh on all rows in {verify_time:.2f} s: worst relative loss error {verified.loss_error:.1e}.")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            core.fit(HuberRegressor())
        except karat.NotExactError as refusal:
            print(f"\nAnd what is not kept is refused:\n  {refusal}")


if __name__ == "__main__":
    main()
