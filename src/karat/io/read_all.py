"""The data of a coreset, read again: which columns of its files it was made from, and all of their
rows in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from karat.core.coreset import Coreset
from karat.core.provenance import Provenance
from karat.core.verify import own_targets
from karat.data import containers
from karat.data.arguments import ColumnRoles
from karat.data.batch import Batch
from karat.engine.stream import FOLD
from karat.errors import InputError
from karat.io.encoding import Encoding
from karat.io.find import open_source
from karat.io.layout import Layout
from karat.io.scan import Consumer, scan
from karat.io.source import Chunk
from karat.io.written_labels import Reading


class AllRows(NamedTuple):
    """All rows, as :func:`karat.coreset` takes them: X is a tuple if there are views, and y is
    one-dimensional for one target.
    """

    X: Any
    y: np.ndarray | None
    weights: np.ndarray | None
    lengths: np.ndarray | None


class _Collect(Consumer):
    """Holds every batch."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def add(self, chunk: Chunk, batch: Batch) -> None:
        self.batches.append(batch)


def read_all(core: Coreset, source: Any) -> AllRows:
    """The rows that a coreset of files was made from, read again as its provenance says."""
    layout, opened, collected = layout_of(core), open_source(source), _Collect()
    scan(opened, layout.among(opened.schema()), [collected], FOLD)
    read = collected.batches
    if not read:
        raise InputError(f"{source} has no rows.")
    table = np.concatenate(
        [np.column_stack([np.asarray(part, dtype=float) for part in batch.parts]) for batch in read]
    )
    roles, d = layout.roles, layout.width
    X = (
        table[:, :d]
        if roles.widths is None
        else tuple(np.split(table[:, :d], np.cumsum(roles.widths)[:-1], axis=1))
    )
    targets = table[:, d] if len(roles.targets) == 1 else table[:, d:] if roles.targets else None
    weights = (
        None
        if roles.weight is None
        else np.concatenate([np.asarray(batch.weights) for batch in read])
    )
    return AllRows(
        X,
        targets,
        weights,
        None if roles.sequence is None else _lengths([batch.groups for batch in read]),
    )


def _lengths(names: list[Any]) -> np.ndarray:
    """Lengths of the sequences, from the sequence name of every row."""
    labels = np.concatenate(names)
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    return np.diff(np.append(starts, len(labels)))


def file_layout(
    core: Coreset, target: Any = None, columns: Sequence[str] | None = None,
    weight: str | None = None, groups: str | None = None, key: str | None = None,
    pipeline: Any = None, on_missing: str | None = None,
) -> Layout:  # fmt: skip
    """How to read the data of a coreset: by the arguments, and else by its provenance."""
    provenance = Provenance.read(core.provenance)
    stored = provenance.column_roles
    named = [target] if isinstance(target, str) else target or stored.targets or own_targets(core)
    if named is None and core.y is not None:
        raise InputError(
            "The coreset does not store the name of its target column.",
            "Pass it as target=.",
            argument="target",
        )
    features = (
        Provenance(columns=columns).features
        if columns is not None
        else stored.features or _own_names(core)
    )
    widths = tuple(view.shape[1] for view in core.X) if isinstance(core.X, tuple) else None
    group = groups or stored.group
    if (core.groups is None) != (group is None):
        raise InputError(
            f"The coreset has {'no ' if core.groups is None else ''}groups; name their column, or"
            " none, in groups=."
        )
    roles = ColumnRoles(
        tuple(features),
        tuple(named or ()),
        weight or stored.weight,
        group,
        key or stored.key,
        stored.sequence,
        widths,
    )
    return Layout(
        roles,
        pipeline,
        (on_missing or provenance.on_missing) == "drop",
        encoding=stored_encoding(provenance),
        reading=_readings(core, provenance, roles),
    )


def _readings(core: Coreset, provenance: Provenance, roles: ColumnRoles) -> dict[str, Reading]:
    """How the labels of the data are read: as text where they are stored as text."""
    if (provenance.karat or "").startswith("0.2."):
        return dict.fromkeys(roles.columns, "inferred")
    text = provenance.text_labels
    if text is None:  # rows that did not come from files
        stored = {roles.label: core.groups, roles.key: core.keys}
        text = [str(c) for c, labels in stored.items() if labels is not None and _is_text(labels)]
    return {name: "text" if name in text else "checked" for name in roles.columns}


def _is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "US"


def _own_names(core: Coreset) -> list[str]:
    if not containers.is_frame(core.X):
        raise InputError(
            "The coreset does not store the names of its columns.",
            "Pass them as columns=.",
            argument="columns",
        )
    return list(containers.columns_of(core.X))


def layout_of(core: Coreset) -> Layout:
    """The layout of the columns that a coreset was made from, without groups and keys."""
    stored = core.provenance or _in_memory(core)
    provenance = Provenance.read(stored)
    if not provenance.columns or provenance.on_missing is None or provenance.pipeline is not None:
        raise InputError(
            "The coreset does not store the columns of files that it was made from, so it cannot be"
            " compared with them; build it with karat.coreset_files or karat build."
        )
    roles = provenance.column_roles
    return Layout(
        replace(roles, group=None, key=None),
        None,
        provenance.on_missing == "drop",
        encoding=stored_encoding(provenance),
        reading=_readings(core, provenance, roles),
    )


def stored_encoding(provenance: Provenance) -> Encoding | None:
    """How the columns of a coreset were encoded; an error if its parts have other encodings."""
    if provenance.encoding is None and any(part.encoding is not None for part in provenance.parts):
        raise InputError(
            "The coreset was merged from parts that were encoded differently (other means or"
            " levels); compare each part with its own data."
        )
    return Encoding.read(provenance.encoding)


def _in_memory(core: Coreset) -> dict[str, Any]:
    """The provenance of a coreset of frames, from its column names; empty if weights, lengths or
    names are unknown.
    """
    targets = own_targets(core)
    weighted = core.maps is not None or not np.isclose(core.weights.sum(), core.n_rows)
    if weighted or not containers.is_frame(core.X) or (core.y is not None and targets is None):
        return {}
    columns = list(containers.columns_of(core.X))
    return {"columns": columns, "target": targets, "roles": {"weight": None}, "on_missing": "error"}
