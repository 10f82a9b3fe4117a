"""How well the moments of the data fit a model, in numbers and in words."""

from __future__ import annotations

import sys
import warnings
from dataclasses import asdict, dataclass
from typing import Any

from karat.core.wording import notebook_box
from karat.errors import plural, several
from karat.models.misfit import Check

# |cosine| of whitened components beyond which the data are not of the model, or too few
SLANTED = 0.2
NOISE = 5.0  # what sampling noise adds to that, times the square root of the number of samples
FLAT = 0.7  # ratio of neighbours in the spectrum above which no gap is seen
# ratio of eigenvalues beyond which the components are hardly seen in some direction
STRETCHED = 1e4


class RecoveryWarning(UserWarning):
    """The moments do not look like those of the model."""


def warn_recovery(message: str) -> None:
    """Warn, at the line of the user's code that led here."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("karat."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RecoveryWarning, stacklevel=level)


@dataclass(frozen=True)
class Recovery:
    """How far the data are from an exact model, and how much an error of the moments is magnified.

    Attributes
    ----------
    spectrum : tuple of float
        The largest eigenvalues of the second-moment matrix (for chains and views, singular values
        of E x1 x3'), and the next.
    eigen_gap : float
        ``(e_k - e_(k+1)) / e_1``: how clearly the second moments show k components.
    whitening_condition : float
        ``e_1 / e_k``.
    effective_rank : float
        ``(sum e)^2 / sum e^2`` of the k eigenvalues: k if they are equal, less if few of them
        dominate.
    tensor_residual : float
        ``|T - sum_j lambda_j v_j (x) .. (x) v_j| / |T|``: 0 for an exact model.
    off_diagonal : float
        Largest ``|v_i . v_j|``, i != j: 0 for an exact model.
    tensor_condition : float
        By how much the eigenvectors magnify a relative error of T.
    converged : bool
        Whether every component converged.
    refined : bool
        Whether the components are fixed points of T itself (else of its deflations).
    iterations : int
        Power steps in all.
    leading : int
        How many entries of the spectrum belong to the components: k, or k - 1 about the mean.
    order : int
        Order of the tensor.
    samples : float
        Number of samples.
    checks : tuple of Check
        Comparisons of the data with the model (``karat.models.misfit``); fewer from a coreset,
        whose rows are no sample.
    notes : tuple of str
        Signs that the data are too few.
    impossible : tuple of str
        Estimates that no model has, beyond sampling noise, and what was done about them.
    """

    spectrum: tuple[float, ...]
    eigen_gap: float
    whitening_condition: float
    effective_rank: float
    tensor_residual: float
    off_diagonal: float
    tensor_condition: float
    converged: bool
    refined: bool
    iterations: int
    leading: int = 0
    order: int = 3
    samples: float = float("inf")
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    impossible: tuple[str, ...] = ()

    @property
    def condition(self) -> float:
        """By how much the parameters magnify a relative error of the moments."""
        return self.tensor_condition * max(
            self.whitening_condition, 1.0 / max(self.eigen_gap, 1e-12)
        )

    def to_dict(self) -> dict[str, Any]:
        """All fields, and ``condition``, for JSON."""
        return asdict(self) | {"condition": self.condition}

    @property
    def fits(self) -> bool:
        """Whether no check speaks against the model, nor for fewer components."""
        return not (self.misfits or self.shortages("component", self.leading))

    @property
    def tested(self) -> bool:
        """Whether anything was compared with the model."""
        return any(check.tested and not check.shortage for check in self.checks)

    @property
    def misfits(self) -> list[str]:
        """The checks that speak against the model, in words."""
        return [str(check) for check in self.checks if not check.ok and not check.shortage]

    def shortages(self, part: str, k: int) -> list[str]:
        """Signs that the moments do not determine k components, in words."""
        signs = [*self.notes, *self.impossible] + (
            [] if self.converged else ["a component did not converge"]
        )
        these, parts = several(k, part), plural(part)
        e, last = self.spectrum, self.leading
        tested = any(check.name == "rank" and check.tested for check in self.checks)
        if not tested and 0 < last < len(e) and e[last] > FLAT * e[last - 1]:
            signs.append(
                f"the second moments do not show {these}: eigenvalue {last} is"
                f" {e[last - 1]:.3g}, the next {e[last]:.3g}"
            )
        if self.order == 3 and self.whitening_condition > STRETCHED:
            signs.append(
                f"the {parts} are {self.whitening_condition:.1e} times more spread in one direction"
                f" than in another (effective rank {self.effective_rank:.2g} of {last}); if the"
                " columns have different units, standardise them"
            )
        if self.tensor_residual > 0.5:
            signs.append(f"{self.tensor_residual:.0%} of the tensor is not explained by {these}")
        elif self.off_diagonal > SLANTED + NOISE / max(self.samples, 1.0) ** 0.5:
            signs.append(
                f"the whitened {parts} are not at right angles (cosine {self.off_diagonal:.2g}), as"
                " a model's are"
            )
        elif not self.refined and self.tensor_residual > SLANTED:
            signs.append(
                f"the {parts} found one by one are not stable on the whole tensor (residual"
                f" {self.tensor_residual:.2g})"
            )
        return signs + [str(check) for check in self.checks if not check.ok and check.shortage]

    def verdict(
        self, part: str, k: int, instead: str = "other models", done: str = ""
    ) -> str | None:
        """One sentence, or None if nothing speaks against the model: that it does not fit, if a
        check says so; else that the data are too few; and which of both is not known if nothing
        could be compared, or estimates are none of a model.  ``instead``: what may serve better;
        ``done``: what was done about it.
        """
        misfits, shortages = self.misfits, self.shortages(part, k)
        these, parts = several(k, part), plural(part)
        if misfits:
            return (
                f"The model does not fit: {'; '.join(misfits + shortages)}."
                f" {done or f'Compare other numbers of {parts} and {instead}.'}"
            )
        if not shortages:
            return None
        tested = self.tested or any(check.shortage and not check.ok for check in self.checks)
        if tested and not self.impossible:
            return (
                f"Too little data for {these}: {'; '.join(shortages)}. Ask for fewer {parts},"
                f" or give more data.{' ' * bool(done)}{done}"
            )
        return (
            f"The data are too few for {these}, or not of this model"
            f"{'' if tested else ' (nothing could be tested)'}: {'; '.join(shortages)}."
            f" {done or f'Compare other numbers of {parts} and {instead}.'}"
        )

    def _measures(self) -> dict[str, str]:
        return {
            "eigen-gap": f"{self.eigen_gap:.2g}",
            "whitening condition": f"{self.whitening_condition:.2g}",
            "effective rank": f"{self.effective_rank:.3g}",
            "tensor residual": f"{self.tensor_residual:.2g}",
            "off-diagonal": f"{self.off_diagonal:.2g}",
            "condition": f"{self.condition:.2g}",
        }

    def _repr_html_(self) -> str:
        facts = self._measures() | {"converged": "yes" if self.converged else "NO"}
        facts |= {check.name: check.result for check in self.checks}
        return notebook_box("Recovery", facts)

    def __str__(self) -> str:
        measures = ", ".join(f"{name} {value}" for name, value in self._measures().items())
        checks = "".join(f"; {check.name}: {check.result}" for check in self.checks)
        return f"{measures}, {'converged' if self.converged else 'NOT converged'}{checks}"
