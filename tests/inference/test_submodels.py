"""Robust errors of any submodel, CR3 and the wild bootstrap, all from one stored file, against all
rows.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

smf = pytest.importorskip("statsmodels.formula.api")
pytest.importorskip("formulaic")

from inference.long_double import clustered_errors  # noqa: E402

import karat  # noqa: E402
from karat import InputError, NotExactError  # noqa: E402
from karat.inference import ols  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:There are .* clusters:UserWarning")

FORMULA = "y ~ a + b + c + d"


def sample(seed, n=600, groups=40, distance=1.0, offset=0.0):
    """Numbers that are alike within clusters; a and b are ``distance`` apart."""
    rng = np.random.default_rng(seed)
    g = np.concatenate([np.arange(groups), rng.integers(0, groups, n - groups)])
    X = rng.standard_normal((n, 4)) + 0.7 * rng.standard_normal((groups, 4))[g]
    X[:, 1] = X[:, 0] + distance * X[:, 1]
    noise = rng.standard_normal(n) * (1 + X[:, 2] ** 2) + rng.standard_normal(groups)[g]
    frame = pd.DataFrame(X + offset, columns=list("abcd"))
    frame = frame.assign(y=X @ [1, -1, 0.5, 0.2] + offset + noise, g=g, h=rng.integers(0, 9, n))
    return frame.assign(
        name=[f"'{i}', \x1f" for i in g], w=rng.uniform(0.5, 2, n), times=rng.integers(1, 4, n)
    )


@pytest.fixture(scope="module")
def frame():
    return sample(0)


@pytest.mark.parametrize("options", [{}, {"weights": "w"}, {"frequencies": "times"}])
def test_every_submodel(options, frame, tmp_path):
    kinds = {"HC0": {}, "HC1": {}, "cluster": {"cov_kwds": {"groups": None}}}
    fit = ols(FORMULA, frame, cov_type=list(kinds), cluster="name", submodels=True, **options)
    fit.coreset.save(tmp_path / "fit.npz")
    stored = ols(karat.load(tmp_path / "fit.npz"))
    rows = frame.loc[frame.index.repeat(frame["times"])] if "frequencies" in options else frame
    weights = rows["w"] if "weights" in options else 1.0
    for size in range(5):
        for names in combinations("abcd", size):
            for first in ("1", "0")[: 1 + bool(size)]:
                smaller = f"y ~ {' + '.join([first, *names])}"
                model = smf.wls(smaller, rows, weights=weights)
                for kind in kinds:
                    groups = {"cov_kwds": {"groups": rows["g"]}} if kind == "cluster" else {}
                    full = model.fit(cov_type=kind, **groups)
                    mine = stored.submodel(smaller, cov_type=kind)
                    np.testing.assert_allclose(mine.bse, full.bse, rtol=1e-9)
                    assert mine.cov_type == kind
    np.testing.assert_allclose(
        ols("y ~ a + c", fit.coreset, cov_type="HC1").fvalue,
        smf.wls("y ~ a + c", rows, weights=weights).fit(cov_type="HC1").fvalue,
        rtol=1e-9,
    )


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("distance", [1.0, 1e-4, 1e-6])
def test_far_and_nearly_collinear_columns(distance, offset):
    """In long double: what whitened coordinates keep."""
    frame = sample(1, distance=distance, offset=offset)
    fit = ols(FORMULA, frame, cov_type=["HC0", "cluster"], cluster="g", submodels=True)
    n, ones, y = len(frame), np.ones(len(frame)), frame["y"].to_numpy()
    for names in (["a", "b", "c", "d"], ["a", "b"], ["b", "d"], ["a"], ["c", "d"]):
        X = np.column_stack([ones, frame[names]])
        small = 40 / 39 * (n - 1) / (n - X.shape[1])
        for kind, factor, labels in (("HC0", 1.0, np.arange(n)), ("cluster", small, frame["g"])):
            mine = fit.submodel(["Intercept", *names], cov_type=kind)
            exact = clustered_errors(X, y, labels) * np.sqrt(factor)
            np.testing.assert_allclose(mine.bse, exact, rtol=1e-9)


def test_too_few_digits_are_refused():
    """Far from zero and collinear without an intercept: statsmodels' own digits are gone there."""
    frame = sample(2, distance=1e-5, offset=1e5)
    fit = ols(FORMULA, frame, cov_type="HC1", submodels=True)
    fit.submodel("y ~ a + b", cov_type="HC1")
    with pytest.raises(NotExactError, match=r"HC1 .* too few digits .* nearly collinear"):
        fit.submodel("y ~ 0 + a + b", cov_type="HC1")


