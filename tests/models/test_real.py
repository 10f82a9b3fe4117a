"""Real data: modes A and B give the full data's answer, mode C where it is small enough."""

import numpy as np
import pytest
from scipy import sparse

import karat
from karat import models, problems
from karat.errors import InputError

# real data are not mixtures
pytestmark = pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")


def scaled(X):
    X = X[np.isfinite(X).all(axis=1)]
    # off the origin, so that the means can be independent
    return (X - X.mean(axis=0)) / X.std(axis=0) + 1.0


@pytest.fixture(scope="module")
def credit(data_folder):
    pd = pytest.importorskip("pandas")
    return scaled(pd.read_csv(data_folder / "credit_card.csv.gz").iloc[:, 1:].to_numpy(dtype=float))


@pytest.fixture(scope="module")
def covertype(data_folder):
    pd = pytest.importorskip("pandas")
    table = pd.read_parquet(data_folder / "covtype.parquet")
    return table.drop(columns="Cover_Type", errors="ignore").iloc[:, :54].to_numpy(dtype=float)


def agree(full, again, names):
    allowed = max(1e-9, 1e-13 * full.recovery_.condition)
    for name in names:
        a, b = getattr(full, name), getattr(again, name)
        assert np.isfinite(a).all()
        assert np.abs(a - b).max() <= allowed * np.abs(a).max(), name


@pytest.mark.parametrize(("keep", "size"), [("tensor", 21), ("moments", 35), ("all", 191)])
def test_credit_card(credit, keep, size):
    core = karat.coreset(credit, problem=problems.GaussianMixture(4, keep=keep))
    assert core.certificate.ok
    assert len(core) <= size
    full = models.GaussianMixture(4, refine=None).fit(credit)
    agree(
        full,
        models.GaussianMixture(4, refine=None).fit_coreset(core),
        ("means_", "weights_", "covariances_"),
    )


@pytest.mark.parametrize("keep", ["tensor", "moments", "all"])
def test_data_far_from_the_model_still_give_one_answer(credit, keep):
    """Centred and with own variances the tensor is no longer nearly orthogonal; plain power steps
    would run in circles.
    """
    X = credit - credit.mean(axis=0)
    core = karat.coreset(X, problem=problems.GaussianMixture(4, "spherical", keep))
    full, again = (
        models.GaussianMixture(4, variances="spherical", refine=None),
        models.GaussianMixture(4, variances="spherical", refine=None),
    )
    agree(full.fit(X), again.fit_coreset(core), ("means_", "weights_", "covariances_"))
    assert full.recovery_.converged
    assert not full.recovery_.refined


@pytest.mark.slow
@pytest.mark.parametrize(("keep", "size"), [("tensor", 21), ("moments", 35)])
def test_covertype(covertype, keep, size):
    core = karat.coreset(covertype, problem=problems.GaussianMixture(4, keep=keep))
    assert core.certificate.ok
    assert len(core) <= size
    full = models.GaussianMixture(4, refine=None).fit(covertype)
    agree(
        full,
        models.GaussianMixture(4, refine=None).fit_coreset(core),
        ("means_", "weights_", "covariances_"),
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    "problem",
    [
        problems.SingleTopic(10),
        problems.SingleTopic(10, "moments"),
        problems.LatentDirichlet(10, 0.5),
    ],
)
def test_arxiv(arxiv, problem):
    core = karat.coreset(arxiv, problem=problem)
    single = isinstance(problem, problems.SingleTopic)
    learner = models.SingleTopic(10) if single else models.LatentDirichlet(10, alpha0=0.5)
    again = learner.fit_coreset(core)
    assert core.certificate.ok
    assert len(core) == (286 if problem.keep == "moments" else 221)
    full = type(learner)(**learner.get_params()).fit(arxiv)
    agree(full, again, ("topics_", "weights_"))


def test_mode_c_refuses_the_vocabulary(arxiv):
    with pytest.raises(InputError, match=r"19,105,4\d\d features"):
        karat.coreset(arxiv, problem=problems.SingleTopic(10, "all"))


def test_disjoint_vocabularies_have_a_diagonal_tensor():
    """Off the diagonal there is only the rounding of the whitening, which must not count as
    rank.
    """
    rng = np.random.default_rng(0)
    h = rng.integers(3, size=5000)
    words = 400 * h[:, None] + np.minimum(rng.geometric(0.02, size=(5000, 10)), 400) - 1
    X = sparse.csr_array(
        (np.ones(50_000), (np.repeat(np.arange(5000), 10), words.ravel())), shape=(5000, 1200)
    )
    assert len(karat.coreset(X, problem=problems.SingleTopic(3))) == 3 + 1


@pytest.mark.slow
def test_a_hundred_thousand_documents_of_fifty_thousand_words():
    """Sparse from end to end: dense, the counts alone would take 40 GB."""
    rng = np.random.default_rng(0)
    n, d, k, length = 100_000, 50_000, 4, 20
    # a vocabulary of its own each; one word in ten from any
    topics = rng.permutation(d).reshape(k, -1)
    h = rng.integers(k, size=n)
    rank = np.minimum(rng.geometric(0.01, size=(n, length)), d // k) - 1
    words = topics[
        np.where(rng.random((n, length)) < 0.1, rng.integers(k, size=(n, length)), h[:, None]), rank
    ]
    X = sparse.csr_array(
        (np.ones(n * length), (np.repeat(np.arange(n), length), words.ravel())), shape=(n, d)
    )
    core = karat.coreset(X, problem=problems.SingleTopic(k))
    assert sparse.issparse(core.X)
    assert len(core) == 21
    model = models.SingleTopic(k).fit_coreset(core)
    np.testing.assert_allclose(model.weights_, 0.25, atol=0.02)
    assert sorted(model.topics_[:, t].sum(axis=1).argmax() for t in topics) == [0, 1, 2, 3]
