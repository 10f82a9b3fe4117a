"""Symbols and words with large numbers: memory follows what occurs, and sizes are checked before
memory is taken.
"""

import tracemalloc

import numpy as np
import pytest
from latent_data import make_chain, make_topics
from scipy import sparse

import karat
from karat import models, problems

pytestmark = pytest.mark.filterwarnings("ignore::karat.models.RecoveryWarning")
RNG = np.random.default_rng(0)
MANY = 10**9
SYMBOLS = RNG.integers(0, 5, (3000, 1)).astype(float)
SYMBOLS[17] = MANY
WIDE = sparse.csr_array(
    (np.ones(900), RNG.integers(0, MANY, 900), np.arange(0, 901, 9)), shape=(100, MANY + 1)
)
TOPICS = [problems.SingleTopic(2), problems.LatentDirichlet(2, 1.0)]
CHAINS = [problems.HiddenMarkov(2, keep=keep) for keep in ("tensor", "moments", "all")]
TABLES = [problems.GaussianMixture(2), problems.ICA(2), problems.HiddenMarkov(2, "gaussian")]
CASES = {
    **{f"chain {i}": (problem, SYMBOLS, "Row 17 .*1000000000") for i, problem in enumerate(CHAINS)},
    **{f"topics {i}": (problem, WIDE, "1,000,000,001 words") for i, problem in enumerate(TOPICS)},
    **{f"rows {i}": (problem, WIDE, "1,000,000,001 col") for i, problem in enumerate(TABLES)},
    "wide symbols": (problems.HiddenMarkov(2), WIDE, "in one column; X has 1000000001"),
    "views": (problems.MultiView(2), (WIDE, WIDE, WIDE), "1,000,000,001 columns"),
    "views, the last": (
        problems.MultiView(2), (np.ones((100, 3)), np.ones((100, 3)), WIDE), "1,000,000,001 col"
    ),
}  # fmt: skip


def peak_of(action):
    """What an action raises or returns, and the most memory it held."""
    tracemalloc.start()
    try:
        return action(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("learner", [False, True], ids=["coreset", "learner"])
def test_sizes_are_refused_before_memory_is_taken(case, learner):
    problem, X, message = CASES[case]
    kind = getattr(models, type(problem).__name__)
    accepted = {name: value for name, value in vars(problem).items() if name in kind().get_params()}

    build = kind(**accepted).fit if learner else lambda X: karat.coreset(X, problem=problem)

    def action():
        with pytest.raises(karat.InputError, match=message):
            build(X)

    assert peak_of(action)[1] < 2**24


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_in_files(tmp_path, suffix):
    frame = pytest.importorskip("pandas").DataFrame({"s": SYMBOLS.ravel().astype(int)})
    path = tmp_path / f"symbols.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path)

    def action():
        with pytest.raises(karat.InputError, match=rf"symbols\.{suffix}.*Row 17 .*1000000000"):
            karat.coreset_files(path, problem=problems.HiddenMarkov(2))

    assert peak_of(action)[1] < 2**26


@pytest.mark.parametrize("code", [2.0**20, 1e18, 1e300])
def test_a_symbol_beyond_what_integers_hold_is_no_other_symbol(code):
    """1e300 as an integer was a symbol of its own making."""
    with pytest.raises(karat.InputError, match="Row 17 of X contains the symbol"):
        karat.coreset(np.where(SYMBOLS == MANY, code, SYMBOLS), problem=problems.HiddenMarkov(2))
    fitted = models.HiddenMarkov(2).fit(np.minimum(SYMBOLS, 4))
    with pytest.raises(karat.InputError, match="Row 17 of X contains the symbol"):
        fitted.predict(np.where(SYMBOLS == MANY, code, SYMBOLS))


@pytest.mark.parametrize("keep", ["tensor", "moments"])
def test_symbols_with_gaps_are_learned_as_those_without(keep):
    X = make_chain(6000).X.reshape(-1, 1)
    codes = np.array([3, 70, 5000, 5001, 99_999, 600_000, 2**20 - 1])
    gaps = codes[X.astype(int)]
    (core, learned), peak = peak_of(
        lambda: (
            karat.coreset(gaps, problem=problems.HiddenMarkov(3, keep=keep)),
            models.HiddenMarkov(3).fit(gaps),
        )
    )
    assert peak < 2**29  # maps of a million rows
    plain = models.HiddenMarkov(3).fit(X)
    np.testing.assert_allclose(learned.emissionprob_[:, codes], plain.emissionprob_, atol=1e-9)
    assert learned.emissionprob_.sum() == pytest.approx(learned.emissionprob_[:, codes].sum())
    np.testing.assert_allclose(learned.transmat_, plain.transmat_, atol=1e-9)
    few = models.HiddenMarkov(3).fit_coreset(core)
    np.testing.assert_allclose(few.emissionprob_[:, codes], plain.emissionprob_, atol=1e-8)
    assert core.verify(gaps).ok


@pytest.mark.parametrize("dirichlet", [False, True])
@pytest.mark.parametrize("keep", ["tensor", "moments"])
def test_words_that_do_not_occur_do_not_matter(dirichlet, keep):
    counts = make_topics(3000, alpha=np.array([0.2, 0.3, 0.4, 0.6]) if dirichlet else None).X
    places = np.sort(RNG.choice(2**16, counts.shape[1], replace=False))
    table = sparse.csr_array(counts)
    wide = sparse.csr_array(
        (table.data, places[table.indices], table.indptr), shape=(len(counts), 2**16)
    )
    more = {"alpha0": 1.5} if dirichlet else {}
    name = "LatentDirichlet" if dirichlet else "SingleTopic"
    problem, learner = (
        getattr(problems, name)(4, keep=keep, **more),
        getattr(models, name)(4, **more),
    )
    core = karat.coreset(wide, problem=problem)
    assert core.verify(wide).ok
    few = learner.fit_coreset(core).topics_[:, places]
    plain = learner.fit(counts).topics_
    full = learner.fit(wide).topics_
    np.testing.assert_allclose(full[:, places], plain, atol=1e-8)
    np.testing.assert_allclose(few, plain, atol=1e-7)
    assert full.sum() == pytest.approx(full[:, places].sum())


@pytest.mark.parametrize("make", [problems.SingleTopic, problems.HiddenMarkov])
def test_mode_c_of_many_words_is_refused_before_its_features_are_made(make):
    n, d = 1000, 2**16
    words = (np.ones(n * 5), RNG.integers(0, 50, n * 5) * 1000, np.arange(0, n * 5 + 1, 5))
    X = (
        sparse.csr_array(words, shape=(n, d))
        if make is problems.SingleTopic
        else RNG.integers(0, 5, (n, 1)) * 10_000
    )

    def action():
        with pytest.raises(karat.InputError, match=r'keep="all" needs [0-9,]{9,} features'):
            karat.coreset(X, problem=make(2, keep="all"))

    assert peak_of(action)[1] < 2**29
