"""Files: arrays and JSON, written atomically, never pickled.

A coreset is a JSON header and named arrays.  An ``.npz`` holds them as they are; a Parquet file (:mod:`karat._storage.parquet`)
holds those of the rows as columns that any tool can open.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from karat import problems
from karat._core.certify import Certificate
from karat._core.coreset import Coreset
from karat._data import containers, frames
from karat._storage.atomic import write_atomically
from karat.errors import InputError, MissingExtraError
from karat.problems import Problem
from karat.problems.absorb.correction import Correction

FORMAT_VERSION = 2  # 1: karat 0.1.0, whose certificates do not count
PARQUET, ZIP = b"PAR1", b"PK"  # with which a Parquet file and an .npz begin
DATA = {".csv": "CSV", ".tsv": "CSV", ".gz": "CSV", ".arrow": "Arrow", ".feather": "Arrow", ".ipc": "Arrow"}


def save(core: Coreset, path: Path) -> None:
    """See :meth:`karat.Coreset.save`."""
    if path.suffix == ".parquet":
        write_atomically(path, lambda file: file.write(_parquet().pack_table(*described(core))))
    elif path.suffix == ".npz":
        write_archive(path, *described(core))
    else:
        raise InputError(f"A coreset is saved as .npz or .parquet, not {path.suffix or 'without a suffix'!r}: {path}.")


def load(path: str | Path, problem: Problem | None = None) -> Coreset:
    """Read a coreset that :meth:`karat.Coreset.save` wrote.

    Parameters
    ----------
    path : path
        An ``.npz`` or ``.parquet`` file.
    problem : Problem, optional
        Needed where the problem holds a user's function, which is not saved.
    """
    path = Path(path)
    data = read_bytes(path)
    if path.suffix.lower() in DATA and not data.startswith((PARQUET, ZIP)):
        raise InputError(
            f"{path} is a data file ({DATA[path.suffix.lower()]}), not a coreset; make one with karat build {path} ..., or "
            "karat.coreset_files."
        )
    parquet = path.suffix == ".parquet" or data.startswith(PARQUET)
    header, arrays = (_parquet().unpack_table if parquet else unpack)(data, str(path), "a coreset file")
    try:
        return _restored(header, arrays, saved_problem(header, str(path), problem))
    except KeyError as error:
        raise InputError(f"{path} is damaged: it holds no {error}.") from error


def _parquet() -> Any:
    try:
        from karat._storage import parquet
    except ImportError as error:
        if (error.name or "").split(".")[0] != "pyarrow":
            raise
        raise MissingExtraError("A coreset in a Parquet file", "io") from None
    return parquet


def described(core: Coreset) -> tuple[dict[str, Any], dict[str, Any]]:
    """A coreset as a header for JSON and named arrays, among them those of its containers."""
    arrays: dict[str, Any] = {"indices": core.indices, "weights": core.weights, "groups": core.groups, "keys": core.keys}
    containers = {name: _store(table, name, arrays) for name, table in (("X", core.X), ("y", core.y))}
    arrays |= {f"map_{name}": value for name, value in (core.maps or {}).items()}
    if core.absorbed is not None:
        arrays |= {"correction_sets": core.absorbed.sets, "correction_delta": core.absorbed.delta}
    header = {"certificate": core.certificate.to_dict(), "n_rows": core.n_rows, "containers": containers}
    return problem_header(core.problem) | header | {"provenance": core.provenance}, arrays


def _restored(header: dict[str, Any], arrays: dict[str, Any], problem: Problem) -> Coreset:
    correction = None
    if "correction_sets" in arrays:
        correction = Correction(arrays["correction_sets"], arrays["correction_delta"])
    maps = {name.removeprefix("map_"): value for name, value in arrays.items() if name.startswith("map_")}
    return Coreset(
        indices=arrays["indices"],
        weights=arrays["weights"],
        X=_restore(header["containers"]["X"], "X", arrays),
        y=_restore(header["containers"]["y"], "y", arrays),
        groups=arrays.get("groups"),
        n_rows=header["n_rows"],
        problem=problem,
        certificate=Certificate.from_dict(header["certificate"]),
        keys=arrays.get("keys"),
        maps=maps or None,
        provenance=header.get("provenance"),
        absorbed=correction,
    )


def _store(table: Any, name: str, arrays: dict[str, Any]) -> dict[str, Any] | None:
    """Put the arrays of a container among the others; what kind it was."""
    if table is None:
        return None
    if isinstance(table, tuple):
        return {"kind": "tuple", "parts": [_store(part, f"{name}/{i}", arrays) for i, part in enumerate(table)]}
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        arrays |= {f"{name}/data": table.data, f"{name}/indices": table.indices, f"{name}/indptr": table.indptr}
        return {"kind": "sparse", "shape": list(table.shape)}
    if not containers.is_frame(table):
        arrays[name] = np.asarray(table)
        return {"kind": "array"}
    columns = frames.columns_of(table)
    arrays |= {f"{name}/{i}": values for i, values in enumerate(columns.values())}
    if hasattr(table, "iloc"):
        arrays[f"{name}/index"] = np.asarray(table.index)
    return {
        "kind": type(table).__module__.split(".")[0],
        "columns": list(columns),
        "series": containers.dimensions(table) == 1,
    }


def _restore(kind: dict[str, Any] | None, name: str, arrays: dict[str, Any]) -> Any:
    """The container again; an array where the library of a frame is not installed."""
    if kind is None:
        return None
    if kind["kind"] == "tuple":
        return tuple(_restore(part, f"{name}/{i}", arrays) for i, part in enumerate(kind["parts"]))
    if kind["kind"] == "sparse":
        parts = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
        return sparse.csr_array(parts, shape=tuple(kind["shape"]))
    if kind["kind"] == "array":
        return arrays[name]
    columns = {column: arrays[f"{name}/{i}"] for i, column in enumerate(kind["columns"])}
    return frames.frame_of(kind["kind"], columns, kind["series"], arrays.get(f"{name}/index"))


def problem_header(problem: Problem) -> dict[str, Any]:
    """What :func:`saved_problem` reads."""
    return {"problem": type(problem).__name__, "params": problem.params() if problem.storable else None}


def saved_problem(header: dict[str, Any], name: str, problem: Problem | None) -> Problem:
    """The problem that a file was written for; ``problem`` where the file cannot hold it."""
    if problem is None:
        if header["params"] is None:
            raise InputError(
                f"{name} keeps a user's function, which is not saved: load it with problem=Kernel(...).", argument="problem"
            )
        return getattr(problems, header["problem"]).from_params(header["params"])  # type: ignore[no-any-return]
    if type(problem).__name__ != header["problem"]:
        raise InputError(f"{name} was saved for a {header['problem']}, not a {type(problem).__name__}.")
    return problem


def write_archive(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """An archive in a file, atomically."""
    if path.suffix != ".npz":
        raise InputError(f"It is saved as .npz, not {path.suffix or 'without a suffix'!r}: {path}.")
    write_atomically(path, lambda file: file.write(pack(header, arrays)))


def read_archive(path: Path, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and arrays of :func:`write_archive`."""
    return unpack(read_bytes(path), str(path), what)


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error


