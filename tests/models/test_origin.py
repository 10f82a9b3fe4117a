"""Parameters do not depend on where the origin is: offsets, centred and standardised data."""

import numpy as np
import pytest
from latent_data import make_chain, make_mixture, make_sources, make_topics, make_views
from scipy.optimize import linear_sum_assignment

import karat
from karat import models, problems
from karat.core.construct import read_sample

OFFSETS = (0.0, 1.0, 1e4, 1e8)


def error(found, truth):
    """Largest distance of a matched component, relative to the spread of the true ones."""
    cost = np.linalg.norm(found[:, None] - truth[None], axis=2)
    rows, columns = linear_sum_assignment(cost)
    return cost[rows, columns].max() / np.linalg.norm(truth - truth.mean(axis=0), axis=1).mean()


def mixture(offset, spherical):
    data = make_mixture(6000, 8, 4, spherical)
    model = models.GaussianMixture(4, variances="spherical" if spherical else "shared").fit(
        data.X + offset
    )
    return error(model.means_ - offset, data.means), np.sort(model.covariances_)


def chain(offset):
    data = make_chain(20_000, gaussian=True)
    model = models.HiddenMarkov(3, emissions="gaussian").fit(data.X + offset)
    return error(model.means_ - offset, data.means), np.sort(model.covars_)


def views(offset):
    data = make_views(5000)
    model = models.MultiView(3).fit(tuple(view + offset for view in data.X))
    return max(
        error(found - offset, truth) for found, truth in zip(model.means_, data.means, strict=True)
    ), model.weights_


def sources(offset):
    X = make_sources(5000).X
    scale = X.std(axis=0)
    model = models.ICA(4).fit((X - X.mean(axis=0)) / scale + offset)
    # standardised columns have the same sources
    truth = models.ICA(4).fit(X).mixing_ / scale[:, None]
    signs = np.sign(np.sum(model.mixing_ * truth, axis=0))
    np.testing.assert_allclose(signs * model.mixing_, truth, atol=1e-6)
    return 0.05, model.kurtosis_


