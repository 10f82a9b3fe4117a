"""Whether the header and the arrays of a stored sketch are of their types and shapes: asked before, and while, it is restored.

A digest has shown that they are what was written, so nothing is summed or proven again.  All functions raise inside
:func:`karat._storage.damage.reading`, which says which file it is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from karat._storage.damage import require
from karat._storage.members import Spec
from karat._stream.summary import Summary, weighed
from karat.engine.claim import PROOF_VERSION
from karat.engine.stream import Running
from karat.errors import InputError

RUNNING = re.compile(r"running_(\d+)_(pilot|weights|debts|(high|low)_(\d+))")
BESIDE = ("first:", "second:", "sums:", "maps:", "digest:")  # what a run over files stores beside its sketch
WHOLE = {"n_rows": 0, "_columns": 0, "_targets": 0, "_folds": 0, "random_state": 0, "buffer_rows": 1, "buffer_bytes": 1}


def require_current(header: dict[str, Any]) -> None:
    """Refuse the sums of another version of the proof: what they were rounded by is not known."""
    version, extra = header.get("proof_version", 1), header.get("extra")  # first passes of 0.2.0 do not say
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
    """Raise unless the rows held are numbers in order, with positive weights."""
    held = summary.held
    assert held is not None
    weights, numbers = held.weights, held.numbers
    assert weights is not None
    types = [str(array.dtype) for array in (weights, numbers, summary.peeled)]
    require(types == ["float64", "int64", "bool"], "rows held of another type")
    require(weights.shape == summary.peeled.shape == numbers.shape, "weights of another shape")
    require(bool(len(weights) and np.isfinite(weights).all() and (weights > 0).all()), "a weight is not a positive number")
    inside = numbers[0] >= 0 and numbers[-1] < summary.n_rows and (np.diff(numbers) > 0).all()
    require(bool(inside), "a row held is not one of those seen")
    require(all(len(part.shape) == 2 and part.dtype.kind in "biuf" for part in held.parts), "rows that are not numbers")
    columns = sum(part.shape[1] for part in held.parts)
    require(columns == summary.columns + summary.targets, f"{columns} columns where there were others")


@np.errstate(all="ignore")  # the sums of a hostile file may be anything
def check_running(summary: Summary, label: Any) -> None:
    """Raise unless the running sums of a group have the shapes of what a row adds to them."""
    running = summary.running[label]
    rows, _ = summary.held_rows(label)
    shapes = [part.shape for part in Running.within(running.kernel, *weighed(rows.subset(np.arange(1)))).high]
    require(all([part.shape for part in sums] == shapes for sums in (running.high, running.low)), "sums of another shape")
    linear, debts = running.linear, running.debts
    if debts is not None:
        columns = len(running.kernel.shift)
        require(linear is not None and debts.ndim == 2 and debts.shape[1] == columns + linear.kernel.width, "other debts")
