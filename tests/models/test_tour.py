"""What a user meets who tries every learner: odd tables, few rows, rare columns, plain messages."""

import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from misfit_data import FAMILIES
from scipy import sparse

import karat
from karat import models, problems
from karat.errors import InputError, NotExactError
from karat.models import RecoveryWarning, ica, misfit, number, quadruples

VIEWS = FAMILIES["views"][0](None, 400, np.random.default_rng(3))
SOURCES = FAMILIES["sources"][0](None, 400, np.random.default_rng(3))
COUNTS = FAMILIES["latent Dirichlet"][0](None, 400, np.random.default_rng(3))


def messages(act):
    """What it warned of, whatever the kind; an error counts as one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            act()
        except InputError as error:
            return [str(one.message) for one in caught] + [str(error)]
    return [str(one.message) for one in caught]


def beside_the_probe(rows, seed):
    """A column of zeros, but ones in four rows that no check looks at."""
    out = np.setdiff1d(np.arange(rows), np.linspace(0, rows - 1, misfit.PROBE).astype(int))
    column = np.zeros((rows, 1))
    column[np.random.default_rng(seed).choice(out, 4, replace=False)] = 1.0
    return column


def test_rare_columns_are_no_misfit_of_views():
    """Less its mean such a column is a constant in the probe: two of them have products of no
    noise.
    """
    n = 2 * misfit.PROBE
    views = FAMILIES["views"][0](None, n, np.random.default_rng(3))
    rare = tuple(np.hstack([view, beside_the_probe(n, seed)]) for seed, view in enumerate(views))
    for X in (views, rare):
        assert models.MultiView(3).fit(X).recovery_.fits


def test_constant_columns_are_no_component_of_views():
    """The mean of 0.1 is not quite 0.1, and what is left was scaled to 1."""
    views = FAMILIES["views"][0](None, 2000, np.random.default_rng(3))
    constant = tuple(np.column_stack([view, np.full(2000, 0.1)]) for view in views)
    assert models.MultiView("auto").fit(views).n_components_ == 3
    assert models.MultiView("auto").fit(constant).n_components_ == 3
    still = np.full((300, 3), 0.1)
    assert models.HiddenMarkov("auto", emissions="gaussian", refine=None)._number(
        still, None, problems.HiddenMarkov(1, "gaussian")
    ) == 1  # fmt: skip


def test_a_source_that_the_probe_does_not_show_is_not_tested():
    n = 2 * misfit.PROBE
    X = FAMILIES["sources"][0](None, n, np.random.default_rng(3))
    model = models.ICA(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecoveryWarning)
        model.fit(np.hstack([X, beside_the_probe(n, 0)]))
    (check,) = (one for one in model.recovery_.checks if one.name == "bends")
    assert not check.tested
    assert ica.unmixing(np.zeros((2, 2, 2, 2)), np.diag([1.0, 0.0]), np.zeros(2)) is None


def test_a_topic_that_the_probe_does_not_show_is_not_tested():
    """At n = 30,000 overflow was a warning: the pairs of 20,000 of the documents are not those of
    all.
    """
    X = FAMILIES["single topic"][0]("one too many", 30_000, np.random.default_rng(200_021))
    model = models.SingleTopic(3)
    (message,) = messages(lambda: model.fit(X))
    assert message.startswith("Too little data for 3 topics: pairs of words do not clearly show 3")
    (check,) = (one for one in model.recovery_.checks if one.name == "quadruples")
    assert not check.tested
    tensors = quadruples.WordTensors(
        np.zeros(2), np.diag([1.0, -1e-9]), np.zeros((2,) * 3), np.zeros((2,) * 4)
    )
    assert quadruples.deviation(tensors, np.eye(2), 0.0) is None


def test_views_of_other_numbers_of_rows_are_refused_after_the_fit_too():
    """One row was taken for all rows."""
    model = models.MultiView(3).fit(VIEWS)
    first, second, third = VIEWS
    for rows in (1, 5):
        for act in (model.score, model.predict, model.predict_proba):
            with pytest.raises(InputError, match=f"three views have 400, {rows}, 400 rows"):
                act((first, second[:rows], third))
    with pytest.raises(InputError, match=r"^View 2 has 1 column; the model was fitted with 6\.$"):
        model.score((first, second[:, :1], third))
    with pytest.raises(InputError, match="Row 2, column 1 of view 3 is NaN or infinite"):
        model.score((first, second, np.where(np.arange(1600).reshape(400, 4) == 9, np.nan, third)))


def test_variances_of_views_are_those_of_the_fit():
    model = models.MultiView(2)
    with pytest.warns(RecoveryWarning, match="only 50 samples"):
        model.fit(tuple(view[:50] for view in VIEWS))
    assert np.isfinite(model.score(VIEWS))
    core = karat.coreset(VIEWS, problem=problems.MultiView(2))
    with pytest.warns(RecoveryWarning):
        model.fit(VIEWS)
    model.fit_coreset(core)
    with pytest.raises(NotExactError, match="variances of the columns, which a coreset"):
        model.score(VIEWS)


@pytest.mark.parametrize("container", [
    sparse.csr_array, sparse.coo_matrix, pd.DataFrame, pl.DataFrame,
    pl.LazyFrame, lambda view: view.tolist(),
])  # fmt: skip
def test_views_in_any_container(container):
    X = tuple(map(container, VIEWS))
    model, plain = models.MultiView(3).fit(X), models.MultiView(3).fit(VIEWS)
    for own, other in zip(model.means_, plain.means_, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-10)
    np.testing.assert_allclose(model.score(X), plain.score(VIEWS), rtol=1e-12)
    core = karat.coreset(X, problem=problems.MultiView(3))
    np.testing.assert_allclose(
        models.MultiView(3).fit_coreset(core).weights_, plain.weights_, rtol=1e-10
    )


def test_series_are_views_of_one_column():
    names = [pd.Series(view[:, 0], name=f"v{a}") for a, view in enumerate(VIEWS)]
    with pytest.warns(RecoveryWarning, match="do not clearly show 2 components"):
        model = models.MultiView(2).fit(tuple(names))
    assert model.view_names_ == (["'v0'"], ["'v1'"], ["'v2'"])


@pytest.mark.parametrize(("learner", "X"), [
    (models.ICA(2), SOURCES), (models.GaussianMixture(2), SOURCES),
    (models.HiddenMarkov(2, emissions="gaussian"), SOURCES), (models.SingleTopic(2), COUNTS),
])  # fmt: skip
def test_masked_values_are_not_used(learner, X):
    """scikit-learn's checks take what is under the mask for data."""
    masked = np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) == 5)
    with pytest.raises(InputError, match="X has masked values in 1 row, the first in row"):
        learner.fit(masked)


