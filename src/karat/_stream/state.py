"""Checkpoints of a sketch: everything it needs to go on as if it had never stopped."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from karat._core.files import problem_header, saved_problem
from karat._data.batch import Piece
from karat._storage.archive import pack, read_archive, unpack, write_archive
from karat._stream.fingerprint import Fingerprint
from karat._stream.sketch import Sketch, weighed
from karat.engine.kernel import Kernel
from karat.engine.proof import Proof
from karat.engine.reduce import Reduction
from karat.engine.stream import Running
from karat.errors import InputError
from karat.problems import Problem

PLAIN = (
    "key",
    "n_rows",
    "random_state",
    "buffer_rows",
    "buffer_bytes",
    "_like",
    "_names",
    "_columns",
    "_targets",
    "_folds",
    "_seconds",
)

FLAGS = ("inherited", "spent", "inflation", "gap", "used", "hard")
PROVEN = ("rank", "method", "passes", "inherited", "before", "inflation")


def save(sketch: Sketch, path: Path, extra: dict[str, Any] | None = None) -> None:
    """Write a sketch; ``extra`` (for JSON) comes back with :func:`load`."""
    write_archive(path, *state(sketch, extra))


def dump(sketch: Sketch, extra: dict[str, Any] | None = None) -> bytes:
    """The same as bytes that can travel."""
    return pack(*state(sketch, extra))


def load(path: Path, problem: Problem | None = None) -> tuple[Sketch, dict[str, Any]]:
    """The sketch, and what was written beside it."""
    return restored(*read_archive(path, "a checkpoint"), str(path), problem)


def parse(data: bytes, problem: Problem) -> tuple[Sketch, dict[str, Any]]:
    """The same from :func:`dump`."""
    return restored(*unpack(data, "The message", "a sketch"), "The message", problem)


def state(sketch: Sketch, extra: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    sketch._fold()
    arrays: dict[str, Any] = {}
    header: dict[str, Any] = {name: getattr(sketch, name) for name in PLAIN}
    header |= problem_header(sketch.problem) | {
        "sources": sorted(sketch._sources),
        "offsets": sketch._offsets,
        "proof_version": sketch._proof_version,
        "extra": extra or {},
        "sketch": True,
    }
    held = sketch._held
    if held is not None:
        header["parts"] = len(held.parts)
        arrays |= {f"part_{i}": p.toarray() if sparse.issparse(p) else p for i, p in enumerate(held.parts)}
        arrays |= {name: getattr(held, name) for name in ("numbers", "weights", "groups", "keys")} | {"peeled": sketch._peeled}
    if sketch._fingerprint is not None:
        arrays |= {"seen_hashes": sketch._fingerprint.hashes, "seen_keys": sketch._fingerprint.keys}
    if held is not None and held.groups is not None:
        arrays["labels"] = np.array(list(sketch._running))
    header["running"] = []
    for i, (label, running) in enumerate(sketch._running.items()):
        found = sketch._reduction(label)
        proof = {name: getattr(found, name) for name in PROVEN} | {"proof": asdict(found.proof)}
        header["running"].append({name: getattr(running, name) for name in FLAGS} | {"sums": len(running.high), "found": proof})
        arrays |= {f"running_{i}_{name}": getattr(running, name) for name in ("pilot", "weights", "evidence")}
        arrays |= {f"running_{i}_high_{j}": part for j, part in enumerate(running.high)}
        arrays |= {f"running_{i}_low_{j}": part for j, part in enumerate(running.low)}
    return header, arrays


def restored(
    header: dict[str, Any], arrays: dict[str, Any], name: str, problem: Problem | None
) -> tuple[Sketch, dict[str, Any]]:
    if not header.get("sketch"):
        raise InputError(f"{name} is not a checkpoint of a sketch; a coreset is read by karat.load.")
    sketch = Sketch(saved_problem(header, name, problem))
    for field in PLAIN:
        setattr(sketch, field, header[field])
    sketch._sources = set(header["sources"])
    if "parts" in header:  # version 0.1.0 knew no offsets
        sketch._offsets = {int(column): offset for column, offset in (header.get("offsets") or {}).items()}
    if "seen_hashes" in arrays:
        sketch._fingerprint = Fingerprint(arrays["seen_hashes"], arrays["seen_keys"])
    if "parts" in header:
        parts: list[Any] = [arrays[f"part_{i}"] for i in range(header["parts"])]
        if header["_like"]["container"] == "sparse":
            parts[0] = sparse.csr_array(parts[0])
        sketch._held = Piece(
            parts, arrays["numbers"], arrays["weights"], arrays.get("groups"), arrays.get("keys"), sketch._offsets
        )
        sketch._peeled = arrays.get("peeled", np.zeros(len(sketch._held), dtype=bool))
    sketch._proof_version = header.get("proof_version", 1)
    kernel = sketch.problem.kernel(sketch._columns, sketch._targets) if header["running"] else None
    labels = list(arrays["labels"]) if "labels" in arrays else [None]
    for i, (label, saved) in enumerate(zip(labels, header["running"], strict=False)):
        assert kernel is not None
        if sketch._proof_version == 1:  # its sums are in other coordinates: start again from the rows held
            sketch._running[label] = _from_held(sketch, label, kernel, saved["inherited"] + saved["gap"])
            continue
        pilot, weights = arrays[f"running_{i}_pilot"], arrays[f"running_{i}_weights"]
        high, low = (tuple(arrays[f"running_{i}_{name}_{j}"] for j in range(saved["sums"])) for name in ("high", "low"))
        fitted = Running.fit(kernel, pilot, weights)
        sketch._running[label] = Running(
            fitted,
            pilot,
            weights,
            high,
            low,
            evidence=arrays.get(f"running_{i}_evidence"),
            **{name: saved[name] for name in FLAGS},
        )
        sketch._reductions[label] = _proven(sketch, label, saved["found"])
    return sketch, header["extra"]


def _proven(sketch: Sketch, label: Any, saved: dict[str, Any]) -> Reduction:
    """The rows held of a group, with the proof that they had when they were saved."""
    held = sketch._held
    assert held is not None
    index = np.arange(len(held)) if label is None else np.flatnonzero(held.groups == label)
    assert held.weights is not None
    proof = Proof(**saved["proof"] | {"excluded": tuple(saved["proof"]["excluded"])})
    settled = sketch._running[label].settle()
    claim = {name: saved[name] for name in PROVEN}
    return Reduction(np.arange(len(index)), held.weights[index], settled, proof=proof, peeled=sketch._peeled[index], **claim)


def _from_held(sketch: Sketch, label: Any, kernel: Kernel, inherited: float) -> Running:
    """Running sums that begin with the rows held."""
    held = sketch._held
    assert held is not None
    index = None if label is None else np.flatnonzero(held.groups == label)
    started = Running.start(kernel, *weighed(sketch.problem.view(held.rows(index))))
    return replace(started, inherited=inherited, spent=1.0)
