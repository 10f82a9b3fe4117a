"""Coresets in files: the header and the arrays of a stored coreset (:mod:`karat.storage` writes
them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from karat import problems
from karat.core.certify import Certificate
from karat.core.provenance import Provenance
from karat.core.regression import Regression
from karat.core.stored import (
    FOURTH,
    check_certificate,
    check_provenance,
    check_values,
    validate_coreset_arrays,
)
from karat.core.synthetic import REAL, SYNTHETIC
from karat.data import containers
from karat.engine.fourth_moments import FourthSums
from karat.engine.synthetic import VERBATIM
from karat.errors import DamagedFileError, InputError, MissingExtraError, reading, require
from karat.problems import Problem
from karat.problems.absorb.correction import Correction
from karat.storage.archive import (
    NEWEST_FORMAT,
    ZIP,
    Spec,
    plain,
    read_bytes,
    unpack,
    write_archive,
    write_atomically,
)

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

WHAT = "a coreset file"
PARQUET = b"PAR1"  # the first bytes of a Parquet file
ROLES = {
    "weights": "weight",
    "indices": "row",
    "groups": "group",
    "keys": "key",
    "strata": "stratum",
}
MADE = {
    "rows": SYNTHETIC,
    "format_version": NEWEST_FORMAT,
    "about": "The rows are made, not rows of the data.",
}
DATA = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".gz": "CSV",
    ".bz2": "CSV",
    ".zst": "CSV",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
}


def save(core: Coreset, path: Path) -> None:
    """See :meth:`karat.Coreset.save`."""
    if path.suffix == ".parquet":
        header, arrays = described(core)
        arrays = plain(arrays)
        write_atomically(
            path,
            lambda file: file.write(
                _parquet().pack_table(header, arrays, shown_columns(header, arrays))
            ),
            lambda data: _parquet().check_table(data, str(path), WHAT, _validate_coreset),
        )
    elif path.suffix == ".npz":
        write_archive(path, *described(core), WHAT, _validate_coreset)
    else:
        raise InputError(
            f"A coreset is saved as .npz or .parquet, not {path.suffix or 'without a suffix'!r}:"
            f" {path}."
        )


def loaded_fields(path: Path, problem: Problem | None) -> dict[str, Any]:
    """The fields of a coreset that :func:`save` wrote, see :func:`karat.load`."""
    data = read_bytes(path)
    if path.suffix.lower() in DATA and not data.startswith((PARQUET, ZIP)):
        raise InputError(
            f"{path} is a data file ({DATA[path.suffix.lower()]}), not a coreset; make one with"
            f" karat build {path} ..., or karat.coreset_files."
        )
    # the first bytes tell a Parquet file that was renamed
    parquet = path.suffix == ".parquet" or data.startswith(PARQUET)
    header, arrays = (_parquet().unpack_table if parquet else unpack)(
        data, str(path), WHAT, _validate_coreset
    )
    with reading(str(path), WHAT):
        check_values(header, arrays)
        fields = _coreset_fields(header, arrays, saved_problem(header, str(path), problem))
        check_certificate(fields["certificate"])
        check_provenance(fields["provenance"])
    return fields


def _validate_coreset(header: dict[str, Any], specs: Mapping[str, Spec]) -> None:
    if header.get("sketch"):
        raise DamagedFileError(
            "This is the checkpoint of a sketch, not a coreset; read it with karat.Sketch.load."
        )
    validate_coreset_arrays(header, specs)


def _parquet() -> Any:
    try:
        from karat.storage import parquet
    except ImportError as error:
        if (error.name or "").split(".")[0] != "pyarrow":
            raise
        raise MissingExtraError("A coreset in a Parquet file", "io") from None
    return parquet


def described(core: Coreset) -> tuple[dict[str, Any], dict[str, Any]]:
    """A coreset as a header for JSON and named arrays, among them those of its containers."""
    arrays: dict[str, Any] = {
        "indices": core.indices,
        "weights": core.weights,
        "groups": core.groups,
        "keys": core.keys,
    }
    if core.strata is not None:
        arrays["strata"] = core.strata.astype(np.int8)
    stored = {name: _store(table, name, arrays) for name, table in (("X", core.X), ("y", core.y))}
    arrays |= {f"map_{name}": value for name, value in (core.maps or {}).items()}
    if core.absorbed is not None:
        arrays |= {"correction_sets": core.absorbed.sets, "correction_delta": core.absorbed.delta}
    header = {
        "certificate": core.certificate.to_dict(),
        "n_rows": core.n_rows,
        "containers": stored,
    }
    if core.regression is not None:
        arrays |= core.regression.arrays()
        header["regression"] = core.regression.facts
    if core.fourth is not None:
        arrays[FOURTH] = core.fourth.packed()
    made = MADE if core.rows == SYNTHETIC else {}
    return problem_header(core.problem) | header | {"provenance": core.provenance} | made, arrays


def _coreset_fields(
    header: dict[str, Any], arrays: dict[str, Any], problem: Problem
) -> dict[str, Any]:
    correction = None
    if "correction_sets" in arrays:
        correction = Correction(arrays["correction_sets"], arrays["correction_delta"])
    strata = arrays["strata"].astype(np.intp) if "strata" in arrays else None
    maps = {
        name.removeprefix("map_"): value
        for name, value in arrays.items()
        if name.startswith("map_")
    }
    return {
        "indices": arrays.get("indices"),
        "weights": arrays["weights"],
        "X": _restore(header["containers"]["X"], "X", arrays),
        "y": _restore(header["containers"]["y"], "y", arrays),
        "groups": arrays.get("groups"),
        "n_rows": header["n_rows"],
        "problem": problem,
        "certificate": Certificate.from_dict(header["certificate"]),
        "keys": arrays.get("keys"),
        "maps": maps or None,
        "provenance": header.get("provenance"),
        "absorbed": correction,
        "regression": Regression.restored(header.get("regression"), arrays),
        "rows": header.get("rows", REAL),
        "strata": strata,
        "verbatim": None if strata is None else strata == VERBATIM,
        "fourth": FourthSums.unpacked(arrays[FOURTH]) if FOURTH in arrays else None,
    }


def _store(table: Any, name: str, arrays: dict[str, Any]) -> dict[str, Any] | None:
    """Add the arrays of a container to others; return its kind as JSON for :func:`_restore`."""
    if table is None:
        return None
    if isinstance(table, tuple):
        return {
            "kind": "tuple",
            "parts": [_store(part, f"{name}/{i}", arrays) for i, part in enumerate(table)],
        }
    if sparse.issparse(table):
        table = sparse.csr_array(table)
        arrays |= {
            f"{name}/data": table.data,
            f"{name}/indices": table.indices,
            f"{name}/indptr": table.indptr,
        }
        return {"kind": "sparse", "shape": list(table.shape)}
    library = containers.frame_library(table)
    if library is None:
        arrays[name] = containers.as_numpy(table)
        return {"kind": "array"}
    arrays |= {f"{name}/{i}": values for i, values in enumerate(containers.column_arrays(table))}
    if hasattr(table, "iloc"):
        arrays[f"{name}/index"] = np.asarray(table.index)
    labels, series = containers.column_labels(table), containers.dimensions(table) == 1
    described = {"kind": library, "columns": [str(label) for label in labels], "series": series}
    if series:  # the text "None" stands for no name, unless this says otherwise
        return described | ({"named": True} if labels == ["None"] else {})
    if described["columns"] == labels:
        return described
    return described | {"labels": containers.labels_for_json(labels)}


def _restore(kind: dict[str, Any] | None, name: str, arrays: dict[str, Any]) -> Any:
    """The container that :func:`_store` described; an array where the library of a frame is not
    installed.
    """
    if kind is None:
        return None
    if kind["kind"] == "tuple":
        return tuple(_restore(part, f"{name}/{i}", arrays) for i, part in enumerate(kind["parts"]))
    if kind["kind"] == "sparse":
        parts = (arrays[f"{name}/data"], arrays[f"{name}/indices"], arrays[f"{name}/indptr"])
        table = sparse.csr_array(parts, shape=tuple(kind["shape"]))
        table.check_format(full_check=True)
        return table
    if kind["kind"] == "array":
        return arrays[name]
    labels = containers.labels_from_json(kind.get("labels", kind["columns"]))
    columns = {label: arrays[f"{name}/{i}"] for i, label in enumerate(labels)}
    index = arrays.get(f"{name}/index")
    frame = containers.frame_of(kind["kind"], columns, kind["series"], index)
    return frame.rename("None") if kind.get("named") and hasattr(frame, "iloc") else frame


def problem_header(problem: Problem) -> dict[str, Any]:
    """What :func:`saved_problem` reads."""
    return {
        "problem": type(problem).__name__,
        "params": problem.params() if problem.storable else None,
    }


def saved_problem(header: dict[str, Any], name: str, problem: Problem | None) -> Problem:
    """The problem that a file was written for; ``problem`` if the file cannot hold it."""
    if problem is None:
        if header["params"] is None:
            raise InputError(
                f"Load {name} with problem=Kernel(...): its problem has a user's function, which is"
                " not saved.",
                argument="problem",
            )
        return _problem(header["problem"], header["params"], name)
    if type(problem).__name__ != header["problem"]:
        raise InputError(
            f"{name} was saved for a {header['problem']}, not a {type(problem).__name__}."
        )
    return problem


def _tuples(value: Any) -> Any:
    """Parameters with their tuples, which JSON stores as lists."""
    if isinstance(value, dict):
        return {name: _tuples(entry) for name, entry in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _problem(kind: Any, params: Any, name: str) -> Problem:
    """One of the problems whose parameters are saved."""
    classes = {each: getattr(problems, each) for each in problems.__all__ if each != "Problem"}
    with reading(name, WHAT):
        require(
            kind in classes and classes[kind].storable,
            f"no problem {str(kind)[:40]!r} is saved in files",
        )
        require(isinstance(params, dict), "the parameters of its problem are missing")
        try:
            return classes[kind].from_params(_tuples(params))  # type: ignore[no-any-return]
        except InputError as error:
            raise DamagedFileError(
                f"{name} is damaged: its problem is impossible ({error})"
            ) from error


def shown_columns(
    header: dict[str, Any], arrays: dict[str, Any]
) -> Iterator[tuple[str, str, list[str]]]:
    """The arrays of the rows, the kind of each, and the preferred names of their columns."""
    targets = Provenance.read(header.get("provenance")).targets
    yield from _shown_container(header["containers"]["X"], "X", arrays, "x", None)
    yield from _shown_container(header["containers"]["y"], "y", arrays, "y", targets)
    yield from ((name, "array", [label]) for name, label in ROLES.items() if name in arrays)


def _shown_container(
    kind: dict[str, Any] | None,
    name: str,
    arrays: dict[str, Any],
    stem: str,
    target_names: list[str] | None,
) -> Iterator[tuple[str, str, list[str]]]:
    if kind is None:
        return
    if kind["kind"] == "tuple":
        for i, part in enumerate(kind["parts"]):
            yield from _shown_container(part, f"{name}/{i}", arrays, f"view{i}_{stem}", None)
    elif kind["kind"] == "sparse":
        yield name, "sparse", [f"{stem}_columns", f"{stem}_values"]
    elif kind["kind"] == "array":
        count = int(np.prod(arrays[name].shape[1:]))
        numbered = [stem] if arrays[name].ndim == 1 else [f"{stem}{i}" for i in range(count)]
        named = target_names is not None and len(target_names) == count
        yield name, "array", (target_names or []) if named else numbered
    else:
        # an Arrow array has no name
        nameless = kind["series"] and kind["columns"][0] in ("", "None") and not kind.get("named")
        labels = (target_names or [stem]) if nameless else kind["columns"]
        yield from ((f"{name}/{i}", "array", [label]) for i, label in enumerate(labels))