KINDS = {
    "mixture": lambda offset: mixture(offset, False),
    "mixture, own variances": lambda offset: mixture(offset, True),
    "chain": chain,
    "views": views,
    "sources": sources,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_does_not_depend_on_the_offset(kind):
    errors, others = zip(*(KINDS[kind](offset) for offset in OFFSETS), strict=True)
    assert errors[0] < 0.1
    np.testing.assert_allclose(errors, errors[0], rtol=0.01)
    for other in others:
        np.testing.assert_allclose(other, others[0], rtol=1e-3)


@pytest.mark.parametrize("kind", ["mixture", "chain", "views"])
@pytest.mark.parametrize("keep", ["tensor", "moments", "all"])
def test_coresets_far_from_the_origin_are_exact(kind, keep):
    offset = 1e6
    data = {
        "mixture": make_mixture(3000, 5, 3),
        "chain": make_chain(4000, gaussian=True),
        "views": make_views(3000),
    }[kind]
    X = tuple(view + offset for view in data.X) if kind == "views" else data.X + offset
    learner, problem = {
        "mixture": (models.GaussianMixture(3), problems.GaussianMixture(3, keep=keep)),
        "chain": (
            models.HiddenMarkov(3, emissions="gaussian"),
            problems.HiddenMarkov(3, "gaussian", keep),
        ),
        "views": (models.MultiView(3), problems.MultiView(3, keep)),
    }[kind]
    core = karat.coreset(X, problem=problem)
    assert core.certificate.ok
    assert core.verify(X).ok
    full, few = (
        learner.fit(X).means_,
        type(learner)(**learner.get_params()).fit_coreset(core).means_,
    )
    pairs = zip(full, few, strict=True) if kind == "views" else [(full, few)]
    for a, b in pairs:
        np.testing.assert_allclose(a - offset, b - offset, atol=1e-7)


def test_two_clusters_on_both_sides_of_the_origin():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 4))
    X[:, 0] += 3 * (2 * rng.integers(2, size=4000) - 1)
    model = models.GaussianMixture(2).fit(X - X.mean(axis=0))
    assert error(model.means_, np.array([[-3.0, 0, 0, 0], [3.0, 0, 0, 0]])) < 0.05
    np.testing.assert_allclose(model.covariances_, 1.0, atol=0.05)


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # there are three
@pytest.mark.parametrize("keep", ["tensor", "moments", "all"])
def test_one_component_is_the_mean(keep):
    X = make_mixture(500, 4, 3).X
    full = models.GaussianMixture(1, refine=None).fit(X)
    core = karat.coreset(X, problem=problems.GaussianMixture(1, keep=keep))
    for model in (full, models.GaussianMixture(1).fit_coreset(core)):
        np.testing.assert_allclose(model.means_[0], X.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(
            model.covariances_[0], np.trace(np.cov(X.T, bias=True)) / 4, rtol=1e-10
        )
    views = make_views(500).X
    for learner, given, mean in (
        (models.MultiView(1), views, lambda m: m.means_[1][0] - views[1].mean(axis=0)),
        (
            models.HiddenMarkov(1, emissions="gaussian", refine=None),
            X,
            lambda m: m.means_[0] - X[1:-1].mean(axis=0),
        ),
    ):
        np.testing.assert_allclose(mean(learner.fit(given)), 0, atol=1e-12)


def test_two_states_and_two_components_in_one_dimension():
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.random(30_000) < 0.1) % 2
    X = np.array([-1.0, 2.0])[states][:, None] + 0.5 * rng.standard_normal((30_000, 1))
    model = models.HiddenMarkov(2, emissions="gaussian").fit(X)
    np.testing.assert_allclose(np.sort(model.means_.ravel()), [-1, 2], atol=0.05)
    np.testing.assert_allclose(model.covars_, 0.25, atol=0.06)
    np.testing.assert_allclose(np.diag(model.transmat_), 0.9, atol=0.02)
    hidden = rng.integers(2, size=10_000)
    views = tuple(
        np.array(m)[hidden][:, None] + 0.5 * rng.standard_normal((10_000, 1))
        for m in ([0, 2], [1, -1], [3, 0])
    )
    found = models.MultiView(2).fit(views)
    assert error(np.hstack(found.means_), np.array([[0.0, 1, 3], [2, -1, 0]])) < 0.05


def test_sums_of_batches_far_from_the_origin():
    views = tuple(view + 1e7 for view in make_views(900).X)
    problem = problems.MultiView(3, "moments")
    from karat.problems.latent.sums import add

    sample, _ = read_sample(views, problem, None, None)
    whole = problem.sums(sample)
    parts = [
        problem.sums(read_sample(tuple(v[a:b] for v in views), problem, None, None)[0])
        for a, b in ((0, 70), (70, 900))
    ]
    both = add(*parts)
    assert both.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_allclose(both[name], value, rtol=1e-9, atol=1e-7 * np.abs(value).max())


@pytest.mark.parametrize("origin", [1e4, 1e8])
@pytest.mark.parametrize("refine", [None, "spherical", "diag", "full"])
def test_probabilities_do_not_depend_on_the_origin(origin, refine):
    """Of rows that are exact at every origin, so that nothing but the arithmetic differs."""
    exact = lambda X: np.round(X * 16) / 16  # noqa: E731
    rows = exact(make_mixture(3000, 4, 3).X)
    steps = exact(make_chain(3000, gaussian=True).X)
    near, far = (models.GaussianMixture(3, refine=refine).fit(rows + a) for a in (0.0, origin))
    np.testing.assert_allclose(
        far.predict_proba(rows + origin), near.predict_proba(rows), atol=1e-6
    )
    assert far.score(rows + origin) == pytest.approx(near.score(rows), abs=1e-6)
    pytest.importorskip("hmmlearn")
    near, far = (
        models.HiddenMarkov(3, emissions="gaussian", refine=refine).fit(steps + a)
        for a in (0.0, origin)
    )
    np.testing.assert_allclose(
        far.predict_proba(steps + origin), near.predict_proba(steps), atol=1e-6
    )
    assert far.score(steps + origin) == pytest.approx(near.score(steps), rel=1e-6)
    np.testing.assert_array_equal(far.predict(steps + origin), near.predict(steps))