def plain(arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays that need no pickle: text of any kind becomes plain text, None is left out."""
    known = {k: np.asarray(v) for k, v in arrays.items() if v is not None}
    return {k: v.astype(str) if v.dtype.kind == "O" else v for k, v in known.items()}


def to_json(header: dict[str, Any]) -> bytes:
    return json.dumps({"format_version": FORMAT_VERSION} | header).encode()


def check_version(header: dict[str, Any], name: str) -> None:
    version = header.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(f"{name} has format version {version}; this karat reads up to {FORMAT_VERSION}. Update karat.")


def pack(header: dict[str, Any], arrays: dict[str, Any]) -> bytes:
    """A JSON header and arrays as the bytes of an ``.npz``."""
    file = io.BytesIO()
    np.savez_compressed(file, **plain(arrays), header=np.frombuffer(to_json(header), dtype=np.uint8))  # type: ignore[arg-type]
    return file.getvalue()


def unpack(data: bytes, name: str, what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and arrays of :func:`pack`; ``name`` and ``what`` it is, for sentences."""
    if not data.startswith(ZIP):
        raise InputError(f"{name} is not {what}, or it is damaged (it does not begin like one).")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, EOFError, AttributeError, zlib.error) as error:
        raise InputError(f"{name} is not {what}, or it is damaged ({error}).") from error
    check_version(header, name)
    return header, arrays
