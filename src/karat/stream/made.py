"""The state of a sketch of synthetic rows: sums, and no rows except wild ones
(:mod:`karat.engine.moment_stream`).

:class:`MadeSummary` has the interface of :class:`karat.stream.summary.Summary`.  Its ``held`` is a
batch without rows, for the types of the columns and the labels of the groups.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from karat.core.coreset import Coreset
from karat.core.synthetic import (
    SYNTHETIC,
    certify_made,
    note_on_few,
    require_exact,
    require_no_records,
)
from karat.data import containers
from karat.data.advice import explain_non_finite
from karat.data.batch import Batch, Table, stacked_rows, stored_weights
from karat.engine.claim import Claim, Proof
from karat.engine.kernel import Kernel, NonFiniteError
from karat.engine.linalg import Array
from karat.engine.moment_stream import MomentStream, Sums, kernel_state, restored_kernel
from karat.engine.second_moments import SecondMoments
from karat.engine.synthetic import VERBATIM, MadeRows
from karat.errors import InputError, require
from karat.problems import Problem
from karat.storage.archive import Spec
from karat.stream.summary import Summary, require_taken

STREAM = re.compile(r"stream_(\d+)_(sums|wild|few|verbatim|weights)(_\w+)?")


class MadeSummary(Summary):
    """The sums of each group, from which rows are made."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.streams: dict[Any, MomentStream] = {}

    @property
    def origin(self) -> Array:
        """The offset of every column."""
        return np.array(
            [float((self.offsets or {}).get(i, 0)) for i in range(self.columns + self.targets)]
        )

    def copied(self) -> MadeSummary:
        other = copy(self)
        other.streams, other.sources = dict(self.streams), set(self.sources)
        return other

    def summing_kernel(self, table: Table, label: Any, pilot: tuple[Array, Array]) -> Kernel:
        stream = self.streams.get(label)
        if stream is None or stream.sums is None:
            return SecondMoments(table.columns + table.targets).prepare(*pilot)
        return stream.sums.kernel

    def check_features(self, columns: int, targets: int) -> None:
        """Nothing to check: made rows need no features beyond the columns."""

    def fold(self, waiting: Sequence[Batch], seed: int) -> None:
        """Add the rows of the buffer to the sums.  Nothing changes until all groups are done."""
        first = waiting[0]
        grouping = Batch([], np.arange(sum(map(len, waiting))), groups=None)
        if first.groups is not None:
            grouping = replace(
                grouping, groups=np.concatenate([np.asarray(batch.groups) for batch in waiting])
            )
        streams = dict(self.streams)
        try:
            for label in grouping.labels:
                rows = stacked_rows(waiting, grouping.index(label))
                before = streams.get(label) or MomentStream(self.columns + self.targets)
                streams[label] = before.plus(rows, self.origin, seed)
        except NonFiniteError:
            raise explain_non_finite(waiting[0].parts, self.names) from None
        self._set_streams(streams, first.take(slice(0, 0)))
        self.folds += 1
        self.folded += len(grouping)

    def _set_streams(self, streams: dict[Any, MomentStream], like: Batch) -> None:
        self.streams = streams
        labels = None if like.groups is None else np.array(list(streams))
        self.held = replace(like, groups=labels)

    def merge(self, other: MadeSummary, seed: int) -> None:
        """Add the sums of another summary."""
        streams = dict(self.streams)
        for label, theirs in other.streams.items():
            mine = streams.get(label) or MomentStream(theirs.columns)
            streams[label] = mine.merged(theirs, self.origin, seed)
        if other.held is not None:
            self._set_streams(streams, other.held if self.held is None else self.held)

    def total(self) -> float:
        """The weight of all rows."""
        return sum(stream.total for stream in self.streams.values())

    def coreset(self, verbatim: str) -> Coreset:
        """The coreset of made rows for all rows seen; the summary does not change."""
        start = time.perf_counter()
        if not self.streams:
            raise InputError(
                "The sketch has seen no row of positive weight; a coreset needs at least one."
            )
        require_taken(self, self.total())
        reductions = [stream.made(self.origin) for stream in self.streams.values()]
        strata = np.concatenate([made.strata for made in reductions])
        require_no_records(verbatim, int((strata == VERBATIM).sum()))
        seconds = self.seconds + time.perf_counter() - start
        notes = note_on_few([stream.seen for stream in self.streams.values()], verbatim)
        certificate = certify_made(
            self.problem, reductions, self.total(), self.n_rows, seconds, notes
        )
        if certificate.levels > 1:  # the order of the stream decides which rows are wild
            certificate = certificate.of_coresets()
        require_exact(certificate, reductions, self.names, self.origin)
        values = np.vstack([made.values for made in reductions]) + self.origin
        assert self.like is not None
        like = self.like | {"types": None}  # made rows are doubles, whatever the columns were
        like["container"] = "array" if like["container"] == "sparse" else like["container"]
        y = values[:, self.columns :] if self.targets else None
        X, y = containers.in_container(like, values[:, : self.columns], y, np.arange(len(values)))
        groups = None
        if self.held is not None and self.held.groups is not None:
            groups = np.repeat(
                np.array(list(self.streams)), [len(made.values) for made in reductions]
            )
        weights = stored_weights(np.concatenate([made.weights for made in reductions]))
        return Coreset(
            None, weights, X, y, groups, self.n_rows, self.problem, certificate,
            verbatim=strata == VERBATIM, rows=SYNTHETIC, strata=strata,
        )  # fmt: skip


