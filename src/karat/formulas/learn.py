"""What one pass over all rows must learn before a formula can be evaluated: levels and states.

    C(a), text columns          the levels that occur
    weights                     the sum of their logarithms, a term of the likelihood
    center, scale, standardize  count, mean, sum of squares (Chan's update)
    poly(x, d)                  a coreset of x with the moments up to 2 d, which has the same
                                orthogonal polynomials as all rows
    bs(x, df=k)                 smallest and largest value; for knots at quantiles the distinct
                                values with their counts, if they are not too many

Nothing else is kept, so the pass runs in bounded memory and its parts (files, partitions) can be
merged.  Booleans need no pass: their levels are False and True.  The options of ``C(...)`` and of
transforms are checked before the data is read.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from formulaic.transforms import TRANSFORMS

from karat.compat.formulaic import STATE
from karat.data.batch import Batch
from karat.errors import InputError
from karat.formulas.design import Learned, category_options
from karat.formulas.expression import Expression
from karat.formulas.formula import Factor
from karat.formulas.layout import FormulaLayout
from karat.io.scan import LearnLevels
from karat.io.source import Chunk
from karat.problems import Moments
from karat.stream.sketch import Sketch

MOST_VALUES = 2**20  # distinct values that are counted for quantiles
EXTRAPOLATION = ("raise", "clip", "na", "zero", "extend")  # of formulaic's splines


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and bool(np.isfinite(float(value)))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_switch(value) or (_is_number(value) and value != 0)


# By option: a test of its value, and the words for what it must be.
OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "df": (lambda value: value is None or (_is_count(value) and value > 0), "an integer"),
    "degree": (_is_count, "an integer"),
    "ddof": (_is_count, "an integer"),
    "knots": (
        lambda value: value is None or (isinstance(value, list) and all(map(_is_number, value))),
        "a list of numbers",
    ),
    "lower_bound": (lambda value: value is None or _is_number(value), "a number"),
    "upper_bound": (lambda value: value is None or _is_number(value), "a number"),
    "center": (lambda value: _is_switch(value) or _is_number(value), "True, False or a number"),
    "scale": (_is_size, "True, False or a number"),
    "rescale": (_is_size, "True, False or a number"),
    "raw": (_is_switch, "True or False"),
    "include_intercept": (_is_switch, "True or False"),
    "extrapolation": (lambda value: value in EXTRAPOLATION, f"one of {', '.join(EXTRAPOLATION)}"),
}


@dataclass
class ValueSums:
    """Running sums over the values of an expression."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # of differences from the mean
    low: float = np.inf
    high: float = -np.inf
    sketch: Sketch | None = None
    # distinct values, increasing, and how often each occurs
    counted: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, x: np.ndarray) -> None:
        """Add values."""
        if not len(x):
            return
        mean = float(x.mean())
        self.join(len(x), mean, float(np.square(x - mean).sum()), float(x.min()), float(x.max()))
        if self.sketch is not None:
            self.sketch.update(x[:, None])
        if self.counted is not None:
            self._count(self.counted, np.unique(x, return_counts=True))

    def join(self, count: int, mean: float, squares: float, low: float, high: float) -> None:
        """Add the sums of other values (the update of Chan, Golub and LeVeque)."""
        total, step = self.count + count, mean - self.mean
        self.squares += squares + step * step * self.count * count / total
        self.mean += step * count / total
        self.count, self.low, self.high = total, min(self.low, low), max(self.high, high)

    def merge(self, other: ValueSums) -> None:
        if other.count:
            self.join(other.count, other.mean, other.squares, other.low, other.high)
        if self.sketch is not None and other.sketch is not None:
            self.sketch.merge(other.sketch)
        if self.counted is not None and other.counted is not None:
            self._count(self.counted, other.counted)

    def _count(self, *parts: tuple[np.ndarray, np.ndarray]) -> None:
        values, counts = map(np.concatenate, zip(*parts, strict=True))
        distinct, places = np.unique(values, return_inverse=True)
        self.counted = distinct, np.bincount(places, counts).astype(np.int64)
        if len(distinct) > MOST_VALUES:
            raise InputError(
                "Give the knots of the spline: bs(x, knots=[...]). bs(..., df=) puts them at"
                f" quantiles, and more than {MOST_VALUES:,} distinct values are too many to count"
                " in one pass."
            )

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """The quantiles that ``np.quantile`` gives for all values."""
        assert self.counted is not None
        values, ends = self.counted[0], np.cumsum(self.counted[1])
        places = shares * (self.count - 1)
        low, high = np.floor(places), np.ceil(places)
        left, right = (values[np.searchsorted(ends, place, side="right")] for place in (low, high))
        return np.asarray(left + (right - left) * (places - low))


