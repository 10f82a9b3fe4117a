"""Passes over a cluster's data: each source is read once per pass, nothing is held between passes,
both see the same rows.
"""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from latent_tables import case_of

import karat
from karat import problems as P
from karat.cluster.latent import PartitionSums

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")


def frame_in(parts):
    return dd.from_delayed([dask.delayed(part) for part in parts], meta=parts[0].iloc[:0])


class Watched:
    """A frame that writes down when its partitions are read, and when the first pass is over."""

    def __init__(self, monkeypatch):
        self.events, lock, total = [], threading.Lock(), PartitionSums.total

        def note(event):
            with lock:
                self.events.append(event)

        def ends(sums):
            note("first pass is over")
            return total(sums)

        self.note = note
        monkeypatch.setattr(PartitionSums, "total", ends)

    def __dask_tokenize__(self):
        return id(self)

    def reading(self, part):
        self.note("read")
        return part


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
@pytest.mark.parametrize("kind", ["frame", "array"])
@pytest.mark.parametrize("compute", [True, False])
def test_the_second_pass_waits_for_the_first(monkeypatch, scheduler, kind, compute):
    """Partitions read before they are needed would fill the memory."""
    watched, case = Watched(monkeypatch), case_of("sources")
    if kind == "frame":
        ddf = dd.from_pandas(case.table.to_pandas(), npartitions=11)
        data, roles = ddf.map_partitions(watched.reading, meta=ddf._meta), case.roles
    else:
        data, roles = (
            da.from_array(case.X, chunks=(2000, -1)).map_blocks(
                watched.reading, dtype=float, meta=np.empty((0, 0))
            ),
            {},
        )
    parts = data.npartitions
    watched.events.clear()  # Dask asks about types
    with dask.config.set(scheduler=scheduler, num_workers=2):
        core = karat.dask.coreset(data, problem=case.problem(), compute=compute, **roles)
        core = core if compute else core.compute()
    assert core.certificate.ok
    assert watched.events == ["read"] * parts + ["first pass is over"] + ["read"] * parts


def test_every_partition_is_read_once(table):
    ddf, reads = dd.from_pandas(table.to_pandas(), npartitions=20), []
    watched = ddf.map_partitions(lambda part: reads.append(len(part)) or part, meta=ddf._meta)
    reads.clear()
    with dask.config.set(scheduler="synchronous"):
        karat.dask.coreset(watched, "y", columns=["a", "b"])
    assert len(reads) == 20


@pytest.mark.parametrize("kind", ["frame", "array", "sparse"])
def test_a_second_pass_over_other_rows_is_refused(kind):
    """As many rows, but others: the maps would not be theirs."""
    rng, seen = np.random.default_rng(0), []

    def draws(part):
        seen.append(len(part) if hasattr(part, "__len__") else part.shape[0])
        other = rng.poisson(3.0, size=part.shape)
        if kind == "sparse":
            from scipy import sparse

            return sparse.csr_array(other)
        return pd.DataFrame(other, columns=part.columns) if kind == "frame" else other.astype(float)

    X = np.zeros((600, 4))
    if kind == "frame":
        frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=3)
        data = frame.map_partitions(draws, meta=frame._meta)
    else:
        data = da.from_array(X, chunks=(200, -1)).map_blocks(
            draws, dtype=float, meta=np.empty((0, 0))
        )
    problem = P.SingleTopic(2) if kind == "sparse" else P.GaussianMixture(1)
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(karat.InputError, match="second pass read other rows than the first"):
            karat.dask.coreset(data, problem=problem)
        with pytest.raises(karat.InputError, match="second pass read other rows than the first"):
            karat.dask.coreset(data, problem=problem, compute=False).compute()


def test_a_second_pass_over_steps_in_another_order_is_refused():
    rng, turn = np.random.default_rng(0), []
    frame = pd.DataFrame({"x": rng.integers(3, size=400), "seq": np.repeat(np.arange(4), 100)})

    def reordered(part):
        turn.append(1)
        return part if len(turn) < 4 else part.iloc[::-1]

    ddf = frame_in([frame[:200], frame[200:]])
    data = ddf.map_partitions(reordered, meta=ddf._meta)
    turn.clear()
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(karat.InputError, match="other rows than the first, or"),
    ):
        karat.dask.coreset(data, problem=P.HiddenMarkov(2), sequence="seq")


def sequences(count=10, steps=30, seed=0):
    rng = np.random.default_rng(seed)
    names = np.repeat([f"s{i}" for i in range(count)], steps)
    return pd.DataFrame({"x": rng.integers(3, size=count * steps), "seq": names})