def stream_state(summary: MadeSummary) -> tuple[dict[str, Any], dict[str, Any]]:
    """The streams of all groups as a header and arrays; the only rows among them are wild ones."""
    header: dict[str, Any] = {"streams": []}
    arrays: dict[str, Any] = {}
    for i, stream in enumerate(summary.streams.values()):
        entry: dict[str, Any] = {"seen": stream.seen}
        for name, sums in (("sums", stream.sums), ("wild", stream.wild)):
            if sums is not None:
                parts = {
                    "high": sums.high,
                    "low": sums.low,
                    "counts": sums.counts,
                } | kernel_state(sums.kernel)
                arrays |= {f"stream_{i}_{name}_{part}": array for part, array in parts.items()}
                entry[name] = asdict(sums.inherited)
        if stream.few is not None:
            arrays |= {
                f"stream_{i}_few_values": stream.few.values,
                f"stream_{i}_few_weights": stream.few.weights,
            }
            few = stream.few
            entry["few"] = {
                "claim": asdict(few.inherited),
                "proof": asdict(few.proof),
                "rank": few.rank,
                "most": few.most,
            }
        arrays |= {f"stream_{i}_verbatim": stream.verbatim, f"stream_{i}_weights": stream.weights}
        header["streams"].append(entry)
    held = summary.held
    if held is not None:
        header["types"] = [[int(part.shape[1]), str(part.dtype)] for part in held.parts]
        if held.groups is not None:
            arrays["labels"] = held.groups
    return header, arrays


def stream_array_names(header: dict[str, Any], specs: Mapping[str, Spec]) -> set[str]:
    """The names of the arrays of all streams; raise if one belongs to no stream of the header."""
    names = {name for name in specs if STREAM.fullmatch(name)}
    for name in names:
        match = STREAM.fullmatch(name)
        assert match is not None
        require(int(match[1]) < len(header.get("streams", [])), f"sums {name!r} of no group")
        require(specs[name].dtype.kind in "fbi", f"{name!r} is not of numbers")
    return names | {"labels"}


