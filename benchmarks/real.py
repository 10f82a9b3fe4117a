"""Measure peak memory in addition to the data, and Covertype, which has collinear and one-hot
columns and rare categories.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from data import covtype, gaussian
from report import Line, Report, shape
from sizes import Sizes
from timing import interleaved, peak_memory

import karat
from karat.problems import LeastSquares

Table = tuple[np.ndarray, np.ndarray]


def load(folder: str) -> Table:
    """Read a table without temporary arrays, so that resident memory is that of the data."""
    return np.load(Path(folder) / "X.npy"), np.load(Path(folder) / "y.npy")


def build(table: Table, method: str) -> karat.Certificate:
    return karat.coreset(*table, method=method).certificate


def peak(table: Table, method: str = "auto") -> tuple[int, karat.Certificate]:
    """Peak bytes of a coreset in addition to the data, in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        for name, part in zip(("X.npy", "y.npy"), table, strict=True):
            np.save(Path(folder) / name, part)
        return peak_memory(partial(load, folder), partial(build, method=method))


def memory(report: Report, sizes: Sizes) -> None:
    """(d) Peak memory against the size of the feature matrix that other reducers need."""
    for n, d in ((sizes.rows, sizes.columns), (sizes.wide_rows, sizes.wide_columns[-1])):
        used, proof = peak(gaussian(n, d))
        planned = karat.plan(LeastSquares(), n, d).memory
        ready = 8 * n * LeastSquares().width(d)
        note = (
            f"data {8 * n * (d + 1) / 1e6:.0f} MB, features {ready / 1e6:.0f} MB, karat.plan says"
            f" {planned / 1e6:.0f} MB"
        )
        line = Line(
            f"memory {shape(n, d)}",
            "karat, peak beside the data",
            memory=used,
            ratio=used / ready,
            of="n x m matrix",
        )
        line.error, line.size, line.note = proof.loss_error, proof.size, note
        report.add(line)


def covertype(report: Report, sizes: Sizes) -> None:
    """(e) All rows of Covertype, Elevation from the 53 other attributes and a constant; limits: 25
    s, 3 GB, 1e-11.
    """
    table = covtype()
    if table is None or not sizes.real:
        reason = "KARAT_DATA does not hold covtype.parquet" if sizes.real else "not a quick one"
        report.add(Line("covtype", "karat", note=f"left out: {reason}"))
        return
    D = np.column_stack([np.ones(len(table[0])), *table])
    methods = {m: lambda m=m: karat.coreset(*table, method=m) for m in ("auto", "tree")}
    found = interleaved(
        {"D'D": lambda: D.T @ D} | methods, repeats=3, budget=sizes.budget, warm=False
    )
    report.add(Line("covtype", "D'D on a ready D", found["D'D"].seconds, found["D'D"].runs))
    for method in methods:
        used, _ = peak(table, method)
        timing = found[method]
        proof = timing.result.certificate
        met = timing.seconds <= 25 and used <= 3e9 and proof.loss_error <= 1e-11
        note = f"25 s, 3 GB, 1e-11: {'met' if met else 'MISSED'}; rank {proof.rank}; {proof.method}"
        ratio = timing.seconds / found["D'D"].seconds
        report.karat(
            "covtype",
            timing,
            f"karat, method={method}",
            memory=used,
            ratio=ratio,
            of="D'D",
            note=note,
        )
