"""CR2, CR3 and the wild bootstrap with effects nested in clusters: fits of indicators in long
double, each without one cluster, or of drawn responses.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from panels.dummies import Dummies, indicators

import karat
from karat.errors import NotExactError


def nested(clusters: int = 7, seed: int = 0) -> pd.DataFrame:
    """Firms, of two industries each by year, in regions that differ in size."""
    rng = np.random.default_rng(seed)
    firm = np.repeat(np.arange(4 * clusters), rng.integers(2, 9, 4 * clusters))
    n = len(firm)
    region, kind = firm % clusters, rng.integers(0, 2, n)
    x = rng.standard_normal((n, 2)) + firm[:, None] / 5
    y = x @ [0.4, 0.0] + firm / 3 + kind + rng.standard_normal(n) * (1 + region / 4)
    columns = {"firm": firm, "kind": kind, "region": region, "x1": x[:, 0], "x2": x[:, 1], "y": y}
    return pd.DataFrame(columns).assign(w=rng.integers(1, 5, n) / 2).sample(frac=1, random_state=1)


def oracle(frame: pd.DataFrame, effects: list[str], weight: str | None) -> Dummies:
    factors = [
        pd.factorize(frame[effect.split("^")].astype(str).agg("|".join, axis=1))[0]
        for effect in effects
    ]
    weights = None if weight is None else frame[weight].to_numpy()
    return Dummies(frame[["x1", "x2"]].to_numpy(), frame["y"].to_numpy(), factors, weights)


def jackknife(frame: pd.DataFrame, effects: list[str], weight: str | None) -> np.ndarray:
    """The sum over clusters of the changes of the coefficients without each."""
    whole = oracle(frame, effects, weight).params
    changes = [
        oracle(frame[frame["region"] != region], effects, weight).params - whole
        for region in sorted(set(frame["region"]))
    ]
    return np.array(changes).T @ np.array(changes)


def bias_reduced(frame: pd.DataFrame, effects: list[str], weight: str | None) -> np.ndarray:
    """CR2, by the symmetric root of the inverse of 1 - H of each cluster, H from all columns."""
    fit = oracle(frame, effects, weight)
    x = fit.x_within.astype(float)
    both = np.concatenate([fit.basis.astype(float), np.linalg.qr(x)[0]], axis=1)
    bread, e = fit.bread.astype(float), fit.residuals.astype(float)
    total, regions = np.zeros((2, 2)), frame["region"].to_numpy()[fit.kept]
    for region in set(regions):
        rows = regions == region
        values, vectors = np.linalg.eigh(np.eye(rows.sum()) - both[rows] @ both[rows].T)
        root = (vectors[:, values > 1e-9] / np.sqrt(values[values > 1e-9])) @ vectors[
            :, values > 1e-9
        ].T
        score = bread @ x[rows].T @ (root @ e[rows])
        total += np.outer(score, score)
    return total


def off(found: np.ndarray, right: np.ndarray) -> float:
    errors = np.sqrt(np.diag(right).astype(float))
    return float(np.abs((np.asarray(found) - right) / np.outer(errors, errors)).max())


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("effects", [["firm"], ["firm", "kind^region"]])
def test_cr2_and_cr3(effects, weight):
    frame = nested()
    formula, count = f"y ~ x1 + x2 | {' + '.join(effects)}", frame["region"].nunique()
    options = {"cluster": "region", "weights": weight}
    fit = karat.ols(formula, frame, cov_type=["CR3", "CR2", "HC1"], **options)
    expected = jackknife(frame, effects, weight)
    n, K = fit.nobs, fit.df_k  # the factors of pyfixest
    factor = count / (count - 1) * (n - 1) / (n - K)
    assert K == 2 + 1  # nested effects count as one
    assert off(fit.cov_params() / factor, expected) < 1e-10
    textbook = karat.ols(formula, frame, cov_type="CR3", ssc={"jackknife": True}, **options)
    assert off(textbook.cov_params() / ((count - 1) / count), expected) < 1e-10
    assert (
        off(fit.with_covariance("CR2").cov_params(), bias_reduced(frame, effects, weight)) < 1e-10
    )
    alone = karat.ols(formula, frame, cov_type="cluster", **options)
    assert off(fit.with_covariance("cluster").cov_params(), alone.cov_params().to_numpy()) < 1e-12
    assert fit.df_inference == count - 1
    assert "CR3: region (7)" in fit.summary()


def test_the_wild_bootstrap():
    """Every combination of signs, each fitted to the response that it gives."""
    frame = nested()
    fit = karat.ols("y ~ x1 + x2 | firm + kind^region", frame, cov_type="CR3", cluster="region")
    test = fit.wild_bootstrap("x1 = 0.1")
    assert (test.complete, test.draws) == (True, 2**6)
    effects = ["firm", "kind^region"]
    whole = oracle(frame, effects, None)
    x, regions = whole.x_within, frame["region"].to_numpy()[whole.kept]
    clusters = indicators(regions)
    one = x[:, 1:]
    y = whole.y_within - x[:, 0] * np.longdouble(0.1)
    under = y - one @ ((one.T @ y) / (one.T @ one).ravel())  # residuals with the hypothesis imposed
    found = []
    for signs in product([1.0, -1.0], repeat=6):
        drawn = under * (clusters @ np.array([1.0, *signs]))
        again = Dummies(
            frame[["x1", "x2"]].to_numpy()[whole.kept], drawn.astype(float), whole.factors
        )
        middle = again.meat(regions)
        error = np.sqrt((again.bread @ middle @ again.bread)[0, 0])
        found.append(float(again.params[0] / error))
    assert np.abs(np.sort(np.abs(found)) - np.sort(np.abs(test.statistics))).max() < 1e-9
    middle = whole.meat(regions)
    given = (whole.params[0] - 0.1) / np.sqrt((whole.bread @ middle @ whole.bread)[0, 0])
    assert abs(test.pvalue - (np.abs(found) >= abs(given) * (1 - 1e-9)).mean()) < 1e-12
    factor = 7 / 6 * (fit.nobs - 1) / (fit.nobs - fit.df_k)
    assert abs(test.statistic * np.sqrt(factor) - given) < 1e-9


def test_partitions_and_files_give_the_same(tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    frame = nested(30)
    options = {"cov_type": ["CR3", "CR2"], "cluster": "region"}
    here = karat.ols("y ~ x1 + x2 | firm", frame, **options)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    others = dask.from_pandas(frame.sort_values("y"), npartitions=11), tmp_path / "rows.parquet"
    for data in others:
        there = karat.ols("y ~ x1 + x2 | firm", data, **options)
        for kind in options["cov_type"]:
            V = here.with_covariance(kind).cov_params().to_numpy()
            assert off(there.with_covariance(kind).cov_params(), V) < 1e-11
        assert there.wild_bootstrap("x1").pvalue == pytest.approx(
            here.wild_bootstrap("x1").pvalue, abs=0.02
        )


@pytest.mark.parametrize("kind", ["CR2", "CR3"])
def test_effects_that_are_not_nested_are_refused(kind):
    frame = nested().assign(year=np.arange(len(nested())) % 5)
    with pytest.raises(NotExactError, match=r"levels of 'year' lie in several.*write C\(year\)"):
        karat.ols("y ~ x1 | firm + year", frame, cov_type=kind, cluster="region")
    with pytest.raises(NotExactError, match="for one column of clusters"):
        karat.ols("y ~ x1 | firm", frame, cov_type=kind, cluster=["region", "year"])


def test_small_effects_among_the_regressors():
    """What the message about effects that are not nested recommends."""
    frame = nested().assign(year=lambda rows: np.arange(len(rows)) % 4)
    options = {"cov_type": "CR3", "cluster": "region", "ssc": {"jackknife": True}}
    fit = karat.ols("y ~ x1 + C(year) | firm", frame, **options)
    years = [1.0 * (frame["year"] == year) for year in (1, 2, 3)]

    def params(rows: pd.Series) -> np.ndarray:
        x = np.column_stack([frame["x1"], *years])[rows]
        return Dummies(x, frame["y"].to_numpy()[rows], [frame["firm"].to_numpy()[rows]]).params

    whole = params(frame["region"] >= 0)
    changes = np.array([params(frame["region"] != region) - whole for region in range(7)])
    order = ["x1", *(f"C(year)[T.{year}]" for year in (1, 2, 3))]
    expected = 6 / 7 * changes.T @ changes
    assert off(fit.cov_params().loc[order, order], expected) < 1e-10


def test_refusals():
    frame = nested().assign(x3=lambda rows: rows["x1"] * (rows["region"] == 0))
    with pytest.raises(NotExactError, match="CR3 leaves out one cluster at a time"):
        karat.ols("y ~ x1 + x3 | firm", frame, cov_type="CR3", cluster="region")
    plain = karat.ols("y ~ x1 | firm", frame, cov_type="cluster", cluster="region")
    with pytest.raises(NotExactError, match="The wild bootstrap needs the sums of every cluster"):
        plain.wild_bootstrap("x1")
    with pytest.raises(NotExactError, match="'CR2' were not computed"):
        plain.with_covariance("CR2")