def restore_streams(summary: MadeSummary, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Give a summary the streams of :func:`stream_state`."""
    if "types" not in header:
        return
    summary.offsets = {int(column): offset for column, offset in (header["offsets"] or {}).items()}
    labels = list(arrays["labels"]) if "labels" in arrays else [None]
    columns = summary.columns + summary.targets
    streams: dict[Any, MomentStream] = {}
    for i, (label, saved) in enumerate(zip(labels, header["streams"], strict=True)):
        sums, wild = (
            _restored_sums(arrays, f"stream_{i}_{name}_", saved.get(name), columns)
            for name in ("sums", "wild")
        )
        require(type(saved["seen"]) is int and saved["seen"] >= 0, "a number of rows that is none")
        verbatim, weights = arrays[f"stream_{i}_verbatim"], arrays[f"stream_{i}_weights"]
        require(verbatim.shape in ((0, 0), (len(weights), columns)), "rows of another shape")
        require(bool((weights > 0).all()), "a weight is not a positive number")
        few = None
        if "few" in saved:
            few = _restored_few(
                saved["few"],
                arrays[f"stream_{i}_few_values"],
                arrays[f"stream_{i}_few_weights"],
                columns,
            )
        require((sums is None) != (few is None), "sums that are not there")
        streams[label] = MomentStream(columns, sums, few, wild, verbatim, weights, saved["seen"])
    require(sum(width for width, _ in header["types"]) == columns, "columns of another number")
    parts = [np.zeros((0, width), dtype=kind) for width, kind in header["types"]]
    require(all(part.dtype.kind in "biuf" for part in parts), "columns that are not numbers")
    summary.streams = streams
    groups = arrays.get("labels")
    summary.held = Batch(parts, np.zeros(0, dtype=np.int64), None, groups, None, summary.offsets)


def _restored_sums(
    arrays: dict[str, Any], prefix: str, claim: dict[str, Any] | None, columns: int
) -> Sums | None:
    if claim is None:
        return None
    parts = {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
    square = (columns + 1, columns + 1)
    shapes = dict.fromkeys(("high", "low", "map"), square) | dict.fromkeys(
        ("scale", "unconfirmed"), square[:1]
    )
    shapes |= {
        "shift": (columns,),
        "counts": (3,),
        "kind": (3,),
        "replaced": parts["replaced"].shape,
    }
    shapes |= {
        name: shape
        for name, shape in (("back", square), ("plain_moments", (2, columns + 1)))
        if name in parts
    }
    require({name: array.shape for name, array in parts.items()} == shapes, "sums of another shape")
    kinds = dict.fromkeys(parts, "f") | {"unconfirmed": "b", "kind": "b", "replaced": "i"}
    require(
        {name: array.dtype.kind for name, array in parts.items()} == kinds, "sums of another type"
    )
    require(
        bool(np.isin(parts["replaced"], np.arange(columns + 1)).all()), "a column that is not there"
    )
    high, low, counts = parts["high"], parts["low"], parts["counts"]
    return Sums(restored_kernel(parts), high, low, counts, _restored_claim(claim))


def _restored_few(saved: dict[str, Any], values: Array, weights: Array, columns: int) -> MadeRows:
    require(
        values.shape == (len(weights), columns) and bool((weights > 0).all()),
        "rows of another shape",
    )
    require(
        type(saved["rank"]) is int and type(saved["most"]) is int, "a rank that is not a number"
    )
    proof = Proof(**saved["proof"] | {"excluded": tuple(saved["proof"]["excluded"])})
    kernel = SecondMoments(columns)
    nothing = kernel.no_moments(float(weights.sum()))
    return MadeRows(
        np.arange(len(values)), weights, nothing, saved["rank"], proof, SYNTHETIC, 1,
        inherited=_restored_claim(saved["claim"]), values=values, most=saved["most"],
    )  # fmt: skip


def _restored_claim(saved: dict[str, Any]) -> Claim:
    require(
        all(isinstance(value, int | float) for value in saved.values()),
        "a claim that is not a number",
    )
    return Claim(**saved)