@pytest.mark.parametrize("keep", ["tensor", "moments", "all"])
# one topic, one state: these data have more
@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
def test_one_topic_and_one_state_have_the_law_of_all_words(keep):
    counts, symbols = make_topics(3000).X, make_chain(3000).X
    law = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0)
    for problem, model in (
        (problems.SingleTopic(1, keep=keep), models.SingleTopic(1)),
        (problems.LatentDirichlet(1, 1.5, keep=keep), models.LatentDirichlet(1, alpha0=1.5)),
    ):
        np.testing.assert_allclose(model.fit(counts).topics_[0], law, atol=1e-12)
        core = karat.coreset(counts, problem=problem)
        np.testing.assert_allclose(model.fit_coreset(core).topics_[0], law, atol=1e-10)
    assert model.alpha_ == pytest.approx([1.5])
    law = np.bincount(np.ravel(symbols)[1:-1]) / 2998
    model = models.HiddenMarkov(1, refine=None)
    np.testing.assert_allclose(model.fit(symbols).emissionprob_[0], law, atol=1e-12)
    core = karat.coreset(symbols, problem=problems.HiddenMarkov(1, keep=keep))
    np.testing.assert_allclose(model.fit_coreset(core).emissionprob_[0], law, atol=1e-10)


def parameters(model):
    """The mixing matrix, the means, or those of the second view."""
    found = model.mixing_ if isinstance(model, models.ICA) else model.means_
    return found[1] if isinstance(found, tuple) else found


@pytest.mark.parametrize("unit", [1e-150, 1e150])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_the_unit_does_not_matter(unit):
    rows, steps = make_mixture(3000, 6, 3).X, make_chain(3000, gaussian=True).X
    views, mixed = make_views(3000).X, make_sources(3000).X
    for learner, X in (
        (models.GaussianMixture(3), rows),
        (models.GaussianMixture(3, variances="spherical"), rows),
        (models.HiddenMarkov(3, emissions="gaussian"), steps),
        (models.MultiView(3), views),
        (models.ICA(mixed.shape[1]), mixed),
    ):
        scaled = tuple(unit * view for view in X) if isinstance(X, tuple) else unit * X
        truth, found = (parameters(learner.fit(given)) for given in (X, scaled))
        np.testing.assert_allclose(found / unit, truth, rtol=1e-9, atol=1e-9)
        core = karat.coreset(scaled, problem=learner._problem(scaled))
        assert core.certificate.ok
        assert core.verify(scaled).ok


@pytest.mark.parametrize(("offset", "k"), [(5e3, 2), (5e3, 3), (1e6, 2), (40.0, 2)])
def test_the_mean_is_subtracted_before_digits_are_lost(offset, k):
    """The mean of all rows may be far away although its image under the whitening is not:
    components are apart along (1, -1), and the mean is along (1, 1).  Oracle: the stored maps,
    taken for exact, in extended precision.
    """
    wide = np.longdouble
    rng = np.random.default_rng(3)
    X = rng.standard_normal((4_000, 6)) + offset
    along = np.array([[1, -1, 0, 0, 0, 0], [0, 0, 1, -1, 0, 0]])
    X += 5.0 * np.vstack([np.zeros(6), along])[rng.integers(k, size=len(X))]
    core = karat.coreset(X, problem=problems.GaussianMixture(k))

    def sums(rows, weights):
        z = (rows.astype(wide) - core.maps["mean"].astype(wide)) @ core.maps["M"].astype(wide)
        cubes = np.einsum("ni,nj,nl->ijln", z, z, z) * weights.astype(wide)
        return cubes.sum(axis=-1), np.abs(cubes).sum(axis=-1)

    (full, size), (kept, _) = sums(X, np.ones(len(X))), sums(core.arrays()[0], core.weights)
    allowed = core.certificate.loss_error + core.certificate.rounding
    assert (np.abs(full - kept) <= allowed * size).all()
