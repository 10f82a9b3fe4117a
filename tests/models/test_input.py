"""Bad input: errors with the place and the remedy, never a NaN."""

import re
import subprocess
import sys

import numpy as np
import pytest
from latent_data import make_chain, make_mixture, make_topics, make_views
from scipy import sparse

import karat
from karat import models, problems
from karat.errors import InputError, NotExactError
from karat.models import RecoveryWarning

COUNTS = make_topics(300).X


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "negative, the first in document 2, word 3"),
        (0.5, "not an integer, the first in document 2"),
        (np.nan, "NaN or infinite"),
    ],
)
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_counts_must_be_counts(value, message, container):
    X = COUNTS.astype(float)
    X[2, 3] = value
    with pytest.raises(InputError, match=message):
        karat.coreset(container(X), problem=problems.SingleTopic(3))


def test_short_documents_are_counted_and_left_out():
    X = make_topics(2000).X
    X[:7] = 0
    X[:7, 0] = 2
    core = karat.coreset(X, problem=problems.SingleTopic(4))
    assert "7 of 2,000 documents have fewer than 3 words" in str(core.certificate)
    assert core.indices.min() >= 7
    np.testing.assert_allclose(core.weights.sum(), 1993)
    with pytest.warns(RecoveryWarning, match="7 of 2,000 documents"):
        model = models.SingleTopic(4).fit(X)
    assert model.n_dropped_ == 7
    np.testing.assert_allclose(
        model.fit_coreset(core).topics_, models.SingleTopic(4).fit(X[7:]).topics_, atol=1e-10
    )
    with pytest.raises(InputError, match="No document has 3 words or more, of 2,000"):
        karat.coreset(
            np.minimum(X, 0) + np.eye(1, X.shape[1], dtype=int), problem=problems.SingleTopic(4)
        )


def test_too_few_documents():
    with pytest.raises(InputError, match="3 documents of at least 3 words cannot support 4 topics"):
        models.SingleTopic(4).fit(COUNTS[:3])
    with pytest.warns(RecoveryWarning, match="only 40 documents"):
        models.SingleTopic(3).fit(COUNTS[:40])


def test_sequences():
    X = make_chain(2000).X
    with pytest.raises(InputError, match="lengths add up to 1,999, but X has 2,000"):
        karat.coreset(X, problem=problems.HiddenMarkov(3), lengths=[1000, 999])
    with pytest.raises(InputError, match="every sequence is shorter than 3"):
        karat.coreset(X, problem=problems.HiddenMarkov(3), lengths=[2] * 1000)
    with pytest.raises(InputError, match="integers of at least 1"):
        karat.coreset(X, problem=problems.HiddenMarkov(3), lengths=[2000.0])
    with pytest.raises(InputError, match=r"row 5 of X contains"):
        karat.coreset(np.where(np.arange(2000) == 5, -1, X), problem=problems.HiddenMarkov(3))
    with pytest.raises(InputError, match="X has 2 columns"):
        karat.coreset(np.column_stack([X, X]), problem=problems.HiddenMarkov(3))
    with pytest.raises(InputError, match="lengths is for sequence models only"):
        karat.coreset(make_mixture(100).X, problem=problems.GaussianMixture(2), lengths=[100])
    core = karat.coreset(X, problem=problems.HiddenMarkov(3), lengths=[2] * 10 + [1980])
    assert "10 of 11 sequences have fewer than 3 steps" in str(core.certificate)
    assert core.indices.min() >= 20
    assert core.indices.max() < 2000 - 2


@pytest.mark.parametrize(
    ("problem", "X", "message"),
    [
        (
            problems.GaussianMixture(4),
            np.ones((50, 3)),
            "4 components cannot be told apart in 3 columns",
        ),
        (problems.GaussianMixture(2), np.ones((50, 3)), "support 1 component, not 2"),
        (problems.GaussianMixture(2), np.zeros((50, 3)), "support 1 component, not 2"),
        (problems.ICA(2), np.ones((50, 3)), "support 0 components"),
        (problems.SingleTopic(15), COUNTS, "15 topics cannot be told apart in 14 words"),
        (problems.SingleTopic(2), 3 * np.ones((50, 1)), "cannot be told apart in 1 word "),
        (
            problems.HiddenMarkov(2),
            np.zeros(50, dtype=int),
            "2 states cannot be told apart in 1 symbol ",
        ),
        (problems.HiddenMarkov(2, "gaussian"), np.ones((50, 3)), "support 1 state, not 2"),
        (problems.MultiView(2), np.ones((5, 3)), "tuple of three tables"),
        (
            problems.MultiView(2),
            (np.ones((5, 3)), np.ones((5, 3)), np.ones((6, 3))),
            "5, 5, 6 rows",
        ),
        (problems.GaussianMixture(2), (np.ones((5, 3)),) * 3, "takes one table, not a tuple of 3"),
        (problems.GaussianMixture(2), np.zeros((0, 3)), "no rows"),
    ],
)
def test_data_that_cannot_hold_the_model(problem, X, message):
    with pytest.raises(InputError, match=message):
        karat.coreset(X, problem=problem)


def test_one_cluster_only_is_a_warning_with_numbers():
    X = np.random.default_rng(0).standard_normal((5000, 6)) + 3
    with pytest.warns(RecoveryWarning) as seen:
        model = models.GaussianMixture(2).fit(X)
    assert any(re.search(r"eigenvalue 1 is [\d.e-]+", str(w.message)) for w in seen)
    assert np.isfinite(model.means_).all()
    assert seen[0].filename == __file__  # the warning points at the user's line
    assert models.GaussianMixture("auto").fit(X).n_components_ == 1