def test_several_ways_and_partitions(frame):
    dask = pytest.importorskip("dask.dataframe")
    options = {"cov_type": ["HC1", "cluster"], "cluster": ["name", "h"], "submodels": True}
    for data in (frame, dask.from_pandas(frame, npartitions=3)):
        fit = ols(FORMULA, data, **options)
        for names in (["a"], ["a", "b", "d"]):
            smaller = f"y ~ {' + '.join(names)}"
            groups = frame[["g", "h"]].to_numpy()
            full = smf.ols(smaller, frame).fit(cov_type="cluster", cov_kwds={"groups": groups})
            mine = fit.submodel(smaller, cov_type="cluster")
            np.testing.assert_allclose(mine.bse, full.bse, rtol=1e-9)
            robust = smf.ols(smaller, frame).fit(cov_type="HC1")
            np.testing.assert_allclose(
                fit.submodel(smaller, cov_type="HC1").bse, robust.bse, rtol=1e-9
            )


def test_merging_adds_the_products_of_rows(frame):
    """Of other means and scales; those of clusters, which may have rows in both, are dropped."""
    frame = frame.assign(a=frame["a"] * np.where(frame.index < 200, 1.0, 30.0) + frame.index / 10)
    fits = [
        ols(FORMULA, part, cov_type=["HC1", "cluster"], cluster="g", submodels=True)
        for part in (frame[:200], frame[200:350], frame[350:])
    ]
    merged = fits[0].coreset.merge(fits[1].coreset).merge(fits[2].coreset)
    for names in (["a", "b", "c", "d"], ["b", "d"]):
        full = smf.ols(f"y ~ {' + '.join(names)}", frame).fit(cov_type="HC1")
        mine = ols(merged).submodel(["Intercept", *names], cov_type="HC1")
        np.testing.assert_allclose(mine.bse, full.bse, rtol=1e-9)
    whole = smf.ols(FORMULA, frame).fit(cov_type="HC1")
    np.testing.assert_allclose(ols(merged, cov_type="HC1").fvalue, whole.fvalue, rtol=1e-9)
    assert any("(cluster) belong to the" in note for note in merged.certificate.notes)
    with pytest.raises(NotExactError, match="merging dropped them"):
        ols(merged, cov_type="cluster")
    one_without = fits[0].coreset.merge(ols(FORMULA, frame[200:], cov_type="HC1").coreset)
    with pytest.raises(NotExactError, match="which has nonrobust"):
        ols(one_without, cov_type="HC1")


def test_what_is_stored_is_listed(frame):
    fit = ols(FORMULA, frame, cov_type=["HC1", "cluster"], cluster="g")
    with pytest.raises(NotExactError, match="has nonrobust, HC0, HC1, cluster; ask"):
        fit.get_robustcov_results("HC3")
    with pytest.raises(NotExactError, match=r"HC1, cluster, without options such as groups=.*clus"):
        fit.get_robustcov_results("cluster", groups=frame["g"])
    with pytest.raises(NotExactError, match=r"submodels have nonrobust\. .* submodels=True"):
        fit.submodel("y ~ a", cov_type="cluster")
    whole = ols(FORMULA, frame, cov_type="HC3", submodels=False)
    with pytest.raises(NotExactError, match="the formula of the submodel"):
        whole.submodel("y ~ a", cov_type="HC3")
    more = ols(fit.coreset, frame, cov_type="HC1", submodels=True)
    assert "HC0, HC1 errors" in karat.core.regression.answers(more.coreset.regression)["submodels"]


