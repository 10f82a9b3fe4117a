"""A problem: central moments, copied from ``Moments``; saved, streamed and named on the command
line without further changes.
"""

ROW = "a problem"

NEW_FILES = {
    "problems/central_moments.py": '''\
"""Central moments: powers of the distance from a centre, along a direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from karat.engine.kernel import Kernel
from karat.engine.linalg import Array
from karat.engine.parts import exact_combination
from karat.engine.polynomial import Polynomials
from karat.engine.powers import Powers
from karat.errors import InputError, check_integer
from karat.problems.base import Problem


@final
@dataclass(frozen=True)
class CentralMoments(Problem):
    """The moment of a degree along every direction q, about every centre c.

    The loss at (c, q) is ``sum_i u_i ((x_i - c) . q)^degree``.

    Parameters
    ----------
    degree : int, default 2
        The degree, at least 1.
    total_weight : bool, default True
        Kept in any case: it is the coefficient of ``(c . q)^degree``.
    """

    degree: int = 2
    total_weight: bool = True
    keeps: ClassVar[str] = "the moment of the degree along every direction, about every centre"

    def __post_init__(self) -> None:
        check_integer("The degree of CentralMoments", self.degree)
        if not self.total_weight:
            raise InputError(
                "Remove total_weight=False: CentralMoments always keeps the total weight."
            )

    @property
    def needs_real_rows(self) -> str:
        return "" if self.degree <= 2 else super().needs_real_rows

    def kernel(self, columns: int, targets: int) -> Kernel:
        single = Polynomials(columns + targets, self.degree, affine=True)
        if self.degree == 1:
            return single
        return Powers(columns + targets, self.degree, affine=True, single=single)

    @property
    def keeps_squares(self) -> bool:
        return self.degree >= 2

    @property
    def shifts(self) -> bool:
        return True

    def shifted(self, query: Any, X: Sequence[int], y: Sequence[int]) -> Any:
        centre, direction = _pair(query, len(X))
        moved = [
            exact_combination(c, [-1.0], [offset]) for c, offset in zip(centre, X, strict=True)
        ]
        return np.array([moved, direction])

    def loss(self, X: Array, y: Array | None, weights: Array, query: Any) -> float:
        centre, direction = _pair(query, X.shape[1])
        return float(weights @ ((X - centre) @ direction) ** self.degree)


def _pair(query: Any, columns: int) -> tuple[Array, Array]:
    pair = np.asarray(query, dtype=float)
    if pair.shape != (2, columns):
        raise InputError(
            f"The query has shape {pair.shape}; it must be (2, {columns}), a centre and a direction"
            " in two rows."
        )
    return pair[0], pair[1]
''',
}

CHANGES = [
    (
        "problems/__init__.py",
        "from karat.problems.base import Problem\n",
        "from karat.problems.base import Problem\n"
        "from karat.problems.central_moments import CentralMoments\n",
    ),
    ("problems/__init__.py", '    "ICA",\n', '    "ICA",\n    "CentralMoments",\n'),
    (
        "cli/problems.py",
        '    MEAN = "mean"\n',
        '    MEAN = "mean"\n    CENTRAL_MOMENTS = "central-moments"\n',
    ),
    (
        "cli/problems.py",
        '    Name.MEAN: ProblemKind("Mean", {}),\n',
        '    Name.MEAN: ProblemKind("Mean", {}),\n'
        '    Name.CENTRAL_MOMENTS: ProblemKind("CentralMoments", {"degree": "degree"}),\n',
    ),
]

SCRIPT = """
import numpy as np
import karat

rng = np.random.default_rng(0)
ticks = rng.integers(0, 1000, 3_000)
X = np.column_stack([rng.standard_normal(3_000), rng.exponential(size=3_000), ticks])
weights = rng.uniform(0.5, 2.0, 3_000)


def check(core, X, degree):
    assert core.certificate.ok and len(core) < len(X) / 10, core
    for _ in range(20):
        centre, direction = rng.standard_normal((2, 3)) * [1, 1, 300]
        terms = weights * ((X - centre) @ direction) ** degree  # of all rows
        error = abs(core.loss([centre, direction]) - terms.sum())
        assert error <= 1e-12 * abs(terms).sum(), (degree, error)


for degree in (1, 2, 3, 4):
    problem = karat.problems.CentralMoments(degree)
    core = karat.coreset(X, problem=problem, sample_weight=weights)
    check(core, X, degree)
    core.save("core.npz")
    loaded = karat.load("core.npz")
    assert loaded.problem == problem
    check(loaded, X, degree)
    sketch = karat.Sketch(problem)
    for half in (slice(0, 1_500), slice(1_500, None)):
        sketch.update(X[half], sample_weight=weights[half])
    check(sketch.coreset(), X, degree)

# rows are stored minus an offset, which the query must follow
stamps = 2**62 + ticks.astype(np.int64)
core = karat.coreset(stamps[:, None], problem=karat.problems.CentralMoments(3))
assert core.certificate.ok and len(core) <= 4, core
value = core.loss([[float(2**62)], [1.0]])
assert abs(value - sum(int(t) ** 3 for t in ticks)) <= 1e-12 * value, value

from karat.cli.problems import Name, ProblemOptions

chosen = ProblemOptions(problem=Name("central-moments"), degree=4).chosen(target=False)
assert chosen == karat.problems.CentralMoments(4)
"""
