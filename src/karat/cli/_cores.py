"""Coreset files as commands see them: in words, in numbers, and as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from karat import Coreset


def summary(core: Coreset) -> dict[str, Any]:
    """A coreset in numbers and words, for scripts."""
    return {
        "problem": core.problem.describe(),
        "rows_in": core.n_rows,
        "rows_kept": len(core),
        "certificate": core.certificate.to_dict(),
        "provenance": core.provenance,
    }


def lines(core: Coreset) -> dict[str, str]:
    """The same for people, up to what is kept and what is not."""
    certificate = core.certificate
    exact = "" if certificate.ok else ", NOT exact"
    found = {
        "problem": core.problem.describe(),
        "rows in": f"{core.n_rows:,}",
        "rows kept": f"{len(core):,} (rank {certificate.rank:,}, bound {certificate.bound:,})",
        "worst error": f"{certificate.loss_error:.1e} relative, over every query{exact}",
        "kept": certificate.keeps,
        "not kept": "; ".join(certificate.excludes),
    }
    if certificate.notes:
        found["note"] = " ".join(certificate.notes)
    return found


def kept_columns(core: Coreset) -> dict[str, np.ndarray]:
    """The kept rows by column: where each came from, its weight, and its values."""
    found: dict[str, np.ndarray] = {"row": core.indices, "weight": core.weights}
    found |= {name: values for name, values in (("key", core.keys), ("group", core.groups)) if values is not None}
    tables = core.X if isinstance(core.X, tuple) else (core.X,)
    for i, table in enumerate(tables):
        found |= _columns(table, f"view{i}." if len(tables) > 1 else "", "x")
    if core.y is not None:
        found |= dict(zip(target_names(core), _columns(core.y, "", "y").values(), strict=True))
    return found


def feature_names(core: Coreset) -> list[str]:
    """Names of the feature columns; x0, x1, .. where they have none."""
    return list(_columns(core.X, "", "x"))


def target_names(core: Coreset) -> list[str]:
    """Names of the targets; y, or y0, y1, .. where they have none."""
    known = (core.provenance or {}).get("target")
    return [known] if isinstance(known, str) else known or list(_columns(core.y, "", "y"))


def _columns(table: Any, prefix: str, letter: str) -> dict[str, np.ndarray]:
    import numpy as np

    from karat import frames

    if frames.is_frame(table):
        return {f"{prefix}{name or letter}": values for name, values in frames.columns_of(table).items()}
    values = np.asarray(table.toarray() if hasattr(table, "toarray") else table)
    if values.ndim == 1:
        return {f"{prefix}{letter}": values}
    return {f"{prefix}{letter}{i}": column for i, column in enumerate(values.T)}
