"""A cube in one Parquet file that any tool can open and filter.

    labels... | features... | targets... | weight | row | key  kept rows, in the order of the cells
    metadata["karat"]                                          problem, history, certificates (JSON)

The schema is that of coresets (:mod:`karat.storage.parquet`): a header and named arrays, with a
digest.  A file is replaced in one step, under a lock, and only if it still is the one that was
read: a process that is killed leaves the old file or the new.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from karat.core.certify import Certificate
from karat.core.files import problem_header, saved_problem
from karat.core.stored import check_certificate
from karat.core.synthetic import REAL, SYNTHETIC, as_made
from karat.cubes.cells import CellLayout, Cells, starts_of
from karat.cubes.fourth import KINDS, fourth_arrays, stored_fourth
from karat.cubes.hash_file import from_inside, inside, read_beside, remove_others, write_beside
from karat.cubes.hashes import CellHashes, old_part_names
from karat.data.arguments import ColumnRoles
from karat.engine.linalg import Indices
from karat.errors import InputError, StorageError, reading, require
from karat.problems import Problem
from karat.storage.archive import LOCKS, Spec, write_atomically
from karat.storage.parquet import check_table, pack_table, unpack_table

WHAT = "a cube"
ZIP = b"PK"  # the first bytes of a .npz file
CELL = "cell:"
NUMBERS = {"float": np.float64, "int": np.int64, "bool": np.bool_, "float | None": np.float64}
KNOWN = ("keeps", "excludes")  # usually those of the problem, so they are not stored


def write_cube(
    path: Path,
    cells: Cells,
    problem: Problem,
    layout: CellLayout,
    history: Sequence[dict[str, Any]],
    hashes: str,
) -> None:
    """Write a cube, atomically, with its hashes "inside" or "beside"."""
    name = write_beside(path, cells.hashes) if hashes == "beside" else None
    data = pack_cube(cells if name is None else cells.unhashed(), problem, layout, history, name)
    write_atomically(
        path,
        lambda file: file.write(data),
        lambda written: check_table(written, str(path), WHAT, _admit),
    )
    remove_others(path, name)


def pack_cube(
    cells: Cells, problem: Problem, layout: CellLayout, history: Sequence[dict[str, Any]],
    hash_file: str | None = None,
) -> bytes:  # fmt: skip
    """The bytes of the file; ``hash_file`` is the name of the one that has the hashes."""
    roles = layout.roles
    arrays: dict[str, Any] = {
        f"label:{i}": np.repeat(values, cells.sizes) for i, values in enumerate(cells.labels)
    }
    names = [*roles.features, *roles.targets]
    arrays |= {f"column:{i}": values for i, values in enumerate(cells.columns)}
    arrays |= {"weights": cells.weights, "numbers": cells.numbers}
    if cells.keys is not None:
        arrays["keys"] = cells.keys
    shown = [(f"label:{i}", "array", [name]) for i, name in enumerate(layout.by)]
    shown += [(f"column:{i}", "array", [name]) for i, name in enumerate(names)]
    shown += [("weights", "array", ["weight"]), ("numbers", "array", ["row"])]
    shown += [("keys", "array", ["key"])] if cells.keys is not None else []
    for more, columns in (inside(cells), fourth_arrays(cells.fourth, cells.starts)):
        arrays, shown = arrays | more, shown + columns
    certificates, notes = _certificate_arrays(cells.certificates)
    arrays |= (
        certificates
        | {f"{CELL}sizes": cells.sizes}
        | _ragged("origins", cells.origins, np.int64)
        | _ragged("parts", cells.parts, "S")
    )
    header = problem_header(problem) | {
        "kind": "cube",
        "by": list(layout.by),
        "features": list(roles.features),
        "targets": list(roles.targets),
        "weight": roles.weight,
        "key": roles.key,
        "on_missing": "drop" if layout.drop else "error",
        "rows": layout.rows,
        **({} if layout.cov is None else {"cov": layout.cov}),
        "history": list(history),
        "hash_file": hash_file,
        "notes": notes,
        "keeps": {
            str(i): certificate.keeps
            for i, certificate in enumerate(cells.certificates)
            if certificate.keeps != problem.keeps
        },
    }
    return pack_table(header, arrays, shown)


def unpack_cube(
    data: bytes, name: str, problem: Problem | None, folder: Path | None, hashes: bool
) -> tuple[Cells, Problem, CellLayout, list[dict[str, Any]], str]:
    """Read the bytes of :func:`pack_cube`, and say where its hashes were.

    ``name`` is for error messages, ``folder`` is that of the file, and ``hashes`` says whether to
    read those.
    """
    if data.startswith(ZIP):
        raise _coreset_given()
    header, arrays = unpack_table(data, name, WHAT, _admit)
    stored_problem = saved_problem(header, name, problem)
    with reading(name, WHAT):
        roles = ColumnRoles(
            tuple(header["features"]),
            tuple(header["targets"]),
            header["weight"],
            None,
            header["key"],
        )
        rows = header.get("rows", REAL)  # before 0.3.0 there were real rows only
        require(rows in (REAL, SYNTHETIC), "its rows are of no kind")
        by, drop = tuple(header["by"]), header["on_missing"] == "drop"
        cov = header.get("cov")
        require(cov in (None, *KINDS), "covariances of no kind")
        layout = CellLayout(roles, drop=drop, by=by, rows=rows, cov=cov)
        sizes = arrays[f"{CELL}sizes"]
        starts = starts_of(sizes)
        require(
            bool((sizes > 0).all()) and int(starts[-1]) == len(arrays["weights"]),
            "its cells have other rows",
        )
        weights = arrays["weights"]
        require(
            bool(np.isfinite(weights).all() and (weights > 0).all()),
            "a weight is not a positive number",
        )
        cells = Cells(
            tuple(arrays[f"label:{i}"][starts[:-1]] for i in range(len(layout.by))),
            starts,
            tuple(arrays[f"column:{i}"] for i in range(len(roles.features) + len(roles.targets))),
            weights,
            arrays["numbers"],
            arrays.get("keys"),
            _read_certificates(arrays, header["notes"], header.get("keeps", {}), stored_problem),
            _from_ragged("origins", arrays),
            _read_parts(arrays, starts),
            from_inside(arrays, starts) if hashes else CellHashes.none(len(sizes)),
            None
            if cov is None
            else stored_fourth(arrays, starts, len(roles.features) + len(roles.targets)),
        )
        for certificate in cells.certificates:
            check_certificate(certificate)
        require(
            len(cells.origins) == len(cells.parts) == len(cells) == len(sizes),
            "cells without a certificate or a history",
        )
    hash_file = header.get("hash_file")
    if hash_file is not None and hashes:
        cells = replace(cells, hashes=read_beside(folder, hash_file, len(cells)))
    place = "inside" if hash_file is None else "beside"
    return cells, stored_problem, layout, header["history"], place


def _coreset_given() -> InputError:
    return InputError(
        "The file is a coreset, not a cube.", "Load it with karat.load.", argument="coreset"
    )


def _admit(header: dict[str, Any], specs: Mapping[str, Spec]) -> None:
    """Raise unless the file is a cube whose arrays go together."""
    if header.get("kind") != "cube":
        raise _coreset_given()
    count = len(header["features"]) + len(header["targets"])
    named = [
        *(f"label:{i}" for i in range(len(header["by"]))),
        *(f"column:{i}" for i in range(count)),
        "weights",
        "numbers",
    ]
    rows = specs["weights"].shape
    for name in named:
        require(
            specs[name].shape == rows,
            f"{name!r} of shape {specs[name].shape} beside weights of shape {rows}",
        )
    require(
        all(type(name) is str for name in (*header["by"], *header["features"], *header["targets"])),
        "it names no columns",
    )
    require(
        isinstance(header["history"], list) and isinstance(header["notes"], dict),
        "its history is not valid",
    )


def _certificate_arrays(
    certificates: Sequence[Certificate],
) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Certificates as an array for each field; notes by the number of the cell."""
    arrays: dict[str, np.ndarray] = {}
    for field in fields(Certificate):
        values = [getattr(certificate, field.name) for certificate in certificates]
        if field.name in ("notes", *KNOWN):
            continue
        if field.name == "excluded_directions":
            arrays |= _ragged("excluded", values, np.float64)
        elif str(field.type) in NUMBERS:
            numbers = [np.nan if value is None else value for value in values]
            arrays[f"{CELL}{field.name}"] = np.array(numbers, dtype=NUMBERS[str(field.type)])
        else:
            arrays[f"{CELL}{field.name}"] = np.array(values)
    return arrays, {
        str(i): list(certificate.notes)
        for i, certificate in enumerate(certificates)
        if certificate.notes
    }