@dataclass(frozen=True)
class Transform:
    """A transform with a state: its text, function, call, and the expression around it."""

    key: str
    name: str
    call: ast.Call
    expression: Expression

    def columns(self) -> list[str]:
        """The columns that its first argument reads."""
        names = [node.id for node in ast.walk(self.call.args[0]) if isinstance(node, ast.Name)]
        columns = [self.expression.aliases.get(name, name) for name in names]
        return [name for name in dict.fromkeys(columns) if name in self.expression.variables()]

    def options(self) -> dict[str, Any]:
        """The arguments after the first, with their defaults."""
        rest = ast.Call(self.call.func, self.call.args[1:], self.call.keywords)
        column = next(
            (
                node.id
                for node in ast.walk(rest)
                if isinstance(node, ast.Name) and node is not rest.func
            ),
            None,
        )
        if column is not None:
            shown = self.expression.aliases.get(column, column)
            raise InputError(
                f"The term {self.key!r}: write the value of the option instead of the name"
                f" {shown!r}."
            )
        arguments, keywords = self.expression.arguments(rest, {}, {})
        signature = inspect.signature(inspect.unwrap(TRANSFORMS[self.name]))
        try:
            bound = signature.bind(None, *arguments, **keywords)
        except TypeError as error:
            raise InputError(f"The term {self.key!r}: {error}.") from None
        if STATE in bound.arguments:
            raise InputError(
                f"The term {self.key!r}: remove {STATE}, which is learned from the data."
            )
        bound.apply_defaults()
        options = dict(list(bound.arguments.items())[1:])
        for name, value in options.items():
            if name in OPTIONS and not OPTIONS[name][0](value):
                raise InputError(
                    f"The term {self.key!r}: {name} must be {OPTIONS[name][1]}, not {value!r}."
                )
        if options.get("df") is not None and options.get("knots") is not None:
            raise InputError(f"The term {self.key!r}: give either df or knots, not both.")
        if self.name == "poly" and options["degree"] < 1:
            raise InputError(f"The term {self.key!r}: degree must be at least 1.")
        return options

    def start(self) -> ValueSums:
        """Empty sums of the kind that this transform needs."""
        options = self.options()
        if self.name == "poly" and not options["raw"]:
            return ValueSums(sketch=Sketch(Moments(2 * int(options["degree"]))))
        if self.name == "bs" and options["df"]:
            return ValueSums(counted=(np.empty(0), np.empty(0, dtype=np.int64)))
        return ValueSums()

    def state(self, sums: ValueSums) -> dict[str, Any]:
        """The state that formulaic would learn from all rows."""
        options = self.options()
        if self.name == "poly":
            return {} if options["raw"] else self._polynomials(sums, int(options["degree"]))
        if self.name == "bs":
            return self._knots(sums, options)
        rescale = (
            options.get("scale", options.get("rescale", False)) if self.name != "center" else False
        )
        centre, ddof = options.get("center", True), options.get("ddof", 1)
        shift = sums.mean if centre is True else None if centre is False else float(centre)
        about = sums.squares + sums.count * (sums.mean - (shift or 0.0)) ** 2
        if rescale is True and sums.count <= ddof:
            raise InputError(
                f"The term {self.key!r}: {sums.count:,} rows are too few for ddof={ddof}."
            )
        size = (
            float(np.sqrt(about / (sums.count - ddof)))
            if rescale is True
            else None
            if rescale is False
            else float(rescale)
        )
        if size == 0.0:
            raise InputError(
                f"The term {self.key!r}: the values are all equal, so they have no scale; remove"
                " it."
            )
        return {"ddof": ddof, "center": shift, "scale": size}

    def _polynomials(self, sums: ValueSums, degree: int) -> dict[str, Any]:
        """The polynomials that are orthogonal over all rows, by Stieltjes' recurrence over the rows
        of a coreset.
        """
        assert sums.sketch is not None
        core = sums.sketch.coreset()
        x, weights = core.arrays()[0][:, 0], core.weights
        before, now = np.zeros_like(x), np.ones_like(x)
        alpha: dict[str, float] = {}
        norms: dict[str, float] = {}
        for k in range(degree + 1):
            norms[str(k)] = float((weights * now**2).sum())
            if norms[str(k)] <= 1e-14 * (weights * np.square(x - sums.mean) ** k).sum():
                raise InputError(
                    f"The term {self.key!r}: lower the degree; a polynomial of degree {k} is zero"
                    " on all values, up to rounding."
                )
            if k == degree:
                break
            alpha[str(k)] = float((weights * x * now**2).sum() / norms[str(k)])
            beta = norms[str(k)] / norms[str(k - 1)] if k else 0.0
            before, now = now, (x - alpha[str(k)]) * now - beta * before
        return {"alpha": alpha, "norms2": norms}

    def _knots(self, sums: ValueSums, options: dict[str, Any]) -> dict[str, Any]:
        low = sums.low if options["lower_bound"] is None else float(options["lower_bound"])
        high = sums.high if options["upper_bound"] is None else float(options["upper_bound"])
        degree, inner = int(options["degree"]), [float(knot) for knot in options["knots"] or ()]
        if options["df"]:
            count = int(options["df"]) - degree - bool(options["include_intercept"])
            if count < 0:
                raise InputError(f"The term {self.key!r}: df is too small for degree {degree}.")
            inner = sums.quantiles(np.linspace(0, 1, count + 2)[1:-1]).tolist()
        outside = [knot for knot in inner if not low <= knot <= high]
        if outside or not low < high:
            problem = f"the knot {outside[0]:g} is not" if outside else "no value is"
            raise InputError(
                f"The term {self.key!r}: {problem} between the bounds {low:g} and {high:g}."
            )
        knots = [low] * (degree + 1) + inner + [high] * (degree + 1)
        return {"lower_bound": low, "upper_bound": high, "knots": knots}


