"""The doors: a case becomes a coreset through karat's public functions, and is verified through
them.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Case
from .functions import function


def problem_of(spec: dict[str, Any]):
    """The karat problem of a specification."""
    from karat import problems

    settings = {k: v for k, v in spec.items() if k not in ("name", "function", "latent")}
    if spec["name"] == "Kernel":
        return problems.Kernel(function(spec["function"], **settings))
    return getattr(problems, spec["name"])(**settings)


def build(case: Case):
    """The coreset of a case, by the way that the case names."""
    import karat

    problem, way = problem_of(case.spec), case.way
    kind = way["kind"]
    if kind == "sketch":
        return sketched(case, problem, slice(None)).coreset()
    if kind == "resumed":
        return resumed(case, problem).coreset()
    if kind == "sketches":
        parts = [sketched(case, problem, part) for part in cuts(case)]
        return parts[0].merge(*parts[1:]).coreset()
    if kind == "merge":
        cores = [
            karat.coreset(
                *chosen(case, part), problem=problem, **options(case, part), **rows_of(case, number)
            )
            for number, part in enumerate(cuts(case))
        ]
        merged = cores[0]
        for core in cores[1:]:
            merged = merged.merge(core)
        return merged
    if kind == "files":
        with tempfile.TemporaryDirectory() as folder:
            return from_files(case, problem, Path(folder))
    if case.rows != "real":
        return karat.coreset(
            case.X, case.y, problem=problem, **options(case, slice(None)), **rows_of(case)
        )
    return karat.coreset(
        case.X, case.y, problem=problem, method=case.method, **options(case, slice(None))
    )


def cuts(case: Case) -> list[slice]:
    edges = np.linspace(0, case.count, case.way["parts"] + 1).astype(int)
    return [slice(a, b) for a, b in pairwise(edges)]


def chosen(case: Case, part: slice):
    return case.X[part], None if case.y is None else case.y[part]


def options(case: Case, part: slice) -> dict[str, Any]:
    found = {"sample_weight": case.weights, "groups": case.groups}
    return {name: values[part] for name, values in found.items() if values is not None}


def rows_of(case: Case, part: int = 0) -> dict[str, Any]:
    """The argument of synthetic rows; of three and more parts to be merged, the last has real ones,
    if these keep enough.
    """
    affine = case.y is not None and case.y.ndim == 1 and case.spec.get("fit_intercept", True)
    real = case.rows == "real" or (affine and part > 1 and part == case.way["parts"] - 1)
    return {} if real else {"rows": case.rows}


def sketched(case: Case, problem, part: slice, sketch=None):
    import karat

    if sketch is None:
        sketch = karat.Sketch(problem, buffer_rows=case.way["buffer_rows"], **rows_of(case))
    start, stop, _ = part.indices(case.count)
    step = case.way.get("batch", 100)
    for a in range(start, stop, step):
        some = slice(a, min(a + step, stop))
        X, y = chosen(case, some)
        sketch.update(X, y, **options(case, some))
    return sketch


def resumed(case: Case, problem):
    """A sketch that was saved and loaded in the middle of its stream."""
    half = case.count // 2
    sketch = sketched(case, problem, slice(0, half))
    return sketched(
        case, problem, slice(half, case.count), copied(sketch, problem) if half else sketch
    )


def copied(sketch, problem):
    """The sketch after a trip through a file."""
    import karat

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sketch.npz"
        sketch.save(path)
        return karat.Sketch.load(path, problem)


def table_of(case: Case, part: slice):
    """Rows as an Arrow table: x0, x1, ..., y0, ..., weight, group."""
    import pyarrow as pa

    X, y = chosen(case, part)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    if y is not None:
        y = y.reshape(len(y), -1)
        columns |= {f"y{j}": y[:, j] for j in range(y.shape[1])}
    if case.weights is not None:
        columns["weight"] = case.weights[part]
    if case.groups is not None:
        columns["group"] = case.groups[part]
    return pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()})


def from_files(case: Case, problem, folder: Path):
    import pyarrow.csv
    import pyarrow.parquet

    import karat

    for number, part in enumerate(cuts(case)):
        path, table = folder / f"part-{number}.{case.way['format']}", table_of(case, part)
        if case.way["format"] == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pyarrow.parquet.write_table(table, path)
    target = (
        None
        if case.y is None
        else [f"y{j}" for j in range(1 if case.y.ndim == 1 else case.y.shape[1])]
    )
    core = karat.coreset_files(
        folder, target, problem, columns=[f"x{j}" for j in range(case.X.shape[1])],
        batch_rows=case.way["batch_rows"], sample_weight=None if case.weights is None else "weight",
        groups=None if case.groups is None else "group", **rows_of(case),
    )  # fmt: skip
    if case.rows != "real":
        case.way["verify_files"] = karat.verify_files(core, folder).ok
    return core


def kept_groups(case: Case, core) -> np.ndarray:
    """The labels of the kept rows, as numbers again where a CSV file has made text of them."""
    return np.asarray(core.groups).astype(case.groups.dtype)


def again(core, case: Case):
    """The same coreset after a trip through a file, of itself or of its sketch; None where the case
    does not ask for it.
    """
    import karat

    if case.way["kind"] == "resumed":
        problem = problem_of(case.spec)
        return copied(resumed(case, problem), problem).coreset()
    if case.way["kind"] != "saved":
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"core.{case.way['format']}"
        core.save(path)
        return karat.load(path)


def verify(core, case: Case):
    """The coreset measured afresh; arrays in place of Arrow tables, as users do."""
    y = case.y
    if case.way["kind"] == "files" and y is not None:
        y = y.reshape(len(y), -1)
    return core.verify(case.X, y, **options(case, slice(None)))


def sabotaged(core, row: int, factor: float = 1e-6):
    """One weight too large, by a part in a million."""
    weights = np.array(core.weights)
    weights[row] *= 1 + factor
    return replace(core, weights=weights)
