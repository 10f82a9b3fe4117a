"""Checkpoints of a sketch: everything it needs to continue as if it had never stopped.

The types and shapes of the header and the arrays are checked before, and while, a sketch is
restored.  Their digest shows that they are what was written, so nothing is summed or proven again.
All checks raise inside :func:`karat.errors.reading`, whose error names the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from karat.core.files import problem_header, saved_problem
from karat.core.synthetic import REAL, SYNTHETIC
from karat.data.batch import Batch
from karat.engine.carried import Running
from karat.engine.claim import Claim, Proof, Reduction
from karat.engine.rows import own_weights
from karat.engine.tolerances import PROOF_VERSION
from karat.errors import DamagedFileError, InputError, NotExactError, reading, require
from karat.problems import Problem
from karat.storage.archive import NEWEST_FORMAT, Spec, Stored
from karat.stream.made import MadeSummary, restore_streams, stream_array_names, stream_state
from karat.stream.merge import Fingerprint
from karat.stream.summary import Summary, dense_with_weights

if TYPE_CHECKING:
    from karat.stream.sketch import Sketch

RUNNING = re.compile(r"running_(\d+)_(pilot|weights|debts|(high|low)_(\d+))")
# prefixes of the other arrays in a checkpoint of karat.coreset_files
BESIDE = ("first:", "second:", "sums:", "maps:", "digest:")
WHOLE = {
    "n_rows": 0,
    "_columns": 0,
    "_targets": 0,
    "_folds": 0,
    "random_state": 0,
    "buffer_rows": 1,
    "buffer_bytes": 1,
}
# fields of a summary that have an underscore in files
UNDERSCORED = ("like", "names", "columns", "targets", "folds", "seconds")
SUMMARY = {"n_rows": "n_rows"} | {name: f"_{name}" for name in UNDERSCORED}
FLAGS = {"used": "used", "gap": "held_error", "hard": "needs_tree"}  # by their names in files
# names of a claim in files
SUMMED, REDUCED = ("inherited", "spent", "inflation"), ("inherited", "before", "inflation")
PROVEN = ("rank", "method", "passes", "spread", "levels")


def require_current(header: dict[str, Any]) -> None:
    """Raise if the sums are from another version of the proof, whose rounding is not known."""
    # first passes of 0.2.0 do not say
    version, extra = header.get("proof_version", 1), header.get("extra")
    run = isinstance(extra, dict) and "call" in extra  # of coreset_files
    if version == PROOF_VERSION or not (run or header.get("sketch")):
        return
    require(type(version) is int, "its proof has no version")
    subject, remedy = "sketch", "Feed the rows to a new sketch."
    if run:
        subject, remedy = (
            "checkpoint",
            "Delete the file, or pass another as checkpoint, and run again.",
        )
    age = "an older" if version < PROOF_VERSION else "a newer"
    raise InputError(
        f"The {subject} was made by {age} version of the proof, so it cannot continue.",
        remedy,
    )


def validate_schema(header: dict[str, Any], specs: Mapping[str, Spec]) -> None:
    """Raise unless the arrays are those of the header, with one entry for each row held."""
    require_current(header)
    parts = header.get("parts", 0)
    require(type(parts) is int and 0 <= parts <= len(specs), f"{parts!r} tables")
    held = {f"part_{i}" for i in range(parts)} | (
        {"numbers", "weights", "groups", "keys", "peeled"} if parts else set()
    )
    running = header.get("running", [])
    of_streams = stream_array_names(header, specs) if "streams" in header else set()
    for name, spec in specs.items():
        match = RUNNING.fullmatch(name)
        if name in of_streams:
            continue
        if match is not None:
            require(int(match[1]) < len(running), f"sums {name!r} of no group")
            require(spec.dtype == np.float64, f"{name!r} is not of numbers")
            require(
                match[4] is None or int(match[4]) < running[int(match[1])]["sums"],
                f"sums {name!r} of no moment",
            )
        elif name in held:
            require(spec.shape[:1] == specs["numbers"].shape, f"{name!r} is not of the rows held")
        else:
            expected = name in ("seen_hashes", "seen_keys", "labels") or name.startswith(BESIDE)
            require(expected, f"it holds an array {name[:60]!r} that does not belong to it")


def check_header(header: dict[str, Any]) -> None:
    """Raise unless the numbers of a header are numbers."""
    for name, least in WHOLE.items():
        require(
            type(header[name]) is int and least <= header[name] < 2**63,
            f"{name} = {str(header[name])[:40]}",
        )
    require(type(header["_seconds"]) in (int, float), "its time is not a number")
    require(header["key"] is None or type(header["key"]) in (str, int), "its key is not a column")
    require(header["_like"] is None or type(header["_like"]["container"]) is str, "rows of no kind")
    require(
        all(isinstance(name, str) for name in [*header["_names"], *header["sources"]]),
        "names that are no text",
    )
    require(
        type(header["mass"]) in (int, float) and 0 <= header["mass"] < np.inf,
        "its total weight is not a number",
    )


def check_held(summary: Summary) -> None:
    """Raise unless the rows held are numbers in order, with positive weights."""
    held = summary.held
    assert held is not None
    weights, numbers = held.weights, held.numbers
    assert weights is not None
    types = [str(array.dtype) for array in (weights, numbers, summary.peeled)]
    require(types == ["float64", "int64", "bool"], "rows held of another type")
    require(weights.shape == summary.peeled.shape == numbers.shape, "weights of another shape")
    require(
        bool(len(weights) and np.isfinite(weights).all() and (weights > 0).all()),
        "a weight is not a positive number",
    )
    inside = numbers[0] >= 0 and numbers[-1] < summary.n_rows and (np.diff(numbers) > 0).all()
    require(bool(inside), "a row held is not one of those seen")
    require(
        all(len(part.shape) == 2 and part.dtype.kind in "biuf" for part in held.parts),
        "rows that are not numbers",
    )
    columns = sum(part.shape[1] for part in held.parts)
    require(
        columns == summary.columns + summary.targets, f"{columns} columns where there were others"
    )


@np.errstate(all="ignore")  # the sums of a hostile file may be anything
def check_running(summary: Summary, label: Any) -> None:
    """Raise unless the running sums of a group have the shapes of what a row adds to them."""
    running = summary.running[label]
    rows, _ = summary.held_rows(label)
    shapes = [
        part.shape
        for part in Running.within(
            running.kernel, *dense_with_weights(rows.subset(np.arange(1)))
        ).high
    ]
    require(
        all([part.shape for part in sums] == shapes for sums in (running.high, running.low)),
        "sums of another shape",
    )
    linear, debts = running.linear, running.debts
    if debts is not None:
        columns = len(running.kernel.shift)
        require(
            linear is not None
            and debts.ndim == 2
            and debts.shape[1] == columns + linear.kernel.width,
            "other debts",
        )


def state_of(sketch: Sketch, extra: dict[str, Any] | None) -> Stored:
    """A sketch with an empty buffer as a header and arrays; ``extra`` is added to the header."""
    summary = sketch.summary
    arrays: dict[str, Any] = {}
    header: dict[str, Any] = {
        "key": sketch.key,
        "random_state": sketch.random_state,
        "buffer_rows": sketch.buffer.most_rows,
        "buffer_bytes": sketch.buffer.most_bytes,
    }
    header |= {stored: getattr(summary, name) for name, stored in SUMMARY.items()}
    header |= problem_header(sketch.problem) | {
        "sources": sorted(summary.sources),
        "offsets": summary.offsets,
        "proof_version": PROOF_VERSION,
        "mass": summary.mass,
        "extra": extra or {},
        "open": sketch.is_open,
        "sketch": True,
    }
    if isinstance(summary, MadeSummary):
        header |= {"rows": sketch.rows, "verbatim": sketch.verbatim, "running": []}
        more, arrays = stream_state(summary)
        if summary.fingerprint is not None:
            arrays["seen_hashes"] = summary.fingerprint.hashes
        return header | more | {"format_version": NEWEST_FORMAT}, arrays
    held = summary.held
    if held is not None:
        header["parts"] = len(held.parts)
        arrays |= {
            f"part_{i}": p.toarray() if sparse.issparse(p) else p for i, p in enumerate(held.parts)
        }
        arrays |= {
            name: getattr(held, name) for name in ("numbers", "weights", "groups", "keys")
        } | {"peeled": summary.peeled}
    if summary.fingerprint is not None:
        arrays |= {"seen_hashes": summary.fingerprint.hashes, "seen_keys": summary.fingerprint.keys}
    if held is not None and held.groups is not None:
        arrays["labels"] = np.array(list(summary.running))
    header["running"] = []
    for i, (label, running) in enumerate(summary.running.items()):
        reduction = summary.reduction(label)
        proof = {name: getattr(reduction, name) for name in PROVEN} | {
            "proof": asdict(reduction.proof)
        }
        header["running"].append(
            {name: getattr(running, field) for name, field in FLAGS.items()}
            | _claim_header(running.inherited, SUMMED)
            | {
                "sums": len(running.high),
                "found": proof | _claim_header(reduction.inherited, REDUCED),
            }
        )
        arrays |= {
            f"running_{i}_{name}": getattr(running, name) for name in ("pilot", "weights", "debts")
        }
        arrays |= {f"running_{i}_high_{j}": part for j, part in enumerate(running.high)}
        arrays |= {f"running_{i}_low_{j}": part for j, part in enumerate(running.low)}
    return header, arrays


def restored(
    kind: type[Sketch],
    header: dict[str, Any],
    arrays: dict[str, Any],
    name: str,
    problem: Problem | None,
) -> Sketch:
    """The sketch of :func:`state_of`, of class ``kind``; error messages call it ``name``."""
    if not header.get("sketch"):
        raise DamagedFileError(
            f"{name} is not a checkpoint of a sketch; read a coreset with karat.load."
        )
    with reading(name, "a checkpoint"):
        require_current(header)
        saved = saved_problem(header, name, problem)
        try:
            return _restored(kind, header, arrays, saved)
        except (InputError, NotExactError) as error:
            raise DamagedFileError(
                f"{name} is damaged, or not a checkpoint of this problem ({error})"
            ) from error


def _restored(
    kind: type[Sketch], header: dict[str, Any], arrays: dict[str, Any], problem: Problem
) -> Sketch:
    check_header(header)
    require(
        (header.get("rows", REAL) == SYNTHETIC) == ("streams" in header), "rows of another kind"
    )
    sketch = kind(
        problem, header["key"], random_state=header["random_state"],
        buffer_rows=header["buffer_rows"], buffer_bytes=header["buffer_bytes"],
        rows=header.get("rows", REAL), verbatim=header.get("verbatim", "keep"),
    )  # fmt: skip
    sketch.is_open = bool(header.get("open", False)) and "parts" not in header
    summary = sketch.summary
    summary.mass = header["mass"]
    for name, stored in SUMMARY.items():
        setattr(summary, name, header[stored])
    summary.sources = set(header["sources"])
    if "seen_hashes" in arrays:
        summary.fingerprint = Fingerprint(arrays["seen_hashes"], arrays.get("seen_keys"))
    if isinstance(summary, MadeSummary):
        restore_streams(summary, header, arrays)
        summary.taken = summary.folded = sum(stream.seen for stream in summary.streams.values())
        return sketch
    if "parts" in header:
        summary.offsets = {
            int(column): offset for column, offset in (header["offsets"] or {}).items()
        }
        parts: list[Any] = [arrays[f"part_{i}"] for i in range(header["parts"])]
        if header["_like"]["container"] == "sparse":
            parts[0] = sparse.csr_array(parts[0])
        summary.held = Batch(
            parts,
            arrays["numbers"],
            arrays["weights"],
            arrays.get("groups"),
            arrays.get("keys"),
            summary.offsets,
        )
        summary.peeled = arrays["peeled"]
        check_held(summary)
    labels = list(arrays["labels"]) if "labels" in arrays else [None]
    for i, (label, saved) in enumerate(
        zip(labels, header["running"], strict=summary.held is not None)
    ):
        pilot, weights = arrays[f"running_{i}_pilot"], arrays[f"running_{i}_weights"]
        high, low = (
            tuple(arrays[f"running_{i}_{name}_{j}"] for j in range(saved["sums"]))
            for name in ("high", "low")
        )
        require(
            all(isinstance(saved[name], int | float) for name in (*FLAGS, *SUMMED)),
            "a claim that is not a number",
        )
        summary.running[label] = Running(
            summary.kernel.prepare(pilot, weights),
            pilot,
            weights,
            high,
            low,
            Claim(*(saved[name] for name in SUMMED)),
            debts=arrays.get(f"running_{i}_debts"),
            **{field: saved[name] for name, field in FLAGS.items()},
        )
        check_running(summary, label)
        summary.reductions[label] = _proven(summary, label, saved["found"])
    return sketch


def _proven(summary: Summary, label: Any, saved: dict[str, Any]) -> Reduction:
    """The rows held of a group, with the proof that they had when they were saved."""
    rows, peeled = summary.held_rows(label)
    everything = np.arange(len(rows))
    proof = Proof(**saved["proof"] | {"excluded": tuple(saved["proof"]["excluded"])})
    fitted = summary.running[label].fitted_moments()
    stored_fields = {name: saved[name] for name in PROVEN} | {
        "inherited": Claim(*(saved[name] for name in REDUCED))
    }
    return Reduction(
        everything,
        own_weights(rows, everything),
        fitted,
        proof=proof,
        peeled=peeled,
        **stored_fields,
    )


def _claim_header(claim: Claim, names: tuple[str, ...]) -> dict[str, float]:
    return dict(zip(names, (claim.loss_error, claim.spent, claim.inflation), strict=True))