def _read_certificates(
    arrays: Mapping[str, np.ndarray],
    notes: dict[str, list[str]],
    keeps: dict[str, str],
    problem: Problem,
) -> tuple[Certificate, ...]:
    columns: dict[str, list[Any]] = {}
    for field in fields(Certificate):
        if f"{CELL}{field.name}" in arrays:
            values = arrays[f"{CELL}{field.name}"].tolist()
            if str(field.type) == "float | None":
                values = [None if np.isnan(value) else value for value in values]
            columns[field.name] = values
    excluded = _from_ragged("excluded", arrays)
    certificates = []
    for i, directions in enumerate(excluded):
        values_of_cell: dict[str, Any] = {name: values[i] for name, values in columns.items()}
        values_of_cell |= {"keeps": keeps.get(str(i), problem.keeps), "excludes": problem.excludes}
        values_of_cell |= {"excluded_directions": directions, "notes": tuple(notes.get(str(i), ()))}
        certificate = Certificate.from_dict(values_of_cell)
        real = certificate.rows == REAL
        certificates.append(certificate if real else as_made(certificate, problem))
    return tuple(certificates)


def _ragged(name: str, values: Sequence[Sequence[Any]], kind: Any) -> dict[str, np.ndarray]:
    ends = np.cumsum([0, *(len(row) for row in values)])
    return {
        f"{CELL}{name}": np.array([v for row in values for v in row], dtype=kind),
        f"{CELL}{name}_ends": ends,
    }