def test_limits(frame):
    with pytest.raises(InputError, match="pass the data, too"):
        ols(ols("y ~ a", frame, cov_type="HC1").coreset, cov_type="HC1", submodels=True)
    with pytest.raises(InputError, match="name one of them in cov_type"):
        ols("y ~ a", frame, submodels=True)
    columns = [f"x{i}" for i in range(160)]
    wide = pd.DataFrame(np.random.default_rng(0).standard_normal((600, 160)), columns=columns)
    wide = wide.assign(y=frame["y"], g=frame["g"])
    names = " + ".join(columns[:13])
    with pytest.raises(NotExactError, match="up to 13 columns, and there are 14"):
        ols(f"y ~ {names}", wide, cov_type="HC1", submodels=True)
    ols(f"y ~ {names}", wide, cov_type="cluster", cluster="g", submodels=True)
    with pytest.raises(NotExactError, match="more than 1 GiB"):
        ols(f"y ~ {' + '.join(columns)}", wide, cov_type="cluster", cluster="g", submodels=True)


@pytest.mark.parametrize("options", [{}, {"weights": "w"}])
def test_cr3_is_the_jackknife_of_clusters(options, frame, tmp_path):
    fit = ols(FORMULA, frame, cov_type="CR3", cluster="name", use_t=True, **options)
    fit.coreset.save(tmp_path / "fit.parquet")
    again = ols(karat.load(tmp_path / "fit.parquet"), cov_type="CR3", cluster="name")
    for smaller in (FORMULA, "y ~ a + d", "y ~ 0 + c"):
        whole, left_out = jackknife(frame, smaller, options)
        middle = (left_out - whole).T @ (left_out - whole)
        mine = fit.submodel(smaller, cov_type="CR3")
        np.testing.assert_allclose(mine.cov_params(), 39 / 40 * middle, rtol=1e-8, atol=1e-14)
        if smaller == FORMULA:
            np.testing.assert_allclose(fit.bse, mine.bse, rtol=1e-12)
            np.testing.assert_allclose(again.bse, mine.bse, rtol=1e-12)
    fixest = ols(FORMULA, frame, cov_type="CR3", cluster="name", ssc="pyfixest", **options)
    factor = 40 / 39 * 599 / 595 * 40 / 39
    np.testing.assert_allclose(fixest.bse, fit.bse * np.sqrt(factor), rtol=1e-12)
    assert (fit.df_resid_inference, fit.n_groups) == (39, 40)
    assert "CR3" in str(fit.summary())


def jackknife(frame, formula, options):
    X, y, g = smf.ols(formula, frame).exog, frame["y"].to_numpy(), frame["g"].to_numpy()
    root = np.sqrt(frame["w"].to_numpy() if options else np.ones(len(y)))
    parts = [g >= 0, *(g != other for other in range(40))]
    fits = [
        np.linalg.lstsq(root[rows, None] * X[rows], root[rows] * y[rows], rcond=None)[0]
        for rows in parts
    ]
    return fits[0], np.stack(fits[1:])


def test_cr3_needs_every_coefficient_without_every_cluster(frame):
    alone = frame.assign(a=np.where(frame["g"] == 7, frame["a"], 0.0))
    with pytest.raises(NotExactError, match="without one of them a coefficient is not"):
        ols("y ~ a + b", alone, cov_type="CR3", cluster="g")
    with pytest.raises(NotExactError, match="one column of clusters"):
        ols("y ~ a + b", frame, cov_type="CR3", cluster=["g", "h"])
    with pytest.raises(InputError, match="CR3 has the factor"):
        ols("y ~ a", frame, cov_type="CR3", cluster="g", ssc={"g_adj": False})


