"""Coreset files as commands see them: in words, in numbers, and as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from karat import Coreset


FIRST = ("index", "weight", "target")  # roles of the columns that a narrow terminal still shows


def summary(core: Coreset) -> dict[str, Any]:
    """A coreset in numbers and words, for scripts."""
    from karat._core.facts import facts

    found = facts(core)
    return {"rows_in": found.pop("rows"), "rows_kept": found.pop("kept")} | found


def rows_used(core: Coreset) -> int:
    """Rows of the data that count: not those left out because a value was missing."""
    from karat._core.provenance import Provenance

    return core.n_rows - Provenance.read(core.provenance).left_out


def lines(core: Coreset) -> dict[str, str]:
    """The same for people, up to what is kept and what is not."""
    certificate = core.certificate
    exact = "" if certificate.ok else ", NOT exact"
    peeled = f" and {certificate.peeled:,} peeled" if certificate.peeled else ""
    found = {
        "problem": core.problem.describe(),
        "rows in": f"{core.n_rows:,}",
        "rows kept": f"{len(core):,} (rank {certificate.rank:,}, bound {certificate.bound:,}{peeled})",
        "worst error": f"{certificate.loss_error:.1e} relative, over every query{exact}",
        "kept": certificate.keeps,
        "not kept": "; ".join(certificate.excludes),
    }
    if certificate.notes:
        found["note"] = " ".join(certificate.notes)
    return found


def kept_columns(core: Coreset) -> dict[str, np.ndarray]:
    """The kept rows by column: where each came from, its weight and target first, then its other values."""
    from karat._core.facts import kept_columns

    found: dict[str, np.ndarray] = {}
    for column in sorted(kept_columns(core), key=lambda column: column.role not in FIRST):
        name = column.name
        while name in found:  # a column of the data may be called "weight" or "row", too
            name += "_"
        found[name] = column.values
    return found


def feature_names(core: Coreset) -> list[str]:
    """Names of the feature columns; x0, x1, .. where they have none."""
    return _names(core, "feature")


def target_names(core: Coreset) -> list[str]:
    """Names of the targets; y, or y0, y1, .. where they have none."""
    return _names(core, "target")


def _names(core: Coreset, role: str) -> list[str]:
    from karat._core.facts import kept_columns

    return [column.name for column in kept_columns(core) if column.role == role]
