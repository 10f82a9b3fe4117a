"""Checkpoints of a sketch: everything it needs to go on as if it had never stopped."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from karat._core.files import problem_header, saved_problem
from karat._data.batch import Batch
from karat._storage.archive import Stored
from karat._storage.damage import reading, require
from karat._stream.fingerprint import Fingerprint
from karat._stream.sketch import Sketch
from karat._stream.stored import check_header, check_held, check_running, require_current
from karat._stream.summary import Summary
from karat.engine.claim import PROOF_VERSION, Claim
from karat.engine.proof import Proof
from karat.engine.reduce import Reduction
from karat.engine.rows import own_weights
from karat.engine.stream import Running
from karat.errors import DamagedFileError, InputError, NotExactError
from karat.problems import Problem

UNDERSCORED = ("like", "names", "columns", "targets", "folds", "seconds")  # so they are called in files
SUMMARY = {"n_rows": "n_rows"} | {name: f"_{name}" for name in UNDERSCORED}
FLAGS = {"used": "used", "gap": "held_error", "hard": "needs_tree"}  # by their names in files
SUMMED, REDUCED = ("inherited", "spent", "inflation"), ("inherited", "before", "inflation")  # names of a claim in files
PROVEN = ("rank", "method", "passes", "spread", "levels")


def state_of(sketch: Sketch, extra: dict[str, Any] | None) -> Stored:
    """A sketch without waiting rows as a header and arrays; ``extra`` (for JSON) is stored under its name."""
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
    held = summary.held
    if held is not None:
        header["parts"] = len(held.parts)
        arrays |= {f"part_{i}": p.toarray() if sparse.issparse(p) else p for i, p in enumerate(held.parts)}
        arrays |= {name: getattr(held, name) for name in ("numbers", "weights", "groups", "keys")} | {"peeled": summary.peeled}
    if summary.fingerprint is not None:
        arrays |= {"seen_hashes": summary.fingerprint.hashes, "seen_keys": summary.fingerprint.keys}
    if held is not None and held.groups is not None:
        arrays["labels"] = np.array(list(summary.running))
    header["running"] = []
    for i, (label, running) in enumerate(summary.running.items()):
        found = summary.reduction(label)
        proof = {name: getattr(found, name) for name in PROVEN} | {"proof": asdict(found.proof)}
        header["running"].append(
            {name: getattr(running, field) for name, field in FLAGS.items()}
            | _claim_header(running.inherited, SUMMED)
            | {"sums": len(running.high), "found": proof | _claim_header(found.inherited, REDUCED)}
        )
        arrays |= {f"running_{i}_{name}": getattr(running, name) for name in ("pilot", "weights", "debts")}
        arrays |= {f"running_{i}_high_{j}": part for j, part in enumerate(running.high)}
        arrays |= {f"running_{i}_low_{j}": part for j, part in enumerate(running.low)}
    return header, arrays


def restored(header: dict[str, Any], arrays: dict[str, Any], name: str, problem: Problem | None) -> Sketch:
    """The sketch of :func:`state_of`; ``name`` is what an error message calls it."""
    if not header.get("sketch"):
        raise DamagedFileError(f"{name} is not a checkpoint of a sketch; a coreset is read by karat.load.")
    with reading(name, "a checkpoint"):
        require_current(header)
        known = saved_problem(header, name, problem)
        try:
            return _restored(header, arrays, known)
        except (InputError, NotExactError) as error:
            raise DamagedFileError(f"{name} is damaged, or not a checkpoint of this problem ({error})") from error


def _restored(header: dict[str, Any], arrays: dict[str, Any], problem: Problem) -> Sketch:
    check_header(header)
    sketch = Sketch(
        problem, header["key"], random_state=header["random_state"], buffer_rows=header["buffer_rows"],
        buffer_bytes=header["buffer_bytes"],
    )  # fmt: skip
    sketch.is_open = bool(header.get("open", False)) and "parts" not in header
    summary = sketch.summary
    summary.mass = header["mass"]
    for name, stored in SUMMARY.items():
        setattr(summary, name, header[stored])
    summary.sources = set(header["sources"])
    if "seen_hashes" in arrays:
        summary.fingerprint = Fingerprint(arrays["seen_hashes"], arrays["seen_keys"])
    if "parts" in header:
        summary.offsets = {int(column): offset for column, offset in (header["offsets"] or {}).items()}
        parts: list[Any] = [arrays[f"part_{i}"] for i in range(header["parts"])]
        if header["_like"]["container"] == "sparse":
            parts[0] = sparse.csr_array(parts[0])
        summary.held = Batch(
            parts, arrays["numbers"], arrays["weights"], arrays.get("groups"), arrays.get("keys"), summary.offsets
        )
        summary.peeled = arrays["peeled"]
        check_held(summary)
    labels = list(arrays["labels"]) if "labels" in arrays else [None]
    for i, (label, saved) in enumerate(zip(labels, header["running"], strict=summary.held is not None)):
        pilot, weights = arrays[f"running_{i}_pilot"], arrays[f"running_{i}_weights"]
        high, low = (tuple(arrays[f"running_{i}_{name}_{j}"] for j in range(saved["sums"])) for name in ("high", "low"))
        require(all(isinstance(saved[name], int | float) for name in (*FLAGS, *SUMMED)), "a claim that is not a number")
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
    known = {name: saved[name] for name in PROVEN} | {"inherited": Claim(*(saved[name] for name in REDUCED))}
    return Reduction(everything, own_weights(rows, everything), fitted, proof=proof, peeled=peeled, **known)


def _claim_header(claim: Claim, names: tuple[str, ...]) -> dict[str, float]:
    return dict(zip(names, (claim.loss_error, claim.spent, claim.inflation), strict=True))
