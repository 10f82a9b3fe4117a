"""From a name to a case: data, problem, reducer, weights, groups and the way in, all drawn from the
name and the seed.

Odd numbers of a family are the rotated ones: the same kind of table under a random rotation of its
columns.  Cases of synthetic rows have the data of the case of the same name, and a problem of
degree 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from . import structure, twins  # noqa: F401  (they register their generators)
from .data import GENERATORS, rotated
from .families import FAMILIES, Family

WIDEST = 250


@dataclass
class Case:
    """Everything that one run needs."""

    name: str
    X: Any
    y: Any
    spec: dict[str, Any]
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    method: str = "auto"
    way: dict[str, Any] = field(default_factory=lambda: {"kind": "memory"})
    lax: bool = False  # a refusal is what should happen, or is no worse
    newer: bool = False  # of the families that came with the claim by columns
    refusal: str = ""  # why nothing but an InputError will do
    rows: str = "real"

    @property
    def count(self) -> int:
        return int(self.X.shape[0])

    def describe(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.spec.items() if k != "name")
        extra = "".join(
            f", {word}"
            for word, there in (
                ("weights", self.weights is not None),
                ("groups", self.groups is not None),
            )
            if there
        )
        way = self.way["kind"] + "".join(f" {k}={v}" for k, v in self.way.items() if k != "kind")
        method = self.method if self.rows == "real" else self.rows
        return (
            f"{self.spec['name']}({settings}), {self.count} x {self.X.shape[1]}, {method},"
            f" {way}{extra}"
        )


def draw(name: str, seed: int = 0, rows: str = "real") -> Case:
    """The case of a name such as ``pareto/17``."""
    family_name, number = name.rsplit("/", 1)
    family = FAMILIES[family_name]
    rng = np.random.default_rng([seed, crc32(family_name.encode()), int(number)])
    n, d = family.shape(rng)
    spec = dict(family.problem(rng, d, n))
    if rows == "synthetic":
        spec = squared(spec)
    if family.around_rank:
        n = max(1, _width(spec, d) + int(rng.integers(-3, 4)))
    generator = str(rng.choice(family.generators))
    X, extra = alone(GENERATORS[generator](rng, n, d))
    n, turned = X.shape[0], bool(int(number) % 2 and X.shape[1] > 1 and family.turned)
    if turned:
        X = rotated(rng, X)
    X, y, weights = _target_and_units(rng, X, spec, family, turned, extra)
    groups = None
    if family.grouped and "absorb" not in spec and n >= 10 and rng.random() < 0.12:
        groups = (
            rng.integers(0, 3, n)
            if rng.random() < 0.5
            else np.array(["a", "b"])[rng.integers(0, 2, n)]
        )
        if weights is not None and not family.newer:
            weights[[np.flatnonzero(groups == g)[0] for g in np.unique(groups)]] += weights.max()
    groups = extra.get("groups", groups)
    method = str(
        rng.choice(["auto", "onepass", "tree", "caratheodory"], p=[0.76, 0.08, 0.08, 0.08])
    )
    way = _way(rng, n, spec, family, X, groups)
    if way["kind"] not in ("memory", "saved") or n > 20_000:
        method = "auto"
    if "alpha_share" in spec:
        spec["alpha"] = _alpha(spec.pop("alpha_share"), X, y, weights, spec)
    lax = family.lax or (generator == "long_integers" and X.dtype.kind in "iu")
    return Case(
        name, X, y, spec, weights, groups, method, way, lax, family.newer, family.refusal, rows
    )


def squared(spec: dict[str, Any]) -> dict[str, Any]:
    """A problem of degree at most 2 in place of a higher one."""
    if spec["name"] == "Kernel":
        return {"name": "LeastSquares"}
    return spec | {degree: min(spec[degree], 2) for degree in ("degree", "p") if degree in spec}


def alone(made) -> tuple[Any, dict[str, Any]]:
    """A table, and what its generator made beside it."""
    return made if isinstance(made, tuple) else (made, {})


def _width(spec: dict[str, Any], d: int) -> int:
    degree = spec.get("degree", spec.get("p", 2))
    base = (
        d
        + (spec["name"] in ("LeastSquares", "Ridge", "LpRegression"))
        + spec.get("fit_intercept", True)
    )
    if spec["name"] == "Mean":
        return d + 2
    return (
        comb(base - 1 + degree, degree)
        if spec["name"] != "TensorContraction"
        else comb(d - 1 + degree, degree) + 1
    )


def _target_and_units(rng, X, spec, family: Family, turned: bool, extra: dict[str, Any]):
    """The target, then weights, then units of columns, target and weights."""
    n, y = X.shape[0], None
    plain = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
    if spec["name"] in ("LeastSquares", "Ridge", "LpRegression"):
        targets = spec.pop("targets", 1)
        spread = plain.std(axis=0)
        spread[spread == 0] = 1.0
        beta = rng.standard_normal((X.shape[1], targets)) / spread[:, None]
        noise = 10.0 ** rng.uniform(-6, 0.5) * rng.standard_normal((n, targets))
        if "noise" in extra:
            noise = extra["noise"] * rng.standard_normal((n, targets))
        y = (plain - plain.mean(axis=0)) @ beta + noise + rng.choice([0.0, 10.0])
        if family.heavy_target and rng.random() < 0.3:
            y = y + rng.standard_t(1.5, (n, targets))
        if "y" in extra:
            y[:, 0] = extra["y"]
        y = y[:, 0] if targets == 1 else y
    kind = rng.choice(["none", "uniform", "wide", "zeros"], p=family.weights)
    weights = None
    if kind != "none":
        weights = rng.uniform(0.5, 2.0, n) if kind != "wide" else 10.0 ** rng.uniform(-3, 3, n)
        if kind == "zeros":
            weights = weights * (rng.random(n) < rng.choice([0.05, 0.5, 0.9]))
            weights[rng.integers(n)] = 1.0
    weights = extra.get("weights", weights)
    if family.units:
        degree = spec.get("degree", spec.get("p", 2))
        reach = min(3.0 if turned else 150.0, 290.0 / degree - 4.0) * rng.choice([0.05, 0.3, 1.0])
        X = X * 10.0 ** rng.uniform(-reach, reach, X.shape[1])
        y = None if y is None else y * 10.0 ** rng.uniform(-reach, reach)
        if rng.random() < 0.4:
            weights = (np.ones(n) if weights is None else weights) * 10.0 ** rng.choice(
                [-120, -30, 30, 120]
            )
    return X, y, weights


def _alpha(share: float, X, y, weights, spec) -> float:
    """A regulariser in units of the data:

    ``share`` times total weight times mean square to the power p / 2 of the columns.
    """
    u = np.ones(X.shape[0]) if weights is None else weights
    moved = np.asarray(X, dtype=float)
    moved = moved - u @ moved / u.sum() if spec.get("fit_intercept", True) else moved
    size = np.median(np.sqrt((u / u.sum()) @ moved**2))
    alpha = share * u.sum() * max(size, 1e-30) ** spec.get("p", 2)
    return float(np.clip(alpha, 1e-250, 1e250))


def _way(rng, n: int, spec, family: Family, X, groups) -> dict[str, Any]:
    kinds = {
        "memory": 0.58,
        "sketch": 0.13,
        "merge": 0.09,
        "sketches": 0.04,
        "resumed": 0.03,
        "files": 0.08,
        "saved": 0.05,
    }
    if family.newer:
        kinds = {
            "memory": 0.40, "sketch": 0.16, "merge": 0.14, "sketches": 0.07, "resumed": 0.05,
            "files": 0.13, "saved": 0.05,
        }  # fmt: skip
    if family.stream:
        kinds = {
            "memory": 0.15,
            "sketch": 0.40,
            "merge": 0.10,
            "sketches": 0.15,
            "resumed": 0.10,
            "files": 0.10,
        }
    if n < 4 or (groups is not None and n < 60):
        kinds = {"memory": 1.0}
    if spec["name"] == "Kernel":
        kinds = {k: p for k, p in kinds.items() if k not in ("files", "saved", "resumed")}
    if sparse.issparse(X):
        kinds = {k: p for k, p in kinds.items() if k != "files"}
    if family.memory_only or spec.get("latent"):
        kinds = {"memory": 1.0}
    share = np.array(list(kinds.values()))
    kind = str(rng.choice(list(kinds), p=share / share.sum()))
    if kind in ("sketch", "resumed"):
        return {
            "kind": kind,
            "buffer_rows": max(int(rng.choice([7, 50, 200, 1000])), n // 100),
            "batch": int(rng.choice([1 + n // 7, 64, 500])),
        }
    if kind in ("merge", "sketches"):
        parts = int(rng.integers(2, 5))
        return {
            "kind": kind,
            "parts": min(parts, n // 2),
            "buffer_rows": max(int(rng.choice([50, 400])), n // 100),
        }
    if kind == "files":
        return {
            "kind": kind,
            "format": str(rng.choice(["parquet", "csv"])),
            "parts": int(rng.integers(1, 4)),
            "batch_rows": int(rng.choice([1000, 100_000])),
        }
    return (
        {"kind": kind, "format": str(rng.choice(["npz", "parquet"]))}
        if kind == "saved"
        else {"kind": kind}
    )