def _from_ragged(name: str, arrays: Mapping[str, np.ndarray]) -> tuple[tuple[Any, ...], ...]:
    values, ends = arrays[f"{CELL}{name}"].tolist(), arrays[f"{CELL}{name}_ends"].tolist()
    require(ends[0] == 0 and ends[-1] == len(values), f"its {name} are cut off")
    return tuple(tuple(values[a:b]) for a, b in pairwise(ends))


def _read_parts(arrays: Mapping[str, np.ndarray], starts: Indices) -> tuple[tuple[str, ...], ...]:
    """The names of the parts of cells; older files have none."""
    if f"{CELL}parts" in arrays:
        return tuple(
            tuple(name.decode() for name in names) for names in _from_ragged("parts", arrays)
        )
    return old_part_names(arrays["weights"], arrays["numbers"], arrays["column:0"], starts)


def cube_path(path: Any) -> Path:
    """The path of a cube's file."""
    try:
        return Path(path)
    except TypeError:
        raise InputError(
            f"path must be the path of a file, not {path!r}.", argument="path"
        ) from None


def output_path(path: Any) -> Path:
    """The path of a cube to be written; checked before any data is read."""
    checked = cube_path(path)
    if checked.suffix != ".parquet":
        raise InputError(
            f"A cube is saved as .parquet, not {checked.suffix or 'without a suffix'!r}:"
            f" {checked}.",
            argument="path",
        )
    if not checked.parent.is_dir():
        raise StorageError(
            f"{checked} cannot be written: the folder {checked.parent} does not exist."
        )
    return checked


def identity(path: Path) -> tuple[int, ...] | None:
    """Identifies a version of a file; None if the file does not exist."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; the system releases it when the process ends."""
    if not LOCKS:  # Windows has no flock; writes are atomic in any case
        yield
        return
    import fcntl

    lock = path.with_name(f".{path.name}.lock")
    try:
        file = lock.open("w")
    except OSError as error:
        raise StorageError(
            f"{lock} could not be written ({os.strerror(error.errno or 0)})."
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
