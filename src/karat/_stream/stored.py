"""Whether the header and the arrays of a stored sketch go together: asked before, and while, it is restored.

All functions raise inside :func:`karat._storage.damage.reading`, which says which file it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from karat._core.certify import PROOF_VERSION
from karat._storage.damage import require
from karat._storage.members import Spec
from karat._stream.summary import Summary, weighed
from karat.engine.stream import Running, prove_held
from karat.errors import InputError

RUNNING = re.compile(r"running_(\d+)_(pilot|weights|debts|(high|low)_(\d+))")
FAR = 1e-6  # the moments of the rows held agree to about 1e-13, or, where a direction all but vanishes, the losses do
BESIDE = ("first:", "second:", "sums:", "maps:", "digest:")  # what a run over files stores beside its sketch
WHOLE = {"n_rows": 0, "_columns": 0, "_targets": 0, "_folds": 0, "random_state": 0, "buffer_rows": 1, "buffer_bytes": 1}


def require_current(header: dict[str, Any]) -> None:
    """Refuse the sums of another version of the proof: what they were rounded by is not known."""
    version, extra = header.get("proof_version", 1), header.get("extra")  # 0.1.0 did not say
    run = isinstance(extra, dict) and "call" in extra  # of coreset_files
    if version == PROOF_VERSION or not (run or header.get("sketch")):
        return
    require(type(version) is int, "its proof has no version")
    what, remedy = "sketch", "Feed the rows to a new sketch."
    if run:
        what, remedy = "checkpoint", "Delete the file, or pass another as checkpoint, and run again."
    age = "an older" if version < PROOF_VERSION else "a newer"
    raise InputError(f"The {what} was made by {age} version of the proof, so it cannot go on: start again.", remedy)


def admit(header: dict[str, Any], specs: Mapping[str, Spec]) -> None:
    """Raise unless these are the arrays of the sketch that a header speaks of, with one entry for each row held."""
    require_current(header)
    parts = header.get("parts", 0)
    require(type(parts) is int and 0 <= parts <= len(specs), f"{parts!r} tables")
    held = {f"part_{i}" for i in range(parts)} | ({"numbers", "weights", "groups", "keys", "peeled"} if parts else set())
    running = header.get("running", [])
    require("peeled" in specs or not parts, "it does not say which rows are peeled")
    for name, spec in specs.items():
        found = RUNNING.fullmatch(name)
        if found is not None:
            require(int(found[1]) < len(running), f"sums {name!r} of no group")
            require(spec.dtype == np.float64, f"{name!r} is not of numbers")
            require(found[4] is None or int(found[4]) < running[int(found[1])]["sums"], f"sums {name!r} of no moment")
        elif name in held:
            require(spec.shape[:1] == specs["numbers"].shape, f"{name!r} is not of the rows held")
        else:
            known = name in ("seen_hashes", "seen_keys", "labels") or name.startswith(BESIDE)
            require(known, f"it holds an array {name[:60]!r} that does not belong to it")


def check_header(header: dict[str, Any]) -> None:
    """Raise unless the numbers of a header are numbers."""
    for name, least in WHOLE.items():
        require(type(header[name]) is int and least <= header[name] < 2**63, f"{name} = {str(header[name])[:40]}")
    require(type(header["_seconds"]) in (int, float), "its time is not a number")
    require(header["key"] is None or type(header["key"]) in (str, int), "its key is not a column")
    require(header["_like"] is None or type(header["_like"]["container"]) is str, "rows of no kind")
    require(all(isinstance(name, str) for name in [*header["_names"], *header["sources"]]), "names that are no text")
    require(type(header["mass"]) in (int, float) and 0 <= header["mass"] < np.inf, "its total weight is not a number")


def check_held(summary: Summary) -> None:
    """Raise unless the rows held are rows that a stream can hold."""
    held = summary.held
    assert held is not None
    weights, numbers = held.weights, held.numbers
    require(weights is not None and weights.dtype == np.float64 and weights.shape == numbers.shape, "weights of another shape")
    assert weights is not None
    require(bool(len(weights) and np.isfinite(weights).all() and (weights > 0).all()), "a weight is not a positive number")
    require(numbers.dtype == np.int64 and bool((np.diff(numbers) > 0).all()), "the rows held are not in order")
    require(bool(numbers[0] >= 0 and numbers[-1] < summary.n_rows), "a row held is not one of those seen")
    require(summary.peeled.dtype == bool and summary.peeled.shape == weights.shape, "peeled rows of another number")
    require(all(len(part.shape) == 2 and part.dtype.kind in "biuf" for part in held.parts), "rows that are not numbers")
    columns = sum(part.shape[1] for part in held.parts)
    require(columns == summary.columns + summary.targets, f"{columns} columns where there were others")


@np.errstate(all="ignore")  # the sums of a damaged file may be anything
def check_running(summary: Summary, label: Any) -> None:
    """Raise unless the running sums of a group have the shapes of what a row adds to them."""
    running = summary.running[label]
    rows, peeled = summary.held_rows(label)
    summed = rows.subset(np.flatnonzero(~peeled)) if 0 < peeled.sum() < len(peeled) else rows  # peeled rows are in no sum
    fresh = Running.within(running.kernel, *weighed(summed))
    for sums in (running.high, running.low):
        require([part.shape for part in sums] == [part.shape for part in fresh.high], "sums of another shape")
        require(all(bool(np.isfinite(part).all()) for part in sums), "sums that are not finite")
    linear, debts = running.linear, running.debts
    if debts is not None:
        columns = len(running.kernel.shift)
        require(linear is not None and debts.ndim == 2 and debts.shape[1] == columns + linear.kernel.width, "other debts")
        require(bool(np.isfinite(debts).all() and (debts[:, columns:] >= 0).all()), "debts that are not positive")
    require(running.total >= 0, "a negative total weight")
    require(bool((running.weights > 0).all() and np.isfinite(running.pilot).all()), "coordinates of impossible rows")
    if running.fitted_moments().needs_pass:  # sums that cannot be compared with those of rows, but in size
        sizes = [(np.linalg.norm(one), np.linalg.norm(other)) for one, other in zip(running.high, fresh.high, strict=True)]
        alike = all(one <= 2 * other and other <= 2 * one for one, other in sizes)
        require(alike or bool(peeled.all()), "sums that the rows held do not have")
        return
    found = prove_held(rows, peeled, summary.kernel, running)
    require(
        min(found.proof.moment_error, found.proof.loss_error) <= FAR, "the rows held do not have the moments that were summed"
    )
