"""Odd sources on Dask and Spark: each is exact or refused with a message, and is computed once per
pass.
"""

from __future__ import annotations

import uuid

import numpy as np
import pandas as pd
import pytest
from cluster.odd_sources import N, Odd, check_exact, plain, with_arguments, with_names
from scipy import sparse

import karat
from karat import problems as P

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

SOURCES = [*with_names(), *with_arguments()]
FEW = [odd for i, odd in enumerate(SOURCES) if i % 7 == 0 or i >= len(SOURCES) - 15]
PARTS = 5


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def outcome(odd: Odd, make) -> int:
    """Check one source; the number of passes that it took."""
    if odd.refused is not None:
        with pytest.raises(karat.InputError, match=odd.refused):
            make(**odd.options)
        return 0
    check_exact(make(**odd.options), odd)
    return 1


@pytest.mark.parametrize("odd", FEW, ids=lambda odd: odd.name)
def test_dask(odd):
    dask_outcome(odd)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "odd", [odd for odd in SOURCES if odd not in FEW], ids=lambda odd: odd.name
)
def test_more_of_dask(odd):
    dask_outcome(odd)


def dask_outcome(odd):
    reads = []
    ddf = dd.from_pandas(odd.frame, npartitions=PARTS)
    data = ddf.map_partitions(lambda part: reads.append(1) or part, meta=ddf._meta)
    reads.clear()
    passes = outcome(odd, lambda **options: karat.dask.coreset(data, **options))
    assert len(reads) == passes * ddf.npartitions


def labelled(labels):
    return plain().set_axis(labels, axis=1)


LABELS = [
    (
        "integers",
        labelled([0, 1, 2, 3, 4]),
        {"target": 3, "columns": [0, 1], "sample_weight": None, "key": 4},
        None,
    ),
    (
        "integers and text",
        labelled(["0", 1, "w", "y", "id"]),
        {"target": "y", "columns": ["0", 1], "key": "id"},
        None,
    ),
    ("integers by default", labelled([0, 1, "w", "y", "id"])[[0, 1, "y"]], {"target": "y"}, None),
    ("integers as text", labelled([0, 1, 2, 3, 4]), {"target": "3", "columns": ["0", "1"]}, None),
    (
        "one and its text",
        labelled([1, "1", "w", "y", "id"]),
        {"target": "y", "columns": [1]},
        "2 columns .* would be called '1'",
    ),
    (
        "two of one name",
        labelled(["u", "u", "w", "y", "id"]),
        {"target": "y"},
        "2 columns of the data are called 'u'",
    ),
    (
        "two of one name, not used",
        labelled(["u", "v", "w", "y", "w"]),
        {"target": "y", "columns": ["u", "v"]},
        "2 .* called 'w'",
    ),
    (
        "a number that is no label",
        labelled([0, 1, 2, 3, 4]),
        {"target": 9},
        "target must be the name of a column",
    ),
]


@pytest.mark.parametrize(
    ("frame", "options", "words"), [case[1:] for case in LABELS], ids=[case[0] for case in LABELS]
)
def test_labels_of_dask(frame, options, words):
    ddf = dd.from_delayed(
        [dask.delayed(frame.iloc[a : a + 30]) for a in range(0, N, 30)], meta=frame.iloc[:0]
    )
    if words:
        with pytest.raises(karat.InputError, match=words):
            karat.dask.coreset(ddf, **options)
        return
    core = karat.dask.coreset(ddf, **options)
    D = plain()
    assert core.verify(D[["u", "v"]].to_numpy(), D["y"].to_numpy()).loss_error < 1e-11


X, Y = plain()[["u", "v"]].to_numpy(), plain()["y"].to_numpy()


def chunked(array, rows=40):
    return da.from_array(np.asarray(array), chunks=(rows,) if np.ndim(array) == 1 else (rows, -1))


def masked(array):
    where = np.zeros(array.shape, dtype=bool)
    where[50] = True
    return da.ma.masked_where(da.from_array(where, chunks=40), chunked(array, 40))


