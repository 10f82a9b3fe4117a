"""The facts about a coreset, as one dictionary of plain values that can be written as JSON.

The notebook's box, the HTML page and ``--json`` read this dictionary and not the coreset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karat.core.provenance import Provenance
from karat.core.synthetic import SYNTHETIC
from karat.data.containers import as_numpy, columns_of, dimensions, is_frame

if TYPE_CHECKING:
    from karat.core.coreset import Coreset


def coreset_facts(core: Coreset) -> dict[str, Any]:
    """What a coreset is, what it keeps and does not keep, and where it comes from."""
    certificate = core.certificate
    return {
        "rows": int(core.n_represented),
        "left_out": int(core.n_rows - core.n_represented),
        "kept": len(core),
        "made": core.rows == SYNTHETIC,
        "problem": core.problem.describe(),
        "exact": certificate.ok,
        "certificate": certificate.to_dict(),
        "weights": weight_facts(core.weights),
        "groups": None if core.groups is None else len(np.unique(core.groups)),
        "absorbed": core.absorbed is not None,
        "keeps": certificate.keeps,
        "excludes": list(certificate.excludes),
        "notes": list(certificate.notes),
        "provenance": dict(core.provenance or {}),
    }


def weight_facts(weights: np.ndarray) -> dict[str, float]:
    """Extremes, quartiles and sum of the weights, and Kish's effective sample size ``(sum w)^2 /
    sum w^2``.
    """
    low, median, high = np.quantile(weights, [0.25, 0.5, 0.75])
    unit = float(weights.max())  # squares of weights of 1e200 would overflow
    scaled = weights / unit
    return {
        "min": float(weights.min()),
        "lower": float(low),
        "median": float(median),
        "upper": float(high),
        "max": unit,
        "sum": float(weights.sum()),
        "effective": float(scaled.sum() ** 2 / np.square(scaled).sum()),
    }


class Column(NamedTuple):
    """A column of the kept rows: its name, role and values."""

    name: str
    role: str  # index, weight, key, group, feature or target
    values: np.ndarray


def kept_columns(core: Coreset) -> list[Column]:
    """The columns of the kept rows; features and targets without names are x0, x1, ... and y."""
    columns = [] if core.indices is None else [Column("row", "index", core.indices)]
    columns += [Column("weight", "weight", core.weights)]
    columns += [
        Column(role, role, values)
        for role, values in (("key", core.keys), ("group", core.groups))
        if values is not None
    ]
    views = core.X if isinstance(core.X, tuple) else (core.X,)
    for i, view in enumerate(views):
        prefix = f"view{i}." if len(views) > 1 else ""
        columns += [
            Column(prefix + name, "feature", values)
            for name, values in _columns_by_name(view, "x").items()
        ]
    if core.y is not None:
        targets = _columns_by_name(core.y, "y")
        names = Provenance.read(core.provenance).targets or list(targets)
        columns += [
            Column(name, "target", values)
            for name, values in zip(names, targets.values(), strict=True)
        ]
    return columns


def _columns_by_name(table: Any, letter: str) -> dict[str, np.ndarray]:
    """The columns of any table by name; without names, a letter and a number (or the letter)."""
    if is_frame(table) and (dimensions(table) == 2 or getattr(table, "name", None) is not None):
        return columns_of(table)
    values = as_numpy(table)
    if values.ndim == 1:
        return {letter: values}
    return {f"{letter}{i}": column for i, column in enumerate(values.T)}