def drawn(frame, v, formula, name, value, weights):
    """t of every draw, from all rows."""
    X = np.asarray(smf.ols(formula, frame).exog)
    place = smf.ols(formula, frame).exog_names.index(name)
    y, g = frame["y"].to_numpy(), np.unique(frame["g"], return_inverse=True)[1]
    u = np.ones(len(y)) if weights is None else frame[weights].to_numpy()
    bread, rest = np.linalg.inv(X.T @ (u[:, None] * X)), np.delete(X, place, axis=1)
    left = y - X[:, place] * value
    b = np.linalg.lstsq(rest * np.sqrt(u)[:, None], left * np.sqrt(u), rcond=None)[0]
    fitted, found = X[:, place] * value + rest @ b, []
    for signs in v:
        made = fitted + (y - fitted) * signs[g]
        params = bread @ (X.T @ (u * made))
        scores = np.zeros((len(signs), X.shape[1]))
        np.add.at(scores, g, X * (u * (made - X @ params))[:, None])
        V = bread @ scores.T @ scores @ bread
        found.append((params[place] - value) / np.sqrt(V[place, place]))
    return np.array(found)


@pytest.mark.parametrize("weights", [None, "w"])
def test_wild_bootstrap_of_few_clusters(weights):
    """Every combination of signs, as from all rows."""
    frame = sample(3, 200, 8)
    fit = ols(FORMULA, frame, cov_type=["cluster", "CR3"], cluster="g", weights=weights)
    signs = np.array([(1, *rest) for rest in product((1, -1), repeat=7)])
    for value in (0.0, 0.3):
        test = fit.wild_bootstrap(f"c = {value}", draws=999)
        expected = drawn(frame, signs, FORMULA, "c", value, weights)
        assert test.complete
        assert test.draws == 128
        np.testing.assert_allclose(np.sort(np.abs(test.statistics)), np.sort(np.abs(expected)))
        assert test.pvalue == np.mean(np.abs(expected) >= abs(expected[0]) * (1 - 1e-8))
        t = fit.t_test(f"c = {value}").statistic
        assert test.statistic == pytest.approx(float(np.squeeze(t)), rel=1e-9)


def test_wild_bootstrap_of_many_clusters(frame):
    fit = ols(FORMULA, frame, cov_type="CR3", cluster="g")
    test = fit.submodel("y ~ c + d", cov_type="cluster").wild_bootstrap(
        "c = 1", draws=499, weights="webb", random_state=5
    )
    six = np.sqrt([1.5, 1.0, 0.5, 0.5, 1.0, 1.5]) * [-1, -1, -1, 1, 1, 1]
    v = np.random.default_rng(5).choice(six, (499, 40))
    expected = drawn(frame, v, "y ~ c + d", "c", 1.0, None)
    np.testing.assert_allclose(test.statistics, expected, rtol=1e-8)
    larger = (np.abs(expected) >= abs(test.statistic) * np.sqrt(40 / 39 * 599 / 597)).sum()
    assert test.pvalue == (1 + larger) / 500
    again = fit.wild_bootstrap([0, 0, 0, 1, 0], draws=99, random_state=1)
    np.testing.assert_array_equal(
        again.statistics, fit.wild_bootstrap("c", draws=99, random_state=1).statistics
    )


def test_wild_bootstrap_refuses(frame):
    fit = ols(FORMULA, frame, cov_type="CR3", cluster="g")
    for arguments, error, said in (
        ({"hypothesis": "a = b = 0"}, InputError, "tests one hypothesis, not 2"),
        ({"hypothesis": "q"}, InputError, "cannot be tested"),
        ({"hypothesis": "a", "weights": "normal"}, InputError, "'rademacher' or 'webb'"),
        ({"hypothesis": "a", "draws": 9.5}, InputError, "draws must be"),
    ):
        with pytest.raises(error, match=said):
            fit.wild_bootstrap(**arguments)
    with pytest.raises(NotExactError, match=r"not stored: call .*cov_type='CR3'"):
        ols(FORMULA, frame, cov_type="cluster", cluster="g").wild_bootstrap("a")
    few = frame[frame["g"] < 5]
    five = ols("y ~ a", few, cov_type="CR3", cluster="g")
    with pytest.raises(NotExactError, match=r"at least 6 clusters, not 5.*weights='webb'"):
        five.wild_bootstrap("a")
    assert 0 < five.wild_bootstrap("a", weights="webb", draws=99).pvalue <= 1
    four = ols("y ~ a", few[few["g"] < 4], cov_type="CR3", cluster="g")
    with pytest.raises(NotExactError, match="at least 5 clusters, not 4"):
        four.wild_bootstrap("a", weights="webb")
    alone = frame.assign(b=np.where(frame["g"] == 7, 1.0, 0.0))
    fit = ols("y ~ a + b", alone, cov_type="cluster", cluster="g", submodels=True)
    with pytest.raises(NotExactError, match="not stored"):
        fit.wild_bootstrap("b")