SERIES = pd.Series(Y, name="y")
BAD = [
    ("masked", lambda: masked(X), {}, "Partition 1: X has masked values in 1 row"),
    ("complex", lambda: chunked(X + 1j), {}, r"Partition \d: X holds complex numbers"),
    (
        "text",
        lambda: chunked(X.astype(str)),
        {},
        r"Partition \d: X has type <U.*, which is not numeric",
    ),
    ("dates", lambda: chunked(X.astype("datetime64[s]")), {}, r"Partition \d: X has type datetime"),
    ("objects", lambda: chunked(X.astype(object)), {}, r"Partition \d: X has type object"),
    (
        "NaN",
        lambda: chunked(np.where(np.arange(N)[:, None] == 60, np.nan, X)),
        {},
        r"Partition 1.*(row 20|not finite|NaN)",
    ),
    (
        "infinite weights",
        lambda: chunked(X),
        {"sample_weight": chunked(np.full(N, np.inf))},
        "sample_weight has [14]0 values",
    ),
    (
        "NaN weights",
        lambda: chunked(X),
        {"sample_weight": chunked(np.full(N, np.nan))},
        "sample_weight has [14]0 values",
    ),
    (
        "negative weights",
        lambda: chunked(X),
        {"sample_weight": chunked(-np.ones(N))},
        "sample_weight has [14]0 negative",
    ),
    (
        "masked weights",
        lambda: chunked(X),
        {"sample_weight": masked(np.ones(N))},
        "sample_weight has masked",
    ),
    (
        "text weights",
        lambda: chunked(X),
        {"sample_weight": chunked(np.full(N, "1"))},
        "sample_weight has type",
    ),
    (
        "weights in memory",
        lambda: chunked(X),
        {"sample_weight": np.ones(N)},
        "sample_weight must be a Dask array",
    ),
    (
        "lazy weights",
        lambda: chunked(X),
        {"sample_weight": dask.delayed(np.ones(N))},
        "sample_weight must be a Dask array",
    ),
    (
        "too few weights",
        lambda: chunked(X),
        {"sample_weight": chunked(np.ones(N - 1))},
        "as many rows as the data, 90",
    ),
    (
        "uncounted rows",
        lambda: chunked(X)[chunked(Y) > -9],
        {"sample_weight": chunked(np.ones(N))},
        "compute_chunk_sizes",
    ),
    ("three dimensions", lambda: da.ones((9, 2, 2), chunks=3), {}, "data has 3 dimensions"),
    (
        "a series",
        lambda: dd.from_pandas(SERIES, npartitions=2),
        {},
        r"not Series; make a frame of it by to_frame\(\)",
    ),
    (
        "delayed",
        lambda: dask.delayed(X),
        {},
        "not Delayed; make a frame of it by dask.dataframe.from_delayed",
    ),
    ("a frame in memory", plain, {}, "not DataFrame; use karat.coreset"),
    ("None", lambda: None, {}, "not NoneType"),
    ("names for an array", lambda: chunked(X), {"columns": ["u"]}, "columns is for data frames"),
]


