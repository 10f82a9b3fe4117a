"""What scikit-learn and hmmlearn users expect of every learner, and defects that were found."""

import tracemalloc
import warnings

import numpy as np
import pytest
from latent_data import make_chain, make_mixture, make_sources, make_topics, make_views
from scipy import sparse
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import karat
from karat import models, problems
from karat.errors import InputError


class Counted:
    """Mixin: real numbers become word counts, so that the checks of scikit-learn can be made."""

    def _validated(self, X, reset):
        X = super()._validated(X, reset)
        if sparse.issparse(X):
            X = sparse.csr_array(X, dtype=float)
            X.data = np.round(20 * X.data)
            return X
        values = np.asarray(X, dtype=float)
        return np.round(20 * values) if np.isfinite(values).all() else X


class CountedTopics(Counted, models.SingleTopic):
    pass


class CountedDirichlet(Counted, models.LatentDirichlet):
    pass


ORDER = "The rows of a chain are a sequence: their order and their neighbours matter"
REASONS = {
    models.HiddenMarkov: {
        "check_methods_sample_order_invariance": ORDER,
        "check_methods_subset_invariance": ORDER,
        "check_sample_weight_equivalence_on_dense_data": ORDER,
        "check_sample_weight_equivalence_on_sparse_data": ORDER,
        "check_sample_weights_pandas_series": (
            "Twelve rows of the check are too few windows for two states"
        ),
        "check_sample_weights_not_an_array": (
            "Twelve rows of the check are too few windows for two states"
        ),
        "check_fit2d_predict1d": "A list of numbers is one column, as in hmmlearn",
    },
}


@parametrize_with_checks(
    [
        models.GaussianMixture(2),
        models.ICA(2),
        CountedTopics(2),
        CountedDirichlet(2),
        models.HiddenMarkov(2, emissions="gaussian"),
    ],
    expected_failed_checks=lambda estimator: REASONS.get(type(estimator), {}),
)
@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# most checks need one table of real numbers
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator", [models.MultiView(2), models.HiddenMarkov(2), models.GaussianMixture(2)]
)
def test_scikit_learn_checks_as_they_are(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", models.RecoveryWarning)
        check_estimator(estimator)


def test_names_of_columns_and_of_outputs():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(make_mixture(2000, 4, 3).X, columns=list("abcd"))
    model = models.GaussianMixture(3).fit(X)
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list("badc")])
    counts = pd.DataFrame(make_topics(2000).X, columns=[f"w{i}" for i in range(14)])
    topics = models.SingleTopic(4).fit(counts)
    assert list(topics.get_feature_names_out()) == [f"singletopic{i}" for i in range(4)]
    assert topics.set_output(transform="pandas").transform(counts).shape == (2000, 4)
    assert topics.bic(counts) > 0
    assert topics.fit_predict(counts).shape == (2000,)
    sources = models.ICA(4).fit(make_sources(3000).X)
    assert list(sources.get_feature_names_out()) == [f"ica{i}" for i in range(4)]


def test_names_of_columns_of_a_coreset_and_of_views():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(make_mixture(2000, 4, 3).X, columns=list("abcd"))
    model = models.GaussianMixture(3).fit_coreset(
        karat.coreset(X, problem=problems.GaussianMixture(3))
    )
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[list("badc")])
    model.fit_coreset(karat.coreset(X.to_numpy(), problem=problems.GaussianMixture(3)))
    assert not hasattr(model, "feature_names_in_")
    views = [
        pd.DataFrame(view).add_prefix(letter)
        for letter, view in zip("uvw", make_views(2000).X, strict=True)
    ]
    pair = models.MultiView(3).fit(tuple(views))
    assert pair.predict(tuple(views)).shape == (2000,)
    with pytest.raises(InputError, match="View 2 has columns"):
        pair.predict((views[0], views[1][views[1].columns[::-1]], views[2]))


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # few rows
def test_nan_has_no_label():
    X = make_mixture(1000, 4, 3).X
    model = models.GaussianMixture(3).fit(X)
    X[5, 2] = np.nan
    with pytest.raises(InputError, match="Row 5, column 2"):
        model.predict(X)
    chain = models.HiddenMarkov(3).fit(make_chain(5000).X)
    with pytest.raises(InputError, match="row 1 of X contains nan"):
        chain.predict([0.0, np.nan, 1.0])


def test_a_document_has_the_same_topics_alone_and_among_others():
    X = make_topics(400, alpha=[0.3, 0.4, 0.5, 0.6], length=30).X
    model = models.LatentDirichlet(4, alpha0=1.8).fit(X)
    np.testing.assert_allclose(
        np.vstack([model.transform(row[None]) for row in X[:20]]),
        model.transform(X)[:20],
        rtol=1e-12,
    )


