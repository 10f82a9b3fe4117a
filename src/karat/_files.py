"""Files: arrays and JSON in one .npz, written atomically, never pickled."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from karat import problems
from karat._certificate import Certificate
from karat._coreset import Coreset
from karat.engine.correction import Correction
from karat.errors import InputError
from karat.problems import Kernel, Problem

FORMAT_VERSION = 1


def save(core: Coreset, path: Path) -> None:
    """See :meth:`karat.Coreset.save`."""
    if path.suffix != ".npz":
        raise InputError(f"A coreset is saved as .npz, not {path.suffix or 'without a suffix'!r}: {path}.")
    several = isinstance(core.X, tuple)
    X, y = (None, None) if several else core.arrays()
    arrays: dict[str, Any] = {"indices": core.indices, "weights": core.weights} | ({} if several else {"X": X})
    arrays |= {f"view_{i}": replace(core, X=view).arrays()[0] for i, view in enumerate(core.X if several else ())}
    arrays |= {f"map_{name}": value for name, value in (core.maps or {}).items()}
    for name, value in (("y", y), ("groups", core.groups), ("keys", core.keys)):
        if value is not None:
            array = np.asarray(value)
            arrays[name] = array.astype(str) if array.dtype.kind == "O" else array
    if core._correction is not None:
        arrays |= {"correction_sets": core._correction.sets, "correction_delta": core._correction.delta}
    columns = getattr(core.X, "columns", None) if hasattr(core.X, "iloc") else None
    header = {
        "format_version": FORMAT_VERSION,
        "problem": type(core.problem).__name__,
        "params": None if isinstance(core.problem, Kernel) else core.problem.params(),
        "certificate": core.certificate.to_dict(),
        "n_rows": core.n_rows,
        "columns": None if columns is None else [str(c) for c in columns],
        "target": None if getattr(core.y, "name", None) is None else str(core.y.name),
        "container": "views"
        if several
        else "pandas"
        if hasattr(core.X, "iloc")
        else "sparse"
        if sparse.issparse(core.X)
        else "array",
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
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
    except FileNotFoundError:
        raise InputError(f"There is no file {path}.") from None
    except (ValueError, KeyError, OSError, zipfile.BadZipFile, EOFError) as error:
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
    correction = None
    if "correction_sets" in arrays:
        correction = Correction(arrays["correction_sets"], arrays["correction_delta"])
    X, y = _containers(header, arrays)
    maps = {name.removeprefix("map_"): value for name, value in arrays.items() if name.startswith("map_")}
    return Coreset(
        indices=arrays["indices"], weights=arrays["weights"], X=X, y=y, groups=arrays.get("groups"), n_rows=header["n_rows"],
        problem=problem, certificate=Certificate.from_dict(header["certificate"]), keys=arrays.get("keys"), maps=maps or None,
        _correction=correction,
    )  # fmt: skip


def _containers(header: dict[str, Any], arrays: dict[str, Any]) -> tuple[Any, Any]:
    if header["container"] == "views":
        return tuple(arrays[f"view_{i}"] for i in range(3)), None
    X, y = arrays["X"], arrays.get("y")
    if header["container"] == "sparse":
        return sparse.csr_array(X), y
    if header["container"] == "pandas":
        try:
            import pandas as pd
        except ImportError:
            return X, y
        X = pd.DataFrame(X, columns=header["columns"], index=arrays["indices"])
        if y is not None and y.ndim == 1 and header["target"] is not None:
            y = pd.Series(y, name=header["target"], index=arrays["indices"])
    return X, y