def test_absorbed_effects_are_refused(frame):
    with pytest.raises(NotExactError, match="levels of 'h' lie in several"):
        ols("y ~ a | h", frame, cov_type="CR3", cluster="g")
    with pytest.raises(InputError, match="submodels= cannot be combined"):
        ols("y ~ a | h", frame, cov_type="HC1", submodels=True)
    fit = ols("y ~ a | h", frame, cov_type="cluster", cluster="g")
    with pytest.raises(NotExactError, match="wild bootstrap needs the sums of every cluster"):
        fit.wild_bootstrap("a")


def test_damaged_files(frame):
    stored = ols(FORMULA, frame, cov_type="HC1", submodels=True).coreset.regression
    arrays = stored.arrays()
    restored = karat.core.regression.Regression.restored(stored.facts, dict(arrays))
    np.testing.assert_array_equal(restored.products["HC0"].squares, stored.products["HC0"].squares)
    for name in [name for name in arrays if "_products_" in name]:
        without = {other: value for other, value in arrays.items() if other != name}
        with pytest.raises(Exception, match=r"products|sums of"):
            karat.core.regression.Regression.restored(stored.facts, without)
        wrong = arrays | {name: arrays[name][:-1]}
        with pytest.raises(Exception, match="another number of columns"):
            karat.core.regression.Regression.restored(stored.facts, wrong)


@pytest.mark.parametrize("options", [{}, {"weights": "w"}])
def test_cr2_by_the_leverages_of_each_cluster(options):
    """The symmetric root of the inverse of 1 - H, from all rows."""
    rng = np.random.default_rng(3)
    n, g = 400, np.arange(400) % 9
    frame = pd.DataFrame({"g": g, "a": rng.standard_normal(n) + g / 4, "b": rng.random(n) + 1e3})
    frame["y"], frame["w"] = frame["a"] + g + rng.standard_normal(n), rng.integers(1, 5, n) / 2
    fit = ols("y ~ a + b", frame, cov_type=["CR2", "cluster"], cluster="g", **options)
    root = np.sqrt(frame["w"].to_numpy()) if options else np.ones(n)
    X = np.column_stack([np.ones(n), frame["a"], frame["b"] - 1e3]) * root[:, None]
    y = frame["y"].to_numpy() * root
    bread = np.linalg.inv(X.T @ X)
    e, expected = y - X @ (bread @ X.T @ y), np.zeros((3, 3))
    for cluster in range(9):
        rows = g == cluster
        values, vectors = np.linalg.eigh(np.eye(rows.sum()) - X[rows] @ bread @ X[rows].T)
        score = bread @ X[rows].T @ ((vectors / np.sqrt(values)) @ (vectors.T @ e[rows]))
        expected += np.outer(score, score)
    errors = np.sqrt(np.diag(expected)[1:])
    assert np.abs(fit.bse[["a", "b"]] / errors - 1).max() < 1e-10
    small = fit.submodel("y ~ a", cov_type="CR2").bse["a"]
    assert (
        abs(small / ols("y ~ a", frame, cov_type="CR2", cluster="g", **options).bse["a"] - 1) < 1e-9
    )
    assert fit.wild_bootstrap("a", draws=99).clusters == 9
