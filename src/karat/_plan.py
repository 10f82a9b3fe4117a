"""Plan: what a coreset would cost, and which way ``method="auto"`` would take, before any data is read."""

from __future__ import annotations

from dataclasses import dataclass

from karat.engine.build import FIRST, PILOT, SECOND
from karat.engine.moments import block_rows
from karat.errors import InputError
from karat.problems import Problem

FLOPS = 4e10  # what one laptop core sustains in BLAS-3; seconds are an order of magnitude, not a promise
BYTES = 5e9  # memory bandwidth


@dataclass(frozen=True)
class Plan:
    """What to expect.

    Attributes
    ----------
    rows : int
        Most rows the coreset can have (fewer where the features depend on each other).
    memory : int
        Bytes beside the data.
    passes : int
        Passes over the data on well-behaved data.
    seconds : float
        A rough estimate.
    method : str
        What ``method="auto"`` would try first.
    why : str
        The reason, in words.
    """

    rows: int
    memory: int
    passes: int
    seconds: float
    method: str
    why: str

    def __str__(self) -> str:
        return (
            f"At most {self.rows:,} rows, about {self.memory / 1e6:,.0f} MB beside the data, {self.passes} pass"
            f"{'es' if self.passes != 1 else ''}, about {self.seconds:.2g} s, by {self.method}. {self.why}"
        )


def fold_memory(problem: Problem, d: int, targets: int) -> tuple[int, int]:
    """Bytes of a fold that do not depend on its rows, and bytes per row: rows read ahead, waiting, and stacked."""
    kernel = problem.kernel(d, targets)
    return int(8 * 24 * kernel.width**2), 8 * (8 * (d + targets) + 4)


def plan(problem: Problem, n: int, d: int, *, targets: int = 1, groups: int = 1) -> Plan:
    """What a coreset of n rows and d columns would cost.

    Parameters
    ----------
    problem : Problem
    n, d : int
        Rows and columns (without the target).
    targets : int
        Columns of y, for problems that have a target.
    groups : int
        Number of groups (folds).

    Examples
    --------
    >>> import karat
    >>> karat.plan(karat.problems.LeastSquares(), n=1_000_000, d=10).rows
    78
    """
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be one of karat.problems, such as LeastSquares(), not {problem!r}.")
    for name, value in (("n", n), ("d", d), ("targets", targets), ("groups", groups)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {value!r}.")
    kernel = problem.kernel(d, targets if problem.needs_target else 0)
    width, (left, right) = problem.width(d, targets), kernel.product_shape
    columns = d + targets + 1
    block, threads = block_rows(columns, left, right)
    share = n / groups
    if share <= SECOND * width:
        method = "onepass"
        why = f"Each group has at most {SECOND:g} times as many rows as features ({width:,}), so all rows are candidates."
        candidates = share
    else:
        method = "onepass"
        why = (
            f"{int(FIRST * width):,} of {int(share):,} rows are candidates enough on well-behaved data. Should they not be "
            "able to meet the moments (rare categories, heavy tails), Newton's method notices and the tree follows: two more "
            "readings."
        )
        candidates = max(PILOT, FIRST * width)
    memory = 8 * (4 * candidates * width + 6 * width**2 + 2 * threads * block * (columns + left + right))
    seconds = n * (2 * left * right / FLOPS + 8 * columns / BYTES) + groups * (14 * width**3 / FLOPS + 1e-4 * width)
    return Plan(
        rows=min(n, groups * width),
        memory=int(memory),
        passes=1 if problem.mergeable else 2,
        seconds=float(seconds),
        method=method,
        why=why,
    )
