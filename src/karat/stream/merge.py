"""Merging sketches: the rows or sums that others hold are added to those of one.

Rows are folded in like a batch with weights, and the running moments inherit what they are off by.
Sketches of synthetic rows hold sums, which are added.

**Which rows a stream has seen**: the smallest hashes of its keys, which show a repeated source.
Every key is hashed to 64 bits and the SIZE smallest hashes are kept.  They are a uniform sample of
the distinct keys, whatever the order and the chunks, and the sample of a union follows from those
of its parts.  Equal sources have equal samples.  Sources that share a fraction f of their rows
share about ``f * SIZE`` sampled keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.data.labels import STEP, first_word, key_numbers, mixed
from karat.engine.carried import claimed_again, means_kernel
from karat.engine.claim import NO_ERROR, Claim
from karat.engine.stream import held_debt
from karat.errors import InputError
from karat.stream.made import MadeSummary
from karat.stream.summary import Summary

if TYPE_CHECKING:
    from karat.stream.sketch import Sketch

SIZE = 1024
PRIME = np.uint64(0x100000001B3)  # that of the FNV-1a hash


def merged_sources(first: Sketch, others: Sequence[Sketch]) -> set[str]:
    """The sketches that go into the merged one; raise if some of them do not go together."""
    sources = set(first.summary.sources)
    settled = [sketch.problem for sketch in (first, *others) if not sketch.is_open]
    if first.is_open and settled:
        first.problem = first.summary.problem = settled[0]
    for other in others:
        if first.problem != other.problem and not other.is_open:
            raise InputError(
                f"The sketches are for {first.problem.describe()} and {other.problem.describe()};"
                " make both for the same problem."
            )
        if first.rows != other.rows:
            raise InputError(
                f"One sketch has {first.rows} rows, the other {other.rows} rows; make both alike."
            )
        if (first.key is None) != (other.key is None):
            raise InputError("One sketch has a key column, the other has none; make both alike.")
        if sources & other.summary.sources:
            raise InputError(
                "The same source was merged twice: this sketch contains the rows of the other, or"
                " is a copy of it."
            )
        sources |= other.summary.sources
    return sources


def merge_sketches(first: Sketch, others: Sequence[Sketch]) -> None:
    """Add what other sketches hold to the first one, in which no rows wait."""
    for other in others:
        other.fold()
    mine = first.summary
    if isinstance(mine, MadeSummary):
        for other in others:
            _add_sums(first, mine, other)
    else:
        _add_rows(first, mine, [other.summary for other in others])


def _add_rows(first: Sketch, mine: Summary, summaries: Sequence[Summary]) -> None:
    """Fold in the rows that other sketches hold; what these rows are off by is inherited."""
    before = {label: running.inherited for label, running in mine.running.items()}
    inherited, mass = dict(before), mine.mass
    for theirs in summaries:
        if theirs.held is not None:
            assert theirs.like is not None
            first.expect(theirs.columns, theirs.targets, theirs.like, theirs.names)
            numbers = theirs.held.numbers + first.n_rows
            first.take(replace(theirs.held, numbers=numbers), owned=True, seen=theirs.fingerprint)
        for label in theirs.running:
            claim = theirs.reduction(label).claim
            inherited[label] = Claim.union([inherited.get(label, claim), claim])
        mine.n_rows += theirs.n_rows
        mass += theirs.mass
        mine.seconds += theirs.seconds
    first.fold()
    for label, running in mine.running.items():
        inherited_before = before.get(label, NO_ERROR)
        parts = inherited.get(label, inherited_before)
        mine.running[label] = replace(
            running, inherited=parts.grown(inherited_before, running.inherited)
        )
        if label in mine.reductions:
            reduction = mine.reductions[label]
            mine.reductions[label] = replace(
                reduction, inherited=parts.grown(inherited_before, reduction.inherited)
            )
    for theirs in summaries:
        for label in theirs.running:
            _owe(mine, label, theirs)
    mine.mass = mass  # ``take`` has added the weights of the rows held: the same sum, but rounded


def _add_sums(first: Sketch, mine: MadeSummary, other: Sketch) -> None:
    """Add the sums of another sketch."""
    theirs = other.summary
    assert isinstance(theirs, MadeSummary)
    if theirs.like is not None:
        first.expect(theirs.columns, theirs.targets, theirs.like, theirs.names)
        if mine.offsets is None:
            mine.offsets = theirs.offsets
        elif (theirs.offsets or {}) != (mine.offsets or {}):
            raise InputError(
                "The sketches subtract different offsets from large integers; give the first rows"
                " of both to one sketch, or use a coarser unit."
            )
    fingerprint = mine.fingerprint
    if theirs.fingerprint is not None:
        fingerprint = (
            theirs.fingerprint if fingerprint is None else fingerprint.plus(theirs.fingerprint)
        )
    mine.merge(theirs, first.random_state)
    mine.fingerprint = fingerprint
    for name in ("n_rows", "taken", "folded", "mass", "seconds"):
        setattr(mine, name, getattr(mine, name) + getattr(theirs, name))


def _owe(mine: Summary, label: Any, theirs: Summary) -> None:
    """Let the sums of a group be off by what the rows of another sketch are off by, about the
    means of both together.
    """
    kernel, (rows, peeled) = means_kernel(mine.running[label].linear), theirs.held_rows(label)
    if kernel is None or peeled.all():
        return
    debt = held_debt(rows.subset(np.flatnonzero(~peeled)), theirs.running[label], kernel)
    mine.running[label] = mine.running[label].owing(debt, kernel)
    if label in mine.reductions:
        mine.reductions[label] = claimed_again(
            *mine.held_rows(label), mine.reductions[label], debt, kernel
        )


@dataclass(frozen=True)
class Fingerprint:
    """The smallest key hashes, increasing; and their keys, if a sketch may hold them."""

    hashes: np.ndarray
    keys: np.ndarray | None

    @staticmethod
    def of(keys: np.ndarray) -> Fingerprint:
        """The fingerprint of a batch; a repeated key is an error."""
        return _smallest(_hash(keys), keys)

    def plus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint of both together; a key that both have is an error."""
        keys = (
            None
            if self.keys is None or other.keys is None
            else np.concatenate([self.keys, other.keys])
        )
        return _smallest(np.concatenate([self.hashes, other.hashes]), keys)

    def nameless(self) -> Fingerprint:
        """The hashes alone."""
        return Fingerprint(self.hashes, None)


