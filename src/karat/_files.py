"""Files: arrays and JSON in one .npz, written atomically, never pickled."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from karat import frames, problems
from karat._certificate import Certificate
from karat._coreset import Coreset
from karat.engine.correction import Correction
from karat.errors import InputError
from karat.problems import Problem

FORMAT_VERSION = 1
DAMAGE = (ValueError, KeyError, OSError, zipfile.BadZipFile, EOFError, zlib.error)


def save(core: Coreset, path: Path) -> None:
    """See :meth:`karat.Coreset.save`."""
    if path.suffix != ".npz":
        raise InputError(f"A coreset is saved as .npz, not {path.suffix or 'without a suffix'!r}: {path}.")
    arrays: dict[str, Any] = {"indices": core.indices, "weights": core.weights}
    containers = {name: _pack(table, name, arrays) for name, table in (("X", core.X), ("y", core.y))}
    arrays |= {f"map_{name}": value for name, value in (core.maps or {}).items()}
    arrays |= {name: _storable(v) for name, v in (("groups", core.groups), ("keys", core.keys)) if v is not None}
    if core._correction is not None:
        arrays |= {"correction_sets": core._correction.sets, "correction_delta": core._correction.delta}
    header = {
        "format_version": FORMAT_VERSION,
        "problem": type(core.problem).__name__,
        "params": core.problem.params() if core.problem.storable else None,
        "certificate": core.certificate.to_dict(),
        "n_rows": core.n_rows,
        "containers": containers,
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    handle, name = tempfile.mkstemp(dir=path.parent if str(path.parent) else ".", prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | Path, problem: Problem | None = None) -> Coreset:
    """Read a coreset that :meth:`karat.Coreset.save` wrote.

    Parameters
    ----------
    path : path
    problem : Problem, optional
        Needed where the problem holds a user's function, which is not saved.
    """
    path = Path(path)
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except DAMAGE as error:
        raise InputError(f"{path} is not a coreset file, or it is damaged ({error}).") from error
    version = header.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise InputError(f"{path} has format version {version}; this karat reads up to {FORMAT_VERSION}. Update karat.")
    if problem is None:
        if header["params"] is None:
            raise InputError(
                f"{path} keeps a user's function, which is not saved: pass it, karat.load(path, problem=Kernel(...))."
            )
        problem = getattr(problems, header["problem"])(**header["params"])
    elif type(problem).__name__ != header["problem"]:
        raise InputError(f"{path} was saved for a {header['problem']}, not a {type(problem).__name__}.")
    try:
        return _restored(header, arrays, problem)
    except KeyError as error:
        raise InputError(f"{path} is damaged: it holds no {error}.") from error


def _restored(header: dict[str, Any], arrays: dict[str, Any], problem: Problem) -> Coreset:
    correction = None
    if "correction_sets" in arrays:
        correction = Correction(arrays["correction_sets"], arrays["correction_delta"])
    maps = {name.removeprefix("map_"): value for name, value in arrays.items() if name.startswith("map_")}
    return Coreset(
        indices=arrays["indices"],
        weights=arrays["weights"],
        X=_unpack(header["containers"]["X"], "X", arrays),
        y=_unpack(header["containers"]["y"], "y", arrays),
        groups=arrays.get("groups"),
        n_rows=header["n_rows"],
        problem=problem,
        certificate=Certificate.from_dict(header["certificate"]),
        keys=arrays.get("keys"),
        maps=maps or None,
        _correction=correction,
    )


def _storable(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array.astype(str) if array.dtype.kind == "O" else array


def _pack(table: Any, name: str, arrays: dict[str, Any]) -> dict[str, Any] | None:
    """Put the arrays of a container among the others; what kind it was."""
    if table is None:
        return None
    if isinstance(table, tuple):
        return {"kind": "tuple", "parts": [_pack(part, f"{name}/{i}", arrays) for i, part in enumerate(table)]}
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        arrays |= {f"{name}/data": table.data, f"{name}/indices": table.indices, f"{name}/indptr": table.indptr}
        return {"kind": "sparse", "shape": list(table.shape)}
    if not frames.is_frame(table):
        arrays[name] = _storable(table)
        return {"kind": "array"}
    columns = frames.columns_of(table)
    arrays |= {f"{name}/{i}": _storable(values) for i, values in enumerate(columns.values())}
    if hasattr(table, "iloc"):
        arrays[f"{name}/index"] = _storable(table.index)
    return {
        "kind": type(table).__module__.split(".")[0],
        "columns": list(columns),
        "series": frames.dimensions(table) == 1,
    }


def _unpack(kind: dict[str, Any] | None, name: str, arrays: dict[str, Any]) -> Any:
    """The container again; an array where the library of a frame is not installed."""
    if kind is None:
        return None
    if kind["kind"] == "tuple":
        return tuple(_unpack(part, f"{name}/{i}", arrays) for i, part in enumerate(kind["parts"]))
    if kind["kind"] == "sparse":
        parts = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
        return sparse.csr_array(parts, shape=tuple(kind["shape"]))
    if kind["kind"] == "array":
        return arrays[name]
    columns = {column: arrays[f"{name}/{i}"] for i, column in enumerate(kind["columns"])}
    return frames.frame_of(kind["kind"], columns, kind["series"], arrays.get(f"{name}/index"))
