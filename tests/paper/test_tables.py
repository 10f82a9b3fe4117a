"""The paper's tables: coreset and full data agree, against models that are trained here by other
means.
"""

from math import comb

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import Ridge

from karat import models
from paper import dirichlet, hmm, ica, mixtures, powers, ridge, size_and_lambda, topics
from paper.data import Documents, Labelled, Source
from paper.settings import Settings
from tests.paper.conftest import columns, has_data

pytestmark = pytest.mark.nightly  # ``make reproduce`` makes the same tables


class Given(Source):
    """A source that answers every question with the same set."""

    def __init__(self, value):
        super().__init__(network=False)
        self.value = value

    def classes(self, name):
        return self.value

    def documents(self):
        return self.value


@pytest.fixture(scope="module")
def table1(real):
    return ridge.run(real)


def test_table1_losses_are_those_of_scikit_learn(table1, real):
    found = columns(table1.tables[0])
    assert found["data set"] == (list(ridge.PAPER) if has_data() else ["Iris"])
    for name, full, small in zip(
        found["data set"], found["full data"], found["coreset"], strict=True
    ):
        X, y, _ = real.source.classes(name)
        model = Ridge(alpha=ridge.LAMBDA, fit_intercept=False, solver="svd").fit(X, y)
        expected = np.sqrt(np.mean((model.predict(X) - y) ** 2))
        assert full == pytest.approx(expected, abs=1e-9)
        assert small == pytest.approx(expected, abs=1e-9)
    assert max(found["largest difference, all lambda"]) <= 1e-9


def test_table1_sizes_are_the_papers(table1, real):
    found = columns(table1.tables[1])
    for name, size, conic in zip(
        found["data set"], found["size, karat"], found["size, total weight free"], strict=True
    ):
        n, d = real.source.classes(name).X.shape
        assert size == ridge.PAPER[name][2] == comb(d + 2, 2) + 1
        assert conic == size - 1
        assert n + d == ridge.PAPER[name][1]


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_ridge_from_the_coreset_on_shipped_data(load):
    """Without any folder: two sets that scikit-learn brings along, columns scaled (the second has
    30 that are collinear).
    """
    X, y = load(return_X_y=True)
    X = X[:, :10] / X[:, :10].std(axis=0)
    source = Given(Labelled(X, y.astype(float), "scikit-learn"))
    found = columns(ridge.run(Settings(source, quick=True), names=["Iris"]).tables[0])
    model = Ridge(alpha=ridge.LAMBDA, fit_intercept=False, solver="svd").fit(X, y)
    assert found["coreset"][0] == pytest.approx(
        np.sqrt(np.mean((model.predict(X) - y) ** 2)), abs=1e-9
    )


def test_table2_losses(real):
    experiment = mixtures.run(real)
    found, sizes = (columns(table) for table in experiment.tables[:2])
    assert "Synthetic" in found["data set"]
    assert max(found["relative difference"]) <= 1e-9
    assert max(found["difference of the means"]) <= 1e-9
    np.testing.assert_allclose(
        found["about the mean, coreset"], found["about the mean, full data"], rtol=1e-9
    )
    X = mixtures.synthetic()
    centres = models.GaussianMixture(3, centred=False, n_init=10).fit(X).means_
    place = found["data set"].index("Synthetic")
    assert found["loss, coreset"][place] == pytest.approx(
        np.square(cdist(X, centres)).min(axis=1).sum(), rel=1e-9
    )
    for name, size, free, own in zip(
        found["data set"],
        sizes["size, karat"],
        sizes["size, total weight free"],
        sizes["size, about the mean"],
        strict=True,
    ):
        assert size == mixtures.PAPER[name][4]
        # about the mean the tensor holds the total weight
        assert free == own == size - 1
    if has_data():
        seeds = columns(experiment.tables[2])
        assert len(seeds["seed"]) == 20
        assert set(seeds["all 8,636 rows"]) == set(seeds["21 rows"]) == {"1025.93"}
        assert np.abs(seeds["difference"]).max() <= 1e-10
        assert "1025.93 from all 8,636 rows and 1025.93 from 21 rows" in experiment.headline


def made_up_documents():
    """Three subjects with words of their own and some in common."""
    rng = np.random.default_rng(0)
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    words = np.array(["".join(rng.choice(list(alphabet), 6)) for _ in range(60)])
    subjects = rng.integers(3, size=1200)
    texts = []
    for subject in subjects:
        weights = np.where(np.arange(60) % 3 == subject, 6.0, 1.0) * np.linspace(2, 1, 60)
        texts.append(" ".join(rng.choice(words, 30, p=weights / weights.sum())))
    return Documents(texts, np.array(["one", "two", "three"])[subjects], "made up"), words


def test_table3_top_words_of_all_documents_and_of_ten():
    documents, words = made_up_documents()
    experiment = topics.run(Settings(Given(documents)))
    rows = {row[0]: row[1:6] for row in experiment.tables[0].rows}
    for j in (1, 2, 3):
        assert rows[f"all documents, topic {j}"] == rows[f"coreset, topic {j}"]
        places = [int(np.flatnonzero(words == word)[0]) for word in rows[f"coreset, topic {j}"]]
        assert len({place % 3 for place in places}) == 1  # all words of one subject
    assert columns(experiment.tables[1])["documents"][:2] == [1000, 10]


@pytest.mark.skipif(not has_data(), reason="KARAT_DATA does not name a folder with the data sets")
def test_table3_on_arxiv(real):
    experiment = topics.run(real)
    rows = {row[0]: row[1:] for row in experiment.tables[0].rows}
    subjects = []
    for j in (1, 2, 3):
        assert rows[f"all documents, topic {j}"] == rows[f"coreset, topic {j}"]
        subjects.append(rows[f"coreset, topic {j}"][-1].rpartition(" (")[0])
    assert sorted(subjects) == ["computer science", "mathematics", "physics"]


def test_figure1(real):
    experiment = size_and_lambda.run(real, names=["Iris", "Yeast"])
    points = columns(experiment.tables[2])
    d = {name: real.source.classes(name).X.shape[1] for name in set(points["data set"])}
    for name, rows in zip(points["data set"], points["d regulariser rows"], strict=True):
        assert comb(d[name] + 2, 2) + 1 - d[name] <= rows <= comb(d[name] + 2, 2) + 1
    above = np.array(points["sign matrix T, literal"]) > np.array(
        points["the paper's claimed bound"]
    )
    assert above.sum() >= len(above) // 2
    assert len(experiment.figures) == 1


def test_lp_minimisers(real):
    experiment = powers.run(real, sizes=[300, 1000, 0])
    found = columns(experiment.tables[0])
    assert max(found["difference of the coefficients"]) <= 1e-9
    assert all(
        rows <= bound
        for rows, bound in zip(found["rows"], found["bound, binom(d+1+p, p)"], strict=True)
    )
    found = columns(experiment.tables[1])
    assert found["rows"] == [300, 1000]  # the last is for thorough runs
    assert found["rows kept"] == [70, 70]
    assert max(found["difference of the coefficients"]) <= 1e-9


@pytest.mark.parametrize("module", [hmm, dirichlet, ica])
def test_latent_models_the_paper_does_not_run(module, nothing):
    experiment = module.run(nothing)
    found = columns(experiment.tables[0])
    assert max(found["largest difference of a parameter"]) <= 1e-9
    assert found["kept"] == found["bound"]
    recovery = columns(experiment.tables[1])
    assert recovery["error, all samples"] == pytest.approx(recovery["error, coreset"], rel=1e-9)
    assert recovery["error, coreset"][1] < recovery["error, coreset"][0]
