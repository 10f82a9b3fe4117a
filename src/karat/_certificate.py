"""The certificate: what was kept, to what error, at what size against which bound; and what is not kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from karat.engine.linalg import EPS


@dataclass(frozen=True)
class Certificate:
    """Proof of a coreset, measured against the moments of all rows.

    Attributes
    ----------
    loss_error : float
        Supremum over every query of ``|f_c - f| / sum_i u_i |f_i|``: exact for degree 2 (generalised eigenvalues), a proven
        bound else (for latent-variable problems with the sum estimated from a sample of the rows); what rounding may do to the
        sums and to the coordinates (``eps * condition``) is added in.
    moment_error : float
        Largest relative error of a kernel moment.
    total_error : float
        Relative error of the total weight.
    rank : int
        Numerical rank of the kernel features: no exact coreset of generic data is smaller.
    size : int
        Rows kept.
    bound : int
        What the theory allows: the number of kernel features.
    condition : float
        By how much the coordinates magnify the rounding of the data.
    spectrum : float
        Smallest singular value of the kernel features that counts as non-zero, relative to the largest.
    excluded_directions : tuple of float
        Relative norms of directions that the rank decision took for zero; queries along them are not covered.
    method : str
        The way that led to the coreset.
    passes : int
        Passes over all rows.
    seconds : float
        Wall time, from the raw input.
    keeps : str
        What is kept.
    excludes : tuple of str
        What is not.
    n_rows : int
        Rows that the coreset stands for.
    notes : tuple of str
        Anything else worth knowing.
    refuted : bool
        Whether a fact other than a moment speaks against it, such as kept rows that are not rows of the data.
    """

    loss_error: float
    moment_error: float
    total_error: float
    rank: int
    size: int
    bound: int
    condition: float
    spectrum: float
    excluded_directions: tuple[float, ...]
    method: str
    passes: int
    seconds: float
    keeps: str
    excludes: tuple[str, ...]
    n_rows: int
    notes: tuple[str, ...] = field(default=())
    refuted: bool = False

    @property
    def tolerance(self) -> float:
        """The error up to which a coreset counts as exact: 1e-10, more only where the data itself is that ill-conditioned.

        Rounding the data moves the loss by ``eps * condition``; features that almost vanish (columns that are collinear but
        for a few rows, heavy tails) magnify it by ``1 / spectrum``, of which no more than 1e-8 is accepted.
        """
        return max(1e-10, 100 * EPS * self.condition, min(1e-8, 100 * EPS / self.spectrum))

    @property
    def ok(self) -> bool:
        """Whether the coreset is exact."""
        return bool(self.loss_error <= self.tolerance and not self.refuted)

    def to_dict(self) -> dict[str, Any]:
        """All fields, and ``ok``, for JSON."""
        return asdict(self) | {"ok": self.ok}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Certificate:
        """The certificate that :meth:`to_dict` wrote."""
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items() if k != "ok"}
        return Certificate(**values)

    def __str__(self) -> str:
        verdict = "exact" if self.ok else "NOT exact"
        text = (
            f"{self.size:,} of {self.n_rows:,} rows, {verdict}: the worst relative loss error over every query is "
            f"{self.loss_error:.1e} (rank {self.rank}, bound {self.bound}, condition {self.condition:.1e}, {self.method}, "
            f"{self.passes} pass{'es' if self.passes != 1 else ''}, {self.seconds:.3g} s). Kept: {self.keeps}. "
            f"Not kept: {', '.join(self.excludes)}."
        )
        if self.excluded_directions:
            text += (
                f" {len(self.excluded_directions)} direction(s) of the columns vanish to rounding "
                f"(largest relative norm {max(self.excluded_directions):.0e})."
            )
        return " ".join([text, *self.notes])
