"""Latent-variable problems over files, in two passes: the full data's parameters, in every mode."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from latent_data import CASES, make_topics
from latent_tables import MODES, case_of, parameter_error
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer

import karat
from karat import models
from karat import problems as P
from karat.io.find import open_source


@pytest.fixture(params=list(CASES))
def case(request):
    return case_of(request.param)


def check(core, case, weights=None):
    """Exact, of the right rows, and with the parameters of a fit on all rows."""
    assert core.certificate.loss_error <= 1e-11
    assert core.certificate.passes == 2
    assert core.n_rows == case.n
    proof = core.verify(case.X, sample_weight=weights, **case.lengths)
    assert proof.ok, str(proof)
    assert proof.loss_error <= 1e-11
    assert not any("not" in note for note in proof.notes)
    tables = core.X if isinstance(core.X, tuple) else (core.X,)
    for kept, rows in zip(tables, case.rows_at(core.indices), strict=True):
        np.testing.assert_array_equal(
            np.asarray(pd.DataFrame(kept) if isinstance(kept, np.ndarray) else kept.to_pandas()),
            rows,
        )
    full = case.learner().fit(case.X, sample_weight=weights, **case.lengths)
    assert parameter_error(full, case.learner().fit_coreset(core), case.parameters) <= 1e-10


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:.*were left out")
@pytest.mark.parametrize("keep", MODES)
def test_parquet(case, keep, tmp_path):
    core = karat.coreset_files(
        case.write(tmp_path / "data"), problem=case.problem(keep), batch_rows=7001, **case.roles
    )
    check(core, case)
    np.testing.assert_allclose(core.weights.sum(), len(case.windows()), rtol=1e-12)
    assert np.isin(core.indices, case.windows()).all()
    core.save(tmp_path / "core.npz")
    again = karat.load(tmp_path / "core.npz")
    assert again.problem == core.problem
    assert (
        parameter_error(
            case.learner().fit_coreset(core), case.learner().fit_coreset(again), case.parameters
        )
        <= 1e-13
    )
    in_memory = karat.coreset(case.X, problem=case.problem(keep), **case.lengths)
    assert len(core) == len(in_memory)
    assert (core.maps is None) == (keep == "all")
    for name, value in (core.maps or {}).items():
        np.testing.assert_allclose(
            value, in_memory.maps[name], rtol=0, atol=1e-10 * np.abs(value).max(initial=1e-300)
        )


@pytest.mark.filterwarnings("ignore:.*were left out")
def test_weights_and_keys(case, tmp_path):
    folder = case.write(tmp_path / "data")
    core = karat.coreset_files(
        folder, problem=case.problem(), sample_weight="w", key="id", batch_rows=3001, **case.roles
    )
    check(core, case, case.weights)
    assert (case.weights[core.indices] > 0).all()
    np.testing.assert_array_equal(core.keys, core.indices + 10**6)
    np.testing.assert_allclose(core.weights.sum(), case.weights[case.windows()].sum(), rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:.*were left out")
@pytest.mark.parametrize("tag", ["mixture", "single topic", "chain, gaussian", "views"])
@pytest.mark.parametrize("batch_rows", [997, 50_000])
def test_csv(tag, batch_rows, tmp_path):
    case = case_of(tag)
    for i, start in enumerate(range(0, case.n, 11_003)):
        pacsv.write_csv(case.table.slice(start, 11_003), tmp_path / f"{i}.csv")
    source = open_source(tmp_path, block_bytes=150_001)
    check(
        karat.coreset_files(source, problem=case.problem(), batch_rows=batch_rows, **case.roles),
        case,
    )


def test_the_tensor_is_that_of_all_rows():
    """Against NumPy: the contraction of the mixture's third moments, with the stored maps."""
    case = case_of("mixture")
    core = karat.coreset_files(
        case.table, problem=case.problem(), columns=case.columns, batch_rows=999
    )
    M, sigma2 = core.maps["M"], core.maps["sigma2"]
    query = np.random.default_rng(0).standard_normal(4)
    inner, mean = query[:-1], case.X.mean(axis=0)
    along = (case.X - mean) @ (M @ inner) + query[-1]  # the last coordinate is the constant 1
    expected = (along**3 - 3 * sigma2 * along * np.square(M @ inner).sum()).sum()
    np.testing.assert_allclose(core.loss(query), expected, rtol=1e-10)
    cov = np.cov(case.X.T, bias=True)
    lowest = np.linalg.eigvalsh(cov)[: 8 - 4 + 1]
    np.testing.assert_allclose(sigma2, lowest.mean(), rtol=1e-10)
    np.testing.assert_allclose(M.T @ (cov - sigma2 * np.eye(8)) @ M, np.eye(3), atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*were left out")
def test_short_sequences_are_counted_and_first_steps_kept(tmp_path):
    case = case_of("chain")
    core = karat.coreset_files(
        case.write(tmp_path / "data"), problem=case.problem(), batch_rows=512, **case.roles
    )
    lengths = case.lengths["lengths"]
    assert f"{(lengths < 3).sum()} of {len(lengths)} sequences have fewer than 3 steps" in str(
        core.certificate
    )
    first = np.cumsum([0, *lengths[:-1]])[lengths >= 3]
    law = np.bincount(case.X[first], minlength=7) / len(first)
    np.testing.assert_allclose(core.maps["first"], law @ core.maps["M"], rtol=1e-10)
    one, two = (models.HiddenMarkov(3, start="first") for _ in range(2))
    one.fit(case.X, **case.lengths)
    two.fit_coreset(core)
    np.testing.assert_allclose(one.startprob_, two.startprob_, rtol=1e-10)


def test_without_a_sequence_column_all_rows_are_one_sequence(tmp_path):
    case = case_of("chain")
    core = karat.coreset_files(
        case.write(tmp_path / "data"), problem=case.problem(), columns=case.columns, batch_rows=777
    )
    assert core.verify(case.X).ok
    assert core.weights.sum() == pytest.approx(case.n - 2, rel=1e-12)


def test_symbols_that_come_late(tmp_path):
    X = np.concatenate([case_of("chain").X % 4, case_of("chain").X])
    pq.write_table(pa.table({"x": X}), tmp_path / "a.parquet", row_group_size=500)
    core = karat.coreset_files(tmp_path, problem=P.HiddenMarkov(3), batch_rows=500)
    assert core.verify(X).ok
    assert len(core.maps["M"]) == 7


def test_words_through_a_sparse_pipeline(tmp_path):
    """More than 600 words: products of words are summed as a sparse matrix, where memory has the
    rows themselves.
    """
    counts = make_topics(n=4000, d=800, k=4, length=20).X
    words = np.array([f"w{j:03d}" for j in range(800)])
    table = pa.table({"text": [" ".join(np.repeat(words, row)) for row in counts]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=701)
    pipeline = make_column_transformer((CountVectorizer(), "text"))
    Z = pipeline.fit_transform(table.to_pandas())
    assert Z.shape[1] > 600
    core = karat.coreset_files(
        tmp_path, problem=P.SingleTopic(4), columns=["text"], pipeline=pipeline, batch_rows=1501
    )
    assert core.verify(Z).ok
    assert abs(core.X - Z[core.indices]).max() == 0
    full, kept = models.SingleTopic(4).fit(Z), models.SingleTopic(4).fit_coreset(core)
    assert parameter_error(full, kept, ("topics_", "weights_")) <= 1e-10
    with pytest.raises(karat.InputError, match="occur together take"):
        karat.coreset_files(
            tmp_path, problem=P.SingleTopic(4), columns=["text"], pipeline=pipeline, memory=10**6
        )


def test_sources_that_can_be_read_twice(tmp_path):
    case = case_of("mixture")
    options = {"problem": case.problem(), "columns": case.columns, "batch_rows": 4000}
    check(karat.coreset_files(case.table, **options), case)
    duckdb.sql("SET threads TO 1")
    relation = duckdb.sql(
        f"SELECT * FROM read_parquet('{case.write(tmp_path / 'data')}/*.parquet') ORDER BY id"
    )
    check(karat.coreset_files(relation, **options), case)
    with pytest.raises(karat.InputError, match=r"GaussianMixture.* reads the data twice"):
        karat.coreset_files(case.table.to_reader(), **options)


def test_progress_ends_at_the_end(tmp_path):
    case = case_of("sources")
    seen = []
    karat.coreset_files(
        case.write(tmp_path / "data"), problem=case.problem(), columns=case.columns,
        batch_rows=3000, progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == sorted(seen)
    assert (
        seen[-1][0]
        == seen[-1][1]
        == 2 * sum(f.stat().st_size for f in (tmp_path / "data").iterdir())
    )


def test_missing_values_are_named_or_counted(tmp_path):
    case = case_of("mixture")
    values = case.table["v0_3"].to_pylist()
    values[9000] = None
    pq.write_table(
        case.table.set_column(3, "v0_3", pa.array(values)),
        tmp_path / "a.parquet",
        row_group_size=4000,
    )
    with pytest.raises(
        karat.InputError, match=r"a\.parquet, row group 2, row 9,000: column 'v0_3' has no value"
    ):
        karat.coreset_files(tmp_path, problem=case.problem(), columns=case.columns)
    core = karat.coreset_files(
        tmp_path, problem=case.problem(), columns=case.columns, on_missing="drop", batch_rows=3000
    )
    assert "1 row with missing values was left out." in str(core.certificate)
    weights = np.ones(case.n)
    weights[9000] = 0
    assert core.verify(case.X, sample_weight=weights).ok


def test_what_is_wrong_with_the_rows_is_said_with_its_place(tmp_path):
    counts = pa.table(
        {f"c{j}": column for j, column in enumerate(make_topics(n=3000).X.T.astype(float))}
    )
    pq.write_table(counts, tmp_path / "a.parquet", row_group_size=1000)
    spoilt = counts["c5"].to_numpy().copy()
    spoilt[2007] = 0.5
    pq.write_table(
        counts.set_column(5, "c5", pa.array(spoilt)), tmp_path / "b.parquet", row_group_size=1000
    )
    with pytest.raises(
        karat.InputError,
        match=r"b\.parquet, row group 2, row 2,000: 1 count is not an integer.*document 7, word 5",
    ):
        karat.coreset_files(tmp_path, problem=P.SingleTopic(4), batch_rows=1000)
    huge = pa.table(
        {f"c{j}": np.full(50, 10.0 ** (170 * (j == 1))) * np.arange(50) for j in range(3)}
    )
    with pytest.raises(karat.InputError, match=r"Column 'c1' has values up to 4.9e\+171"):
        karat.coreset_files(huge, problem=P.GaussianMixture(2))
    nothing = pa.table({"a": np.zeros(9), "b": np.zeros(9), "c": np.ones(9)})
    with pytest.raises(karat.InputError, match="No document has 3 words or more, of 9"):
        karat.coreset_files(nothing, problem=P.SingleTopic(2))
    with pytest.raises(karat.InputError, match="No row has a positive weight"):
        karat.coreset_files(nothing, problem=P.GaussianMixture(1), sample_weight="a")
    with pytest.raises(karat.InputError, match="support 0 components"):
        karat.coreset_files(nothing, problem=P.ICA(2))


@pytest.mark.parametrize(
    ("problem", "options", "words"),
    [
        (P.MultiView(2), {}, "three lists of names"),
        (P.MultiView(2), {"columns": ["a", "b", "c"]}, "three lists of names"),
        (P.MultiView(2), {"columns": [["a"], ["b"], []]}, "views needs a column"),
        (P.MultiView(1), {"columns": [["a"], ["b"], ["a"]]}, "'a' is named twice"),
        (
            P.MultiView(1),
            {"columns": [["a"], ["b"], ["c"]], "pipeline": CountVectorizer()},
            "does not support a pipeline",
        ),
        (P.GaussianMixture(2), {"columns": [["a"], ["b"]]}, "one list of names"),
        (P.GaussianMixture(2), {"sequence": "a"}, "sequence is for HiddenMarkov only"),
        (P.LeastSquares(), {"target": "a", "sequence": "b"}, "sequence is for HiddenMarkov only"),
        (P.GaussianMixture(2), {"target": "a"}, "has no target"),
        (P.GaussianMixture(2), {"groups": "a"}, "does not take groups"),
        (P.HiddenMarkov(2), {"columns": ["a"], "on_missing": "drop"}, "not neighbours"),
        (P.HiddenMarkov(2), {"columns": ["a"], "sequence": "nowhere"}, "no column 'nowhere'"),
        (P.GaussianMixture(2), {"columns": ["a", "text"]}, "not numeric"),
        (P.GaussianMixture(2), {"columns": ["a", "b"], "memory": 1000}, "too small"),
    ],
)
def test_refusals(problem, options, words):
    table = pa.table(
        {"a": np.arange(50) % 3, "b": np.arange(50.0), "c": np.ones(50), "text": ["x"] * 50}
    )
    with pytest.raises(karat.InputError, match=words):
        karat.coreset_files(table, problem=problem, **options)


def test_the_error_does_not_grow_with_the_number_of_rows():
    rng = np.random.default_rng(0)
    X = 3 * np.eye(2, 3)[rng.integers(2, size=600_000)] + rng.standard_normal((600_000, 3))
    table = pa.table(dict(zip("abc", X.T, strict=True)))
    for n in (100_000, 600_000):
        core = karat.coreset_files(table.slice(0, n), problem=P.ICA(3), batch_rows=20_000)
        assert core.certificate.loss_error <= 1e-12
        assert core.verify(X[:n]).loss_error <= 1e-12
        assert karat.coreset(X[:n], problem=P.ICA(3)).certificate.loss_error <= 1e-13


def test_sketch_and_merge_name_the_call():
    with pytest.raises(
        karat.NotExactError, match=r"two passes.*karat.coreset_files\(source, problem=...\)"
    ):
        karat.Sketch(P.GaussianMixture(3))
    case = case_of("mixture")
    core = karat.coreset_files(case.table, problem=case.problem(), columns=case.columns)
    with pytest.raises(karat.NotExactError, match=r"karat.coreset_files\(source, problem=...\)"):
        core.merge(core)