@pytest.mark.parametrize("kind", ["frame", "array"])
@pytest.mark.parametrize(
    ("order", "words"),
    [
        # not neighbours, but in every partition
        ("every second row", r"Sequence 's\d' lies in several partitions"),
        ("ends", "Sequence 's0' lies in several partitions"),  # first and last partition
        ("neighbours", r"Sequence 's\d' lies in several partitions"),
        ("interrupted", r"Partition 0: sequence 's0' is interrupted"),
    ],
)
def test_a_sequence_in_pieces_is_refused(kind, order, words):
    frame = sequences()
    rows = {
        "every second row": [np.arange(i, 300, 5) for i in range(5)],
        "ends": [np.arange(0, 15), np.arange(30, 150), np.r_[150:300, 15:30]],
        "neighbours": [np.arange(0, 100), np.arange(100, 200), np.arange(200, 300)],
        "interrupted": [np.r_[0:15, 30:60, 15:30], np.arange(60, 300)],
    }[order]
    if order == "every second row":
        rows = [np.sort(part) for part in rows]
    parts = [frame.iloc[some] for some in rows]
    if kind == "frame":
        data, sequence = frame_in(parts), "seq"
    else:
        whole, chunks = pd.concat(parts), tuple(map(len, parts))
        data = da.from_array(whole[["x"]].to_numpy(float), chunks=(chunks, (1,)))
        sequence = da.from_array(whole["seq"].to_numpy(), chunks=(chunks,))
    with dask.config.set(scheduler="synchronous"), pytest.raises(karat.InputError, match=words):
        karat.dask.coreset(data, problem=P.HiddenMarkov(2), sequence=sequence)


def test_whole_sequences_in_any_order_are_exact():
    frame = sequences(40)
    order = np.random.default_rng(1).permutation(40)
    parts = [frame[frame["seq"].isin([f"s{i}" for i in some])] for some in np.array_split(order, 7)]
    with dask.config.set(scheduler="synchronous"):
        core = karat.dask.coreset(
            frame_in(parts), problem=P.HiddenMarkov(2, keep="all"), sequence="seq"
        )
    X = pd.concat(parts)
    lengths = [len(list(some)) for some in _runs(X["seq"].to_numpy())]
    proof = core.verify(X[["x"]].to_numpy(float), lengths=lengths)
    assert proof.ok, str(proof)


def _runs(labels):
    edges = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1], True])
    return [labels[a:b] for a, b in pairwise(edges)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("groups", [1, 40, 200])
@pytest.mark.parametrize("rows", [1, 3, 60])
@pytest.mark.parametrize("spread", ["together", "apart"])
def test_small_groups_travel_as_they_are(groups, rows, spread):
    """The same rows as in memory where all are needed, and exact where groups grow from partition
    to partition.
    """
    rng, n = np.random.default_rng(groups + rows), groups * rows
    frame = pd.DataFrame(rng.standard_normal((n, 3)), columns=list("aby"))
    frame["w"], frame["id"] = rng.exponential(size=n), rng.permutation(n)
    frame["g"] = (
        np.repeat(np.arange(groups), rows)
        if spread == "together"
        else np.tile(np.arange(groups), rows)
    )
    with dask.config.set(scheduler="synchronous"):
        ddf = dd.from_pandas(frame, npartitions=20)
        core = karat.dask.coreset(
            ddf, "y", columns=["a", "b"], groups="g", sample_weight="w", key="id"
        )
    proof = core.verify(
        frame[["a", "b"]],
        frame["y"],
        sample_weight=frame["w"].to_numpy(),
        groups=frame["g"].to_numpy(),
    )
    assert proof.ok, str(proof)
    np.testing.assert_array_equal(frame["id"].to_numpy()[core.indices], core.keys)
    for label in range(0, groups, 17):
        D, kept = (
            np.column_stack([np.ones(len(t)), t])
            for t in (frame.loc[frame.g == label, list("aby")], _rows(core, label))
        )
        w = frame.loc[frame.g == label, "w"].to_numpy()
        full = (D * w[:, None]).T @ D
        np.testing.assert_allclose(
            (kept * core.weights[core.groups == label][:, None]).T @ kept,
            full,
            atol=1e-10 * w.sum() * 10,
        )
    if rows <= 3:
        assert len(core) == n


def _rows(core, label):
    X, y = core.arrays()
    return np.column_stack([X, y])[core.groups == label]


def test_a_key_that_comes_twice_among_small_groups(table):
    frame = pd.DataFrame(
        {"a": np.arange(60.0), "y": np.arange(60.0) ** 2, "g": np.repeat(np.arange(20), 3)}
    )
    frame["id"] = np.r_[0:59, 7]
    with (
        dask.config.set(scheduler="synchronous"),
        pytest.raises(karat.InputError, match="Key 7 comes twice"),
    ):
        karat.dask.coreset(
            dd.from_pandas(frame, npartitions=6), "y", columns=["a"], groups="g", key="id"
        )