def test_views_have_labels():
    data = make_views(3000)
    labels = models.MultiView(3).fit_predict(data.X)
    best = [np.bincount(data.h[labels == j], minlength=3).argmax() for j in range(3)]
    assert np.mean(np.array(best)[labels] == data.h) > 0.98
    core = karat.coreset(data.X, problem=problems.MultiView(3))
    with pytest.raises(karat.NotExactError, match="does not keep"):
        models.MultiView(3).fit_coreset(core).predict(data.X)


def test_numpy_integers_can_be_saved(tmp_path):
    X = make_mixture(1000, 4, 3).X
    core = karat.coreset(X, problem=problems.GaussianMixture(np.int64(3)))
    core.save(tmp_path / "core.npz")
    assert karat.load(tmp_path / "core.npz").problem == problems.GaussianMixture(3)
    documents = make_topics(1000, alpha=[0.3, 0.4, 0.5, 0.6]).X
    core = karat.coreset(documents, problem=problems.LatentDirichlet(np.int32(4), np.float32(1.5)))
    core.save(tmp_path / "topics.npz")
    assert karat.load(tmp_path / "topics.npz").problem == problems.LatentDirichlet(4, 1.5)


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # few rows
@pytest.mark.parametrize("keep", ["tensor", "moments", "all"])
def test_a_symbol_of_short_sequences_only(keep):
    X = np.concatenate([make_chain(4000).X, [9, 9]])
    lengths = [4000, 2]
    core = karat.coreset(X, problem=problems.HiddenMarkov(3, keep=keep), lengths=lengths)
    assert core.verify(X, lengths=lengths).ok
    full = models.HiddenMarkov(3).fit(X, lengths=lengths)
    assert full.emissionprob_.shape == (3, 7)
    np.testing.assert_allclose(
        models.HiddenMarkov(3).fit_coreset(core).emissionprob_, full.emissionprob_, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # few rows
def test_large_codes_of_few_symbols():
    X = make_chain(4000).X
    plain = models.HiddenMarkov(3).fit(X)
    tracemalloc.start()
    far = models.HiddenMarkov(3).fit(np.where(X == 6, 100_000, X))
    core = karat.coreset(np.where(X == 6, 100_000, X), problem=problems.HiddenMarkov(3))
    again = models.HiddenMarkov(3).fit_coreset(core)
    drawn = far.sample(3000)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6  # one double for every step and code would be 3.2 GB
    assert set(np.unique(drawn)) <= {0, 1, 2, 3, 4, 5, 100_000}
    assert far.emissionprob_.shape == (3, 100_001)
    np.testing.assert_allclose(
        far.emissionprob_[:, [0, 1, 2, 3, 4, 5, 100_000]], plain.emissionprob_, atol=1e-8
    )
    np.testing.assert_allclose(again.transmat_, plain.transmat_, atol=1e-8)
    with pytest.raises(InputError, match="different symbols"):
        models.HiddenMarkov(3).fit(np.arange(20_000))


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # few rows
def test_likelihood_and_posteriors_of_hmmlearn():
    pytest.importorskip("hmmlearn")
    data = make_chain(lengths=[400, 1, 300], gaussian=True)
    model = models.HiddenMarkov(3, emissions="gaussian").fit(data.X[:400])
    peer = model.to_hmmlearn()
    model.startprob_, model.transmat_, model.covars_ = (
        peer.startprob_,
        peer.transmat_,
        np.asarray(peer.covars_)[:, 0, 0],
    )
    np.testing.assert_allclose(
        model.score(data.X, lengths=data.lengths), peer.score(data.X, data.lengths), rtol=1e-5
    )
    ours, theirs = (
        model.predict_proba(data.X, data.lengths),
        peer.predict_proba(data.X, data.lengths),
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # few rows
def test_the_likelihood_of_a_long_chain():
    """Against the forward recursion, one step after the other."""
    X = make_chain(20_000).X
    model = models.HiddenMarkov(3).fit(X)
    start, step, emission = model.startprob_, model.transmat_, model.emissionprob_.T[np.ravel(X)]
    belief, value = start * emission[0], 0.0
    for t in range(1, len(X)):
        value += np.log(belief.sum())
        belief = (belief / belief.sum()) @ step * emission[t]
    assert model.score(X) == pytest.approx(value + np.log(belief.sum()), rel=1e-3)


def test_topics_are_those_that_scikit_learn_gets():
    model = models.SingleTopic(4).fit(make_topics().X)
    peer = model.to_sklearn()
    laws = peer.components_ / peer.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(laws, model.topics_, atol=2e-3)


def test_equal_components_come_in_one_order():
    """Mirrored clusters have the same weight; rounding must not decide which is first."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((500, 4))
    X = np.vstack([noise + 3 * np.eye(4)[0], -noise - 3 * np.eye(4)[0]])
    full = models.GaussianMixture(2).fit(X)
    for seed in range(4):
        core = karat.coreset(X, problem=problems.GaussianMixture(2), random_state=seed)
        np.testing.assert_allclose(
            models.GaussianMixture(2).fit_coreset(core).means_, full.means_, atol=1e-8
        )
