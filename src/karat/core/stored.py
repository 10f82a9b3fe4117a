"""Checks of a stored coreset: whether its header and arrays go together.

``validate_coreset_arrays`` checks names, types and shapes before the arrays are read.
``check_values`` then checks what all code relies on: positive weights, and indices of rows.
Other values of a hostile file may be wrong, but have the right type.  All functions raise inside
:func:`karat.errors.reading`, whose error names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from math import comb
from typing import Any

import numpy as np

from karat.core.certify import Certificate
from karat.core.provenance import Provenance
from karat.core.regression import PREFIX
from karat.core.synthetic import REAL, SYNTHETIC
from karat.engine.fourth_moments import column_count
from karat.engine.synthetic import ORDINARY, VERBATIM, WILD
from karat.errors import InputError, require
from karat.storage.archive import Spec

NUMBERS = "biuf"
SPARSE = ("data", "indices", "indptr")
FOURTH = "fourth"  # the array of fourth moments
TYPES: dict[str, tuple[type, ...]] = {
    "float": (float, int), "int": (int,), "str": (str,), "bool": (bool,),
    "float | None": (float, int, type(None)), "tuple[float, ...]": (tuple,),
    "tuple[str, ...]": (tuple,),
}  # fmt: skip


class CubeFileError(InputError):
    """The file holds a cube, not a coreset."""


def validate_coreset_arrays(header: dict[str, Any], specs: Mapping[str, Spec]) -> None:
    """Raise unless the arrays are those of the header, with one entry for each kept row."""
    if header.get("kind") == "cube":
        raise CubeFileError(
            "The file is a cube, not a coreset.",
            "Load it with karat.Cube.load, and select cells with select().",
            argument="cube",
        )
    rows = header["n_rows"]
    require(type(rows) is int and 0 < rows < 2**63, f"it was made of {rows!r} rows")
    kept = specs["weights"].shape
    require(len(kept) == 1 and kept[0] > 0, f"it keeps {kept} of {rows:,} rows")
    identifiers = {REAL: ("indices", np.int64), SYNTHETIC: ("strata", np.int8)}
    require(
        header.get("rows", REAL) in identifiers,
        f"rows of the kind {str(header.get('rows'))[:40]!r}",
    )
    numbers, kind = identifiers[header.get("rows", REAL)]
    require(
        specs["weights"].dtype == np.float64 and specs[numbers].dtype == kind,
        f"weights or {numbers} of another type",
    )
    expected = {"weights", numbers}
    for name in (numbers, "groups", *(("keys",) if numbers == "indices" else ())):
        if name in specs:
            require(
                specs[name].shape == kept,
                f"{name} of shape {specs[name].shape} beside weights of shape {kept}",
            )
            expected.add(name)
    for name in ("X", "y"):
        for part, per_row in _arrays_of(header["containers"][name], name, specs):
            fits_rows = specs[part].shape[:1] == kept or specs[part].shape == (-1,)
            require(
                fits_rows or not per_row,
                f"{part!r} of shape {specs[part].shape} beside weights of shape {kept}",
            )
            require(
                numbers == "indices" or specs[part].dtype.kind in NUMBERS or "/" in part,
                f"{part!r} is not of numbers",
            )
            expected.add(part)
    if "correction_sets" in specs or "correction_delta" in specs:
        sets, delta = specs["correction_sets"], specs["correction_delta"]
        agree = (
            len(sets.shape) == 2
            and sets.shape[1] > 0
            and sets.shape[:1] == delta.shape
            and sets.shape[0] > 0
        )
        require(
            agree and sets.dtype.kind in "iu" and delta.dtype == np.float64,
            "a correction of another shape",
        )
        expected |= {"correction_sets", "correction_delta"}
    maps = {name for name in specs if name.startswith("map_")}
    require(all(specs[name].dtype.kind in NUMBERS for name in maps), "maps that are not numbers")
    sums = {name for name in specs if name.startswith(PREFIX)}
    require(
        all(specs[name].dtype == np.float64 for name in sums),
        "sums of a regression that are not numbers",
    )
    if FOURTH in specs:
        require(_are_fourth(specs[FOURTH]), "fourth moments of another shape")
        expected.add(FOURTH)
    unexpected = sorted(set(specs) - expected - maps - sums)
    require(not unexpected, f"it holds an array {unexpected[:1]} that does not belong to it")


def _are_fourth(spec: Spec) -> bool:
    """Whether an array may hold fourth moments, one group a line."""
    return spec.dtype == np.float64 and len(spec.shape) == 2 and column_count(spec.shape[1]) > 0


def _arrays_of(
    kind: dict[str, Any] | None, name: str, specs: Mapping[str, Spec]
) -> Iterator[tuple[str, bool]]:
    """The arrays of a container, and whether each has one entry per row."""
    if kind is None:
        require(name == "y", "it holds no rows")
    elif kind["kind"] == "tuple":
        for i, part in enumerate(kind["parts"]):
            require(part is not None and part["kind"] != "tuple", "views inside views")
            yield from _arrays_of(part, f"{name}/{i}", specs)
    elif kind["kind"] == "sparse":
        sides = kind["shape"]
        require(
            len(sides) == 2 and all(type(side) is int and side >= 0 for side in sides),
            f"rows of shape {sides}",
        )
        require(sides[0] == specs["weights"].shape[0], f"{sides[0]:,} sparse rows")
        yield from ((f"{name}/{part}", False) for part in SPARSE)
    elif kind["kind"] == "array":
        yield name, True
    else:
        require(
            type(kind["kind"]) is str and type(kind["columns"]) is list, "a frame of another kind"
        )
        yield from ((f"{name}/{i}", True) for i in range(len(kind["columns"])))
        if f"{name}/index" in specs:
            yield f"{name}/index", True


def check_values(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Raise unless weights are positive and finite, and indices increase within the rows."""
    weights = arrays["weights"]
    require(
        bool(np.isfinite(weights).all() and (weights > 0).all()),
        "a weight is not a positive number",
    )
    if "strata" in arrays:
        require(
            bool(np.isin(arrays["strata"], (ORDINARY, WILD, VERBATIM)).all()),
            "a stratum that there is not",
        )
        return
    indices = arrays["indices"]
    require(
        bool(indices[0] >= 0 and indices[-1] < header["n_rows"]), "an index is not that of a row"
    )
    require(bool((np.diff(indices) > 0).all()), "the indices do not increase")
    if "correction_sets" in arrays:
        sets = arrays["correction_sets"]
        variables, degree = int(sets[-1, -1]) + 1, sets.shape[1]
        whole = (
            sets.min() >= 0
            and sets.max() < variables
            and comb(variables + degree - 1, degree) == len(sets)
        )
        require(bool(whole), "a correction of columns that are not there")