def _smallest(hashes: np.ndarray, keys: np.ndarray | None) -> Fingerprint:
    kept = np.arange(len(hashes)) if len(hashes) <= SIZE else np.argpartition(hashes, SIZE)[:SIZE]
    order = kept[np.argsort(hashes[kept], kind="stable")]
    hashes, keys = hashes[order], None if keys is None else keys[order]
    repeated = np.flatnonzero(hashes[1:] == hashes[:-1])
    if len(repeated):
        subject = "A key" if keys is None else f"Key {keys[repeated[0]].item()!r}"
        raise InputError(
            f"{subject} comes twice. Pass every source once, and a key column without repeated"
            " values."
        )
    return Fingerprint(hashes, keys)


def _hash(keys: np.ndarray) -> np.ndarray:
    """Sixty-four bits per key: splitmix64 of the number, or of a polynomial in the characters."""
    if keys.dtype.kind in "US":
        unit: Any = np.uint32 if keys.dtype.kind == "U" else np.uint8
        letters = np.ascontiguousarray(keys).view(unit).reshape(len(keys), -1)
        polynomial = np.zeros(len(keys), dtype=np.uint64)
        power = np.uint64(1)
        with np.errstate(over="ignore"):
            # padding is zero and adds nothing, so the width of the array does not matter
            for column in letters.T:
                polynomial += column.astype(np.uint64) * power
                power = power * PRIME
        return mixed(polynomial + STEP)
    return first_word(*key_numbers(keys))
