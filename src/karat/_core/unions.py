"""What the rows of several coresets inherit from their certificates.

certify_union(certificate, parts)       of a coreset of kept rows: its own error, and those of the parts
union_certificate(certificates)         of kept rows put together as they are: the worst of each error
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from karat._core.certify import Certificate
from karat.engine.tolerances import ROUNDING
from karat.problems import Problem


class Part(Protocol):
    """A coreset, or a cell of a cube, whose kept rows are reduced together with others."""

    @property
    def certificate(self) -> Certificate: ...
    @property
    def problem(self) -> Problem: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def absorbed(self) -> Any: ...


def inherited_error(parts: Sequence[Part]) -> float:
    """What a coreset of kept rows inherits of the loss errors of its parts.

    Each is relative to a loss that is smaller than that of the union.  With a correction each of them is relative to a loss
    that has the regulariser in it, so that they add up.
    """
    errors = [core.certificate.loss_error for core in parts]
    return sum(errors) if any(core.absorbed for core in parts) else max(errors)


def certify_union(fresh: Certificate, parts: Sequence[Part], notes: Sequence[str]) -> Certificate:
    """The certificate of a coreset of kept rows, with what it inherits from the reductions of its parts."""
    proofs = [core.certificate for core in parts]
    inherited = inherited_error(parts)
    spent = fresh.spent + max(proof.spent for proof in proofs)
    return replace(
        fresh,
        loss_error=fresh.loss_error + inherited,
        remainder=max(fresh.remainder, *(proof.remainder for proof in proofs)),
        refuted=fresh.refuted or any(proof.refuted for proof in proofs),
        spread=max(fresh.spread, *(proof.spread for proof in proofs)),
        standard_errors=None,
        rounding=ROUNDING * spent,
        spent=spent,
        notes=tuple(notes),
        levels=0,  # those of kept rows are not those of the data
        proof_version=min(fresh.proof_version, *(proof.proof_version for proof in proofs)),
    )


def union_certificate(parts: Sequence[Certificate], problem: Problem) -> Certificate:
    """The certificate of kept rows of several coresets put together as they are: as exact as the least exact of them."""
    if len(parts) == 1:
        return parts[0]
    return replace(
        max(parts, key=lambda part: part.loss_error),
        rounding=max(part.rounding for part in parts),
        spent=max(part.spent for part in parts),
        remainder=max(part.remainder for part in parts),
        moment_error=max(part.moment_error for part in parts),
        total_error=max(part.total_error for part in parts),
        condition=max(part.condition for part in parts),
        inflation=max(part.inflation for part in parts),
        rank=sum(part.rank for part in parts),
        size=sum(part.size for part in parts),
        bound=sum(part.bound for part in parts),
        peeled=sum(part.peeled for part in parts),
        excluded_directions=tuple(size for part in parts for size in part.excluded_directions),
        method=" and ".join(sorted({part.method for part in parts})),
        passes=max(part.passes for part in parts),
        seconds=sum(part.seconds for part in parts),
        n_rows=sum(part.n_rows for part in parts),
        power=max(part.power for part in parts),
        in_columns=any(part.in_columns for part in parts),
        keeps=next((part.keeps for part in parts if part.keeps != problem.keeps), problem.keeps),
        standard_errors=None,
        spread=max(part.spread for part in parts),
        levels=0,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        proof_version=min(part.proof_version for part in parts),
        refuted=any(part.refuted for part in parts),
    )