def check_certificate(certificate: Certificate) -> None:
    """Raise unless the fields of a certificate are of their types."""
    for field in fields(Certificate):
        value, types = getattr(certificate, field.name), TYPES[str(field.type)]
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        require(fits, f"its certificate says {field.name} = {str(value)[:40]}")
    for name, kind in (("notes", str), ("excludes", str), ("excluded_directions", (float, int))):
        require(
            all(isinstance(value, kind) for value in getattr(certificate, name)),
            f"{name} of its certificate",
        )


def check_provenance(stored: Any) -> None:
    """Raise unless the provenance has the right types."""
    if stored is None:
        return
    provenance = Provenance.read(stored)
    for part in (provenance, *provenance.parts):
        roles, texts = (
            part.column_roles,
            [part.karat, part.created, part.command, part.on_missing, part.problem],
        )
        require(
            all(text is None or isinstance(text, str) for text in texts),
            "its provenance is not text",
        )
        require(
            all(isinstance(name, str) for name in roles.columns), "its provenance names no columns"
        )
        require(
            all(isinstance(path, str) for path in part.given) and part.left_out >= 0,
            "its provenance names no paths",
        )
        require(
            all(isinstance(cell, str) for cell in part.cells or ()), "its provenance names no cells"
        )
        require(
            all(
                isinstance(batch, list) and batch and all(isinstance(word, str) for word in batch)
                for batch in part.batches or ()
            ),
            "its provenance has no hashes",
        )
        require(
            part.query is None or isinstance(part.query["sql"], str),
            "its provenance names no query",
        )
        require(
            part.digest is None or isinstance(part.digest["value"], str), "its digest is not valid"
        )
        if part.content is not None:
            content = part.content
            sums = [
                int(word, 16)
                for word in (*content["sums"], *content["blocks"], *content.get("plain", []))
            ]
            require(len(content["sums"]) == 2 and min(sums) >= 0, "its hashes are not valid")
            require(
                all(
                    type(rows) is int and rows >= 0 for rows in (content["rows"], *content["parts"])
                ),
                "its hashes are not valid",
            )
            require(
                all(isinstance(name, str) for name in content["columns"]),
                "its hashes are of no columns",
            )