@pytest.mark.parametrize("learner", [models.ICA(2), models.SingleTopic(2)])
def test_what_is_no_table_is_named(learner, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("select range a, range b from range(9)")
    for X, message in (
        (None, "X is a NoneType; it must be a table"),
        (str(tmp_path), "X is a path; read files with karat.coreset_files"),
        (relation, "X is a DuckDBPyRelation, which is read in batches"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            learner.fit(X)


def test_texts_are_not_word_counts():
    texts = ["the cat sat on the mat", "a dog barked"] * 60
    for X in (texts, np.array(texts), np.array(texts, dtype=object), pd.Series(texts)):
        for learner in (models.SingleTopic(2), models.LatentDirichlet(2)):
            with pytest.raises(InputError, match="X has texts; count their words first: CountVec"):
                learner.fit(X)
        with pytest.raises(InputError, match="X has text; number the symbols that occur"):
            models.HiddenMarkov(2).fit(X)


def test_auto_needs_two_halves():
    few = tuple(view[:3] for view in VIEWS)
    for learner, X, name in (
        (models.MultiView("auto"), few, "n_components"),
        (models.SingleTopic("auto"), COUNTS[:3], "n_topics"),
        (models.LatentDirichlet("auto"), COUNTS[:3], "n_topics"),
        (models.HiddenMarkov("auto"), np.array([0, 1, 2, 1, 0]), "n_states"),
        (models.HiddenMarkov("auto", emissions="gaussian"), SOURCES[:5], "n_states"),
    ):
        (message,) = messages(lambda learner=learner, X=X: learner.fit(X))
        assert message == (
            f'{name}="auto" compares one half of the samples with the other and needs at least 20'
            f" of them; X has 3. Give {name} a number."
        )


def test_auto_counts_sources_in_any_units():
    twice = np.column_stack([SOURCES, SOURCES[:, 0] + SOURCES[:, 1]])
    for X in (twice, 1e-3 * twice, twice * [1, 1e-4, 1e4, 1, 1], twice + 1e6):
        covariance = np.cov(X.T)
        assert number.rank(covariance) == 4
    assert number.rank(np.zeros((3, 3))) == 1
    # of columns too far apart for double precision, nothing is left out without a word
    with pytest.raises(InputError, match="a column of another unit"):
        models.ICA("auto").fit(SOURCES * [1e-9, 1e-9, 1e-9, 1e3])


@pytest.mark.parametrize("learner", [models.ICA(2), models.ICA("auto"), models.GaussianMixture(2)])
def test_columns_that_do_not_vary_or_underflow(learner):
    for X in (np.full((200, 4), 0.1), 1e-200 * SOURCES):
        with pytest.raises(InputError, match="Squares of numbers below 1e-154 are zero") as caught:
            learner.fit(X)
        assert "Ask for 0" not in str(caught.value)
    if isinstance(learner, models.ICA):
        assert "support 0 components" in str(caught.value)
        assert "Leave out columns that do not vary" in str(caught.value)


def test_views_whose_squares_overflow_are_named():
    """Products of two views were finite: they "did not fit", with warnings of overflow."""
    first, second, third = VIEWS
    (message,) = messages(lambda: models.MultiView(2).fit((first, 1e200 * second, third)))
    assert re.match(r"Column \d of view 2 has values up to .*e\+200; rescale it", message)
    model = models.MultiView(3).fit((first, 1e140 * second, third))
    np.testing.assert_allclose(
        model.means_[1] / 1e140, models.MultiView(3).fit(VIEWS).means_[1], rtol=1e-9
    )


def test_documents_longer_than_doubles_count():
    for learner in (models.SingleTopic(2), models.LatentDirichlet(2)):
        for factor in (1e200, 1e15):
            (message,) = messages(lambda learner=learner, f=factor: learner.fit(f * COUNTS))
            assert re.match(r"Document \d+ has 4\.0e\+\d+ words, more than doubles can", message)


def test_an_offset_is_not_blamed_for_words_or_sources():
    one = np.eye(5)[np.zeros(300, int)] * 9
    (message,) = messages(lambda: models.SingleTopic(2).fit(one))
    assert message.endswith("Ask for 1, or give more data.")
    (message,) = messages(lambda: models.ICA(4).fit(SOURCES * [1e-9, 1e-9, 1e-9, 1e3]))
    assert "offset" not in message


def test_sources_have_a_column_each():
    model = models.ICA(2).fit(SOURCES[:, :3] @ np.diag([3.0, 2.0, 0.01]))
    sources = model.transform(SOURCES[:, :3])
    assert model.inverse_transform(sources).shape == (400, 3)
    with pytest.raises(InputError, match="sources has 3 columns; it must have one for each of the"):
        model.inverse_transform(SOURCES[:, :3])


def test_alpha0_and_perplexity():
    for bad in ("x", True, [1.0], None):
        with pytest.raises(InputError, match="alpha0 must be a positive number, not "):
            models.LatentDirichlet(2, alpha0=bad).fit(COUNTS)
    single = FAMILIES["single topic"][0](None, 400, np.random.default_rng(1))
    for model, X in (
        (models.SingleTopic(3), single),
        (models.LatentDirichlet(3, alpha0=1.2), COUNTS),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecoveryWarning)
            model.fit(X)
        assert (model.score_samples(X) <= 0).all()
        np.testing.assert_allclose(
            model.perplexity(X), np.exp(-len(X) * model.score(X) / X.sum()), rtol=1e-12
        )
        assert 1 < model.perplexity(X) < X.shape[1]
        with pytest.raises(InputError, match=r"^X has no words\.$"):
            model.perplexity(np.zeros((2, 15)))


def test_one_is_singular():
    """One row, component, word, sequence or document."""
    short = np.vstack([COUNTS, np.eye(1, 15)])
    walk = np.random.default_rng(0).integers(3, size=300)
    said = [
        *messages(lambda: models.ICA(2).fit(SOURCES[:, :1])),
        *messages(lambda: models.ICA(1).fit(SOURCES[:2])),
        *messages(lambda: models.MultiView(1).fit(tuple(view[:1] for view in VIEWS))),
        *messages(lambda: models.MultiView(1).fit(VIEWS)),
        *messages(lambda: models.MultiView(3).fit(tuple(view[:, :1] for view in VIEWS))),
        *messages(lambda: models.HiddenMarkov(2).fit(np.zeros(300, int))),
        *messages(lambda: models.HiddenMarkov(1, refine=None).fit(walk, lengths=[1, 299])),
        *messages(lambda: models.HiddenMarkov(1, refine=None).fit(walk[:3])),
        *messages(lambda: models.GaussianMixture(2).fit(SOURCES[:, :1])),
        *messages(lambda: models.SingleTopic(1).fit(short)),
        *messages(lambda: models.SingleTopic(2).fit(COUNTS[:, :1])),
        *messages(lambda: models.SingleTopic(3).fit(np.where(COUNTS.max() == COUNTS, -1, COUNTS))),
        *messages(lambda: models.LatentDirichlet(1).fit(COUNTS[:2])),
        *messages(lambda: models.SingleTopic(3).fit(COUNTS).top_words(["a"])),
    ]
    assert len(said) >= 14
    for message in said:
        assert not re.search(r"(?<![\d.,])1 [a-z]+s\b(?! (not|negative))", message), message
        assert not re.search(r"(?<![\d.,])1 [a-z]+ (are|have|were|explain)\b", message), message
    assert any("1 of 401 documents has fewer than 3 words and was left out." in m for m in said)
    assert any("1 of 2 sequences has fewer than 3 steps and was left out." in m for m in said)


def test_where_auto_and_arrays_have_no_place(tmp_path):
    for make, name in (
        (lambda: problems.ICA("auto"), "n_components"),
        (lambda: problems.HiddenMarkov("auto"), "n_states"),
        (lambda: problems.LatentDirichlet("auto", 1.0), "n_topics"),
    ):
        with pytest.raises(InputError, match=f'^{name}="auto" needs all rows: karat.models.'):
            make()
    core = karat.coreset(VIEWS, problem=problems.MultiView(2))
    with pytest.raises(InputError, match="in several tables, one per view: use tables"):
        core.arrays()
    assert [table.shape[1] for table in core.tables()] == [5, 6, 4]
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match=r"^A DataFrame is not a path; pass paths, or one table"):
        karat.coreset_files([pd.DataFrame(SOURCES), str(tmp_path)], problem=problems.ICA(2))
