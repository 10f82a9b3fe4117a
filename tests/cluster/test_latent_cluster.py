"""Latent-variable problems on Dask and Spark: sums where the rows lie, then sketches; the full
data's parameters.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from latent_data import CASES
from latent_tables import MODES, case_of, parameter_error

import karat
from karat import problems as P

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore:.*were left out")


@pytest.fixture(params=list(CASES))
def case(request):
    return case_of(request.param)


def check(core, case, weights=None):
    assert core.certificate.loss_error <= 1e-11
    assert core.certificate.passes == 2
    proof = core.verify(case.X, sample_weight=weights, **case.lengths)
    assert proof.ok, str(proof)
    assert proof.loss_error <= 1e-11
    full = case.learner().fit(case.X, sample_weight=weights, **case.lengths)
    assert parameter_error(full, case.learner().fit_coreset(core), case.parameters) <= 1e-10


def frame_of(case, partitions=11):
    """Cut where sequences end."""
    frame = case.table.to_pandas()
    if not case.lengths:
        return dd.from_pandas(frame, npartitions=partitions)
    ends = np.cumsum([0, *case.lengths["lengths"]])
    cuts = ends[np.linspace(0, len(ends) - 1, partitions + 1).astype(int)]
    return dd.from_delayed(
        [dask.delayed(frame.iloc[a:b]) for a, b in pairwise(cuts)], meta=frame.iloc[:0]
    )


class TestDask:
    @pytest.fixture(autouse=True)
    def two_threads(self):
        with dask.config.set(scheduler="threads", num_workers=2):
            yield

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("keep", MODES)
    def test_frames(self, case, keep, tmp_path):
        core = karat.dask.coreset(
            frame_of(case), problem=case.problem(keep), sample_weight="w", key="id", **case.roles
        )
        check(core, case, case.weights)
        np.testing.assert_array_equal(core.keys, core.indices + 10**6)
        found = karat.verify_files(core, case.write(tmp_path / "data"))
        assert found.ok, str(found)
        assert (found.data, found.moved) == ("identical", ())

    def test_offsets(self, case):
        ddf = frame_of(case)
        core = karat.dask.coreset(ddf, problem=case.problem(), **case.roles)
        starts = np.cumsum([0, *(len(part) for part in ddf.partitions)])
        found = [
            starts[int(part)] + int(row) for part, row in (key.split(":") for key in core.keys)
        ]
        np.testing.assert_array_equal(found, core.indices)

    def test_arrays(self, case):
        views = [
            da.from_array(view, chunks=(case.n if case.lengths else 2999, -1))
            for view in case.views
        ]
        weights = da.from_array(case.weights, chunks=777)
        names = (
            case.table["seq"].to_numpy(zero_copy_only=False).astype(str) if case.lengths else None
        )
        options = {"sequence": da.from_array(names, chunks=4000)} if case.lengths else {}
        data = tuple(views) if len(views) == 3 else views[0]
        check(
            karat.dask.coreset(data, problem=case.problem(), sample_weight=weights, **options),
            case,
            case.weights,
        )

    def test_lazy(self):
        case = case_of("sources")
        ddf = frame_of(case)
        silent = ddf.map_partitions(lambda part: pytest.fail("computed"), meta=ddf._meta)
        assert hasattr(
            karat.dask.coreset(silent, problem=case.problem(), compute=False, **case.roles),
            "compute",
        )
        check(
            karat.dask.coreset(ddf, problem=case.problem(), compute=False, **case.roles).compute(),
            case,
        )
        array = da.from_array(case.X, chunks=(2999, -1))
        check(karat.dask.coreset(array, problem=case.problem(), compute=False).compute(), case)

    def test_lazy_reads_partitions_again_instead_of_keeping_them(self):
        case = case_of("sources")
        ddf, reads = frame_of(case), []
        watched = ddf.map_partitions(lambda part: reads.append(len(part)) or part, meta=ddf._meta)
        lazy = karat.dask.coreset(watched, problem=case.problem(), compute=False, **case.roles)
        reads.clear()
        lazy.compute(scheduler="synchronous")
        assert sum(reads) == 2 * case.n

    def test_the_plan_tells_what_travels(self, case):
        core = karat.dask.coreset(frame_of(case), problem=case.problem(), **case.roles)
        sent = int(re.search(r"sent ([\d,]+)", core.certificate.notes[-1])[1].replace(",", ""))
        d = len(core.maps["M"])
        assert (
            0.4
            < sent / karat.plan(case.problem(), case.n, d, source="cluster", partitions=11).travels
            < 1.6
        )

    def test_refusals(self):
        case = case_of("chain")
        for data, options, words in [
            (
                dd.from_pandas(case.table.to_pandas(), npartitions=3),
                case.roles,
                "Sequence 's.*' lies in several partitions",
            ),
            (
                frame_of(case),
                {"columns": case.columns},
                "Without sequence= all rows are one sequence",
            ),
            (
                da.from_array(case.views[0], chunks=(999, 1)),
                {},
                "Without sequence= all rows are one sequence",
            ),
            (frame_of(case), case.roles | {"groups": "w"}, "does not take groups"),
            (frame_of(case), case.roles | {"columns": ["nowhere"]}, "no column 'nowhere'"),
            (frame_of(case), {"columns": ["seq"]}, "not numeric"),
            ([1, 2], {}, "Dask data frame or array"),
            (
                da.from_array(np.array([[0.0], [np.nan]])),
                {},
                "Partition 0, row 1: column 0 is not finite",
            ),
            (
                da.from_array(np.array([[0.0], [0.5], [1.0]])),
                {},
                "Counting from Partition 0, row 0: Symbols must be integers",
            ),
        ]:
            with pytest.raises(karat.InputError, match=words):
                karat.dask.coreset(data, problem=case.problem(), **options)
        with pytest.raises(karat.InputError, match="sequence is for HiddenMarkov only"):
            karat.dask.coreset(frame_of(case), "w", columns=case.columns, sequence="seq")


def test_two_workers():
    distributed = pytest.importorskip("distributed")
    case = case_of("chain, gaussian")
    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": False,
        "dashboard_address": ":0",
    }
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster):
        check(karat.dask.coreset(frame_of(case), problem=case.problem(), **case.roles), case)


@pytest.mark.nightly
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
class TestSpark:
    @pytest.mark.parametrize(
        ("tag", "keep"),
        [(tag, "tensor") for tag in CASES] + [("mixture", "moments"), ("views", "all")],
    )
    def test_exact(self, spark, tag, keep, tmp_path):
        case = case_of(tag)
        df = spark.read.parquet(str(case.write(tmp_path / "data")))
        df = (
            df.coalesce(1)
            .repartitionByRange(4, "seq" if case.lengths else "id")
            .sortWithinPartitions("id")
        )
        core = karat.spark.coreset(
            df, problem=case.problem(keep), sample_weight="w", key="id", **case.roles
        )
        assert core.certificate.ok
        assert core.certificate.loss_error <= 1e-11
        if not case.lengths:  # whose sequences Spark puts in another order
            found = karat.verify_files(core, tmp_path / "data")
            assert found.ok, str(found)
            assert found.data in ("identical", "reordered")
        full = case.learner().fit(case.X, sample_weight=case.weights, **case.lengths)
        assert parameter_error(full, case.learner().fit_coreset(core), case.parameters) <= 1e-10
        for kept, rows in zip(
            core.X if isinstance(core.X, tuple) else [core.X],
            case.rows_at(core.keys - 10**6),
            strict=True,
        ):
            np.testing.assert_array_equal(
                kept if isinstance(kept, np.ndarray) else kept.to_pandas(), rows
            )

    def test_refusals(self, spark, tmp_path):
        case = case_of("chain")
        df = (
            spark.read.parquet(str(case.write(tmp_path / "data")))
            .coalesce(1)
            .repartitionByRange(3, "id")
        )
        for problem, options, words in [
            (case.problem(), case.roles, "Sequence 's.*' lies in several partitions"),
            (
                case.problem(),
                {"columns": case.columns, "sequence": "nowhere"},
                "no column 'nowhere'",
            ),
            (P.GaussianMixture(1), {"columns": ["seq"]}, "not numeric"),
            (P.GaussianMixture(1), {"sequence": "seq"}, "sequence is for HiddenMarkov only"),
        ]:
            with pytest.raises(karat.InputError, match=words):
                karat.spark.coreset(df.sortWithinPartitions("id"), problem=problem, **options)