def test_gaussian_sources_are_a_warning():
    X = np.random.default_rng(0).standard_normal((5000, 3))
    with pytest.warns(RecoveryWarning) as seen:
        model = models.ICA(3).fit(X)
    assert any("sources look Gaussian" in str(w.message) for w in seen)
    assert np.isfinite(model.mixing_).all()


def test_non_finite_values_are_named():
    X = make_mixture(500, 5, 3).X
    X[7, 2] = np.nan
    with pytest.raises(InputError, match="Column 2 has 1 NaN value, the first in row 7"):
        karat.coreset(X, problem=problems.GaussianMixture(3))
    with pytest.raises(InputError, match="Column 2 has 1 NaN value, the first in row 7"):
        models.GaussianMixture(3).fit(X)
    views = make_views(500).X
    views[1][3, 4] = np.inf
    with pytest.raises(
        InputError, match="Column 4 of view 2 has 1 infinite value, the first in row 3"
    ):
        karat.coreset(views, problem=problems.MultiView(3))
    views[1][3, 4] = 1e200
    with pytest.raises(InputError, match="Column 4 of view 2 has a value in row 3 that is 1e"):
        karat.coreset(views, problem=problems.MultiView(3))


def test_mode_c_refuses_what_would_not_be_small():
    X = make_mixture(400, 30, 3).X
    with pytest.raises(
        InputError, match=r'keep="all" needs 500 features for this data, more than 200'
    ):
        karat.coreset(X, problem=problems.GaussianMixture(3, keep="all"))
    counts = sparse.csr_array(np.random.default_rng(0).poisson(0.1, size=(5000, 80)))
    with pytest.raises(InputError, match=r"more than 2,000"):
        karat.coreset(counts, problem=problems.SingleTopic(2, keep="all"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problems.GaussianMixture(0), "integer of at least 1"),
        (lambda: problems.GaussianMixture(2.0), "integer of at least 1"),
        (lambda: problems.GaussianMixture(2, "full"), "variances must be"),
        (lambda: problems.SingleTopic(2, keep="most"), "keep must be one of"),
        (lambda: problems.LatentDirichlet(2, 0.0), "alpha0 must be a positive number"),
        (lambda: problems.HiddenMarkov(2, "poisson"), "emissions must be"),
        (lambda: models.HiddenMarkov(2, start="last").fit(np.zeros(9)), "start must be"),
    ],
)
def test_parameters(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_targets_and_groups_have_no_place():
    X = make_mixture(100, 5, 3).X
    with pytest.raises(InputError, match="has no target"):
        karat.coreset(X, X[:, 0], problems.GaussianMixture(3))
    with pytest.raises(InputError, match="does not take groups"):
        karat.coreset(X, problem=problems.GaussianMixture(3), groups=np.arange(100) % 2)


def test_coreset_of_another_problem():
    X = make_mixture(500, 5, 3).X
    core = karat.coreset(X, problem=problems.GaussianMixture(3))
    with pytest.raises(NotExactError, match="needs GaussianMixture"):
        models.GaussianMixture(2).fit_coreset(core)
    with pytest.raises(NotExactError, match=r"learns from a coreset of problems.ICA"):
        models.ICA(3).fit_coreset(core)
    with pytest.raises(InputError, match=r"takes a karat\.Coreset"):
        models.GaussianMixture(3).fit_coreset(X)
    chain = karat.coreset(make_chain(5000).X, problem=problems.HiddenMarkov(3, keep="all"))
    with pytest.raises(NotExactError, match='start="first" needs the first steps'):
        models.HiddenMarkov(3, start="first").fit_coreset(chain)


def test_without_scikit_learn_the_problems_work_and_the_models_say_why():
    code = (
        "import sys; sys.modules['sklearn'] = None\nimport karat, numpy as np\nX ="
        " np.random.default_rng(0).standard_normal((500, 4)) + 5 * np.eye(2, 4)[np.arange(500) %"
        " 2]\nassert karat.coreset(X,"
        " problem=karat.problems.GaussianMixture(2)).certificate.ok\ntry:\n    import"
        " karat.models\nexcept ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'karat[models]'" in out.stdout


@pytest.mark.parametrize(
    "learner",
    [
        models.GaussianMixture(2),
        models.GaussianMixture("auto"),
        models.ICA(2),
        models.HiddenMarkov(2, emissions="gaussian"),
    ],
)
def test_tables_too_wide_for_their_second_moments_are_refused_at_once(learner):
    X = sparse.random(40, 20_000, density=1e-3, format="csr", random_state=0)  # 3.2 GB
    with pytest.raises(InputError, match=r"20,000 columns; the second moments .* TruncatedSVD"):
        learner.fit(X)


def test_views_too_wide_are_refused_at_once():
    views = tuple(np.zeros((10, d)) for d in (3, 3001, 3))
    with pytest.raises(InputError, match="3,001 columns"):
        models.MultiView(2).fit(views)


@pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")  # few rows
def test_no_steps_are_refused():
    model = models.HiddenMarkov(2).fit(make_chain(500).X)
    for method in (model.predict, model.predict_proba, model.score):
        with pytest.raises(InputError, match="no rows"):
            method(np.zeros((0, 1)))


def test_a_row_far_away_is_not_called_an_offset():
    X = make_mixture(3000, 6, 3).X
    X[7] = 1e9  # about the mean there is no offset that could be subtracted
    with pytest.raises(InputError, match="a row far away from all others"):
        models.GaussianMixture(3).fit(X)