@pytest.mark.parametrize(
    "problem", [P.Moments(2), P.GaussianMixture(1), P.ICA(2)], ids=lambda p: p.describe()
)
@pytest.mark.parametrize(
    ("make", "options", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_arrays_of_dask(problem, make, options, words):
    """The same checks for every problem, latent or not."""
    with pytest.raises(karat.InputError, match=words):
        karat.dask.coreset(make(), problem=problem, **options)


def of_chunks(convert):
    return da.from_array(X, chunks=(40, -1)).map_blocks(convert, dtype=float, meta=np.empty((0, 0)))


@pytest.mark.parametrize(
    "problem", [P.Moments(2), P.GaussianMixture(1)], ids=lambda p: p.describe()
)
@pytest.mark.parametrize(
    "kind", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array]
)
def test_sparse_chunks(problem, kind):
    core = karat.dask.coreset(of_chunks(kind), problem=problem)
    assert core.verify(X).ok
    whole = karat.dask.coreset(chunked(X), problem=problem)
    assert core.provenance["content"]["rows"] == whole.provenance["content"]["rows"] == N


def test_odd_but_right_arrays():
    w = np.r_[np.zeros(40), np.ones(50)]  # a partition without weight
    for problem in (P.Moments(2), P.GaussianMixture(1)):
        assert (
            karat.dask.coreset(chunked(X), problem=problem, sample_weight=chunked(w))
            .verify(X, sample_weight=w)
            .ok
        )
    assert karat.dask.coreset(chunked(Y)).verify(Y[:, None]).ok
    # uncounted rows, but nothing beside them
    assert karat.dask.coreset(chunked(X)[chunked(Y) > -9]).verify(X).ok
    assert karat.dask.coreset(da.from_array(X, chunks=(40, 1)), chunked(Y, 7)).verify(X, Y).ok
    assert karat.dask.coreset(masked(X).map_blocks(np.ma.filled, 0.0)).certificate.ok


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
class TestSpark:
    """Partitions write down that they are computed: each may do so once per pass, with or without a
    shuffle.
    """

    @pytest.fixture
    def counted(self, spark, tmp_path):
        def make(frame, shuffled=False):
            folder, parts = (
                str(tmp_path),
                [frame.iloc[a : a + 30] for a in range(0, len(frame), 30)],
            )

            def read(batches):
                for batch in batches:
                    for i in batch["id"]:
                        open(f"{folder}/{uuid.uuid4()}", "w").close()
                        yield parts[i]

            schema = spark.createDataFrame(frame.iloc[:2]).schema
            df = spark.range(0, len(parts), 1, len(parts)).mapInPandas(read, schema)
            return df.repartition(2) if shuffled else df

        def reads():
            found = len(list(tmp_path.iterdir()))
            for file in tmp_path.iterdir():
                file.unlink()
            return found

        return make, reads

    @pytest.mark.parametrize("odd", SOURCES, ids=lambda odd: odd.name)
    def test_names_and_arguments(self, counted, odd):
        make, reads = counted
        df = make(odd.frame)
        assert reads() == 0
        odd = Odd(odd.name, odd.frame, odd.options, odd.refused, odd.roles)
        if isinstance(odd.options.get("columns"), type(c for c in "")):
            odd.options["columns"] = (c for c in "uv")
        passes = outcome(odd, lambda **options: karat.spark.coreset(df, **options))
        assert reads() == 3 * passes

    @pytest.mark.parametrize("shuffled", [False, True])
    @pytest.mark.parametrize(
        ("problem", "passes"),
        [(P.Moments(2), 1), (P.GaussianMixture(1), 2)],
        ids=["moments", "mixture"],
    )
    def test_passes(self, spark, counted, problem, passes, shuffled):
        make, reads = counted
        df = make(plain(), shuffled)
        group = f"karat {problem.describe()} {shuffled}"
        spark.sparkContext.setJobGroup(group, "counted")
        core = karat.spark.coreset(df, problem=problem, columns=["u", "v"])
        assert reads() == 3 * passes
        assert core.certificate.ok
        jobs = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
        if not shuffled:  # with adaptive execution a shuffle of the source is a job of its own
            assert len(jobs) == passes

    def test_many_partitions(self, spark):
        core = karat.spark.coreset(
            spark.range(0, 4000, 1, 100).selectExpr("id / 7 AS a", "id % 13 AS b")
        )
        a, b = np.arange(4000) / 7, np.arange(4000) % 13
        assert core.verify(np.column_stack([a, b])).loss_error < 1e-11

    def test_two_columns_of_one_name(self, spark):
        df = spark.range(0, 100, 1, 3).selectExpr(
            "id AS a", "id * 2 AS a", "id * id AS b", "id % 7 AS A"
        )
        with pytest.raises(karat.InputError, match="2 columns of the data are called 'a'"):
            karat.spark.coreset(df)
        # names that Spark itself cannot tell from others
        core = karat.spark.coreset(df, columns=["b", "A"])
        i = np.arange(100)
        assert core.verify(np.column_stack([i * i, i % 7])).loss_error < 1e-11

    def test_a_second_pass_over_other_rows_is_refused(self, spark):
        def draws(batches):
            rng = np.random.default_rng()
            for batch in batches:
                yield pd.DataFrame(rng.standard_normal((len(batch), 2)), columns=["a", "b"])

        df = spark.range(0, 300, 1, 3).mapInPandas(draws, "a double, b double")
        with pytest.raises(karat.InputError, match="second pass read other rows than the first"):
            karat.spark.coreset(df, problem=P.GaussianMixture(1))

    def test_sequences_in_partitions_that_are_not_neighbours(self, spark):
        frame = pd.DataFrame({"x": np.arange(600) % 3, "seq": np.arange(600) // 60 % 4})
        df = spark.createDataFrame(frame).coalesce(1).repartition(5)
        with pytest.raises(karat.InputError, match=r"lies in several partitions|is interrupted"):
            karat.spark.coreset(df, problem=P.HiddenMarkov(2), columns=["x"], sequence="seq")


@pytest.mark.parametrize("change", ["order", "more"])
def test_partitions_have_the_columns_of_the_frame(change):
    """Dask compares them with meta= only if it is told to; columns were taken by position."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=["a", "b", "y"])
    other = frame[["b", "a", "y"]] if change == "order" else frame.assign(late=1.0)
    parts = [dask.delayed(frame), dask.delayed(other)]
    data = dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
    with pytest.raises(karat.InputError, match=r"Partition 1 has the columns .*, but the Dask"):
        karat.dask.coreset(data, "y")