def transforms_of(factors: tuple[Factor, ...]) -> Iterator[Transform]:
    """The transforms with a state, each once."""
    seen = set()
    for factor in factors:
        for key, name, call in factor.stateful():
            if not call.args:
                raise InputError(f"The term {key!r} needs the column as its first argument.")
            if key not in seen:
                seen.add(key)
                yield Transform(key, name, call, factor.expression)  # type: ignore[arg-type]


@dataclass
class Learn(LearnLevels):
    """Learns levels and states from the rows of a scan."""

    layout: FormulaLayout
    # levels of categorical columns, in the order that their type declares
    declared: dict[str, list[Any]] = field(default_factory=dict)
    # the source reads integers as doubles; as levels they must be 2019 again, not 2019.0
    all_doubles: bool = False
    rows: int = 0
    log_weights: float = 0.0
    total_weight: float = 0.0
    row: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        formula = self.layout.formula
        self.categories = [factor for factor in formula.factors if self.layout.is_category(factor)]
        for factor in self.categories:
            category_options(factor)  # raises before the data is read
        self.levels = {factor.text: set() for factor in self.categories}
        self.transforms = list(transforms_of((*formula.factors, *formula.responses)))
        self.sums = {transform.key: transform.start() for transform in self.transforms}

    @property
    def needed(self) -> bool:
        """Whether there is anything to learn."""
        return bool(self.categories or self.transforms or self.layout.roles.weight)

    def reading(self) -> FormulaLayout:
        """The layout of the pass: only the columns it needs, unless rows may be dropped."""
        if self.layout.drop:
            return self.layout
        formula = self.layout.formula
        names = [
            name
            for factor in (*formula.factors, *formula.responses)
            if factor in self.categories or factor.stateful()
            for name in factor.variables
        ]
        return replace(self.layout, only=tuple(dict.fromkeys(names)))

    def add(self, chunk: Chunk, batch: Batch) -> None:
        table, rows, where = self.layout.complete(chunk.table, chunk.where)
        if not len(rows):
            return
        everything = np.ones(len(rows), dtype=bool)
        weights = self.layout.weights(table, everything, where)
        if weights is not None:
            self.log_weights += float(np.log(weights).sum())
            self.total_weight += float(weights.sum())
        for transform in self.transforms:
            columns = {
                name: self.layout.column(table, name, everything, where)
                for name in transform.columns()
            }
            x = transform.expression.numbers(columns, {}, transform.call.args[0])
            self.sums[transform.key].add(self.layout.checked(x, transform.key, everything, where))
        for factor in self.categories:
            column = self.layout.values(table, factor, everything, where)
            self.add_levels(
                "term",
                factor.text,
                column,
                "is it an identifier? Use it as cluster=, or join levels",
            )
        if not self.row:
            values = {name: table.column(name)[0].as_py() for name in table.schema.names}
            self.row = {
                name: value
                for name, value in values.items()
                if isinstance(value, str | int | float | bool)
            }
        self.rows += len(rows)

    def merge(self, other: Learn) -> None:
        """Add what was learned from another part of the data."""
        for text, levels in other.levels.items():
            self.levels[text] |= levels
        for key, sums in other.sums.items():
            self.sums[key].merge(sums)
        self.rows += other.rows
        self.log_weights += other.log_weights
        self.total_weight += other.total_weight
        self.row = self.row or other.row

    def learned(self) -> Learned:
        """The levels and states, after all rows."""
        if self.needed and not self.rows:
            raise InputError("The data has no rows that the formula can use.")
        levels = {factor.text: self._ordered(factor) for factor in self.categories}
        formula = self.layout.formula
        levels |= {
            factor.text: [False, True]
            for factor in formula.factors
            if self.layout.is_boolean(factor)
        }
        states = {
            transform.key: transform.state(self.sums[transform.key])
            for transform in self.transforms
        }
        typed = {name: self.layout.row[name][0] for name in formula.variables}
        row = {
            name: value if isinstance(value, str) else value.item() for name, value in typed.items()
        }
        return Learned(levels, states, row | self.row)

    def _level(self, value: Any) -> Any:
        return (
            int(value)
            if self.all_doubles and isinstance(value, float) and value.is_integer()
            else value
        )

    def _ordered(self, factor: Factor) -> list[Any]:
        """The levels of a category: those of ``C(...)`` or of the type, else sorted."""
        levels = {self._level(value) for value in self.levels[factor.text] if value is not None}
        for level in levels:
            if not isinstance(level, str | int | float | bool):
                raise InputError(
                    f"The term {factor.text!r} has levels of type {type(level).__name__}; convert"
                    " them to text or numbers."
                )
        given = category_options(factor)[1]
        if given is not None:
            missing = [level for level in levels if level not in given]
            if missing:
                raise InputError(
                    f"The term {factor.text!r} does not list the level {missing[0]!r}, which the"
                    " data has."
                )
            return list(given)
        declared = self.declared.get(factor.column or "")
        if declared is not None:
            return [level for level in declared if level in levels]
        return sorted(levels, key=lambda level: (isinstance(level, str), level))
