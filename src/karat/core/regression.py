"""The regression of a coreset: how its columns were made, and sums over all rows that the kept rows
do not determine.

``facts`` is JSON: the formula, the encoding of its terms, the number of observations, and the
covariances that were summed.  ``sums`` holds one matrix per covariance, and the ``whitening`` of
their coordinates, which files of 0.2.0 lack (:mod:`karat.inference.covariance`).  ``products`` are
the sums from which covariances of any submodel follow (:mod:`karat.engine.products`).
:mod:`karat.inference` makes and reads them; this module only stores them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from karat.engine.linalg import Array
from karat.engine.products import Products
from karat.errors import InputError, require

ADDED = ("observations", "log_weights")  # facts that add up where coresets are merged
OWN = (
    *ADDED,
    "covariances",
    "residual_quantiles",
    "row",
    "merged",
    "dropped",
)  # facts in which the parts may differ
PREFIX = "regression_"  # of the arrays in a file
FIRST = "first"  # begins the names of the sums of first stages: first_1_HC0
ROLES = ("instruments", "endogenous")  # of columns, where a formula has brackets
PRODUCTS = {f"_products_{part.name}": part.name for part in fields(Products)}  # their endings
CLUSTERED, JACKKNIFE = "cluster", "CR3"  # covariances
ADJUSTED = {"CR2": -0.5, JACKKNIFE: -1.0}  # powers of 1 - A_g (:mod:`karat.inference.submodels`)
BY_CLUSTER = (CLUSTERED, *ADJUSTED)
JOINT = " + "  # between the names of cluster columns
PLAIN = "cluster_plain"  # sums over several ways without factors, beside those with factors
FACTS: dict[str, type] = {  # that every regression has
    "formula": str, "response": str, "columns": list, "intercept": bool, "observations": int,
    "covariances": dict, "levels": dict, "states": dict, "row": dict, "terms": list,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Regression:
    """The facts of a regression, and its sums over all rows."""

    facts: dict[str, Any]
    sums: dict[str, Array] = field(default_factory=dict)
    products: dict[str, Products] = field(default_factory=dict)

    def arrays(self) -> dict[str, Array]:
        """The sums by the names that they have in a file."""
        named = self.sums | {
            kind + ending: getattr(products, part)
            for kind, products in self.products.items()
            for ending, part in PRODUCTS.items()
        }
        return {PREFIX + name: value for name, value in named.items()}

    @staticmethod
    def restored(facts: Any, arrays: dict[str, Any]) -> Regression | None:
        """From the header and the arrays of a file."""
        sums = {
            name.removeprefix(PREFIX): value
            for name, value in arrays.items()
            if name.startswith(PREFIX)
        }
        if facts is None:
            return None
        require(isinstance(facts, dict), "its regression is no object")
        for name, kind in FACTS.items():
            require(isinstance(facts.get(name), kind), f"its regression has no {name}")
        require(
            all(isinstance(name, str) for name in facts["columns"]),
            "the columns of its regression have no names",
        )
        require(
            all(isinstance(entry, dict) for entry in facts["covariances"].values()),
            "covariances that are not described",
        )
        quantiles = facts.get("residual_quantiles") or {}
        require(isinstance(quantiles, dict), "quantiles of residuals that are no object")
        require(
            all(isinstance(value, float) for value in quantiles.values()),
            "quantiles of residuals that are no numbers",
        )
        dropped = facts.get("dropped") or []
        require(
            isinstance(dropped, list) and set(dropped) <= set(facts["columns"]),
            "dropped columns that it does not have",
        )
        roles = {role: facts.get(role) or [] for role in ROLES}
        for role, names in roles.items():
            require(
                isinstance(names, list) and set(names) <= set(facts["columns"]),
                f"{role} that it does not have",
            )
        width = len(facts["columns"]) + facts["intercept"] - len(dropped)
        products = _restored_products(sums)
        require(
            all(stored.fits(width) for stored in products.values()),
            "sums of another number of columns",
        )
        for stage in range(1 + len(roles["endogenous"])):
            own = stage_sums(sums, stage)
            left_out = set(roles["endogenous" if stage else "instruments"]) - set(dropped)
            require(
                all(value.shape == (width - len(left_out),) * 2 for value in own.values()),
                "sums of another number of columns",
            )
            named = set(own) - {"whitening"} | (set() if stage else set(products))
            require(
                named == set(facts.get("covariances", {})),
                "sums of a regression that its header does not name",
            )
        return Regression(facts, sums, products)


def _restored_products(sums: dict[str, Array]) -> dict[str, Products]:
    """The products by kind; their arrays are taken out of ``sums``."""
    first = next(iter(PRODUCTS))
    kinds = [name.removesuffix(first) for name in sums if name.endswith(first)]
    found = {}
    for kind in kinds:
        require(
            all(kind + ending in sums for ending in PRODUCTS), f"only a part of its {kind} products"
        )
        found[kind] = Products(
            **{part: sums.pop(kind + ending) for ending, part in PRODUCTS.items()}
        )
    return found


def stage_sums(sums: dict[str, Array], stage: int) -> dict[str, Array]:
    """The sums of one stage of a regression with instruments: 0 is the last one, the only one of
    other regressions.
    """
    if not stage:
        return {name: value for name, value in sums.items() if not name.startswith(FIRST)}
    prefix = stage_prefix(stage)
    return {n.removeprefix(prefix): value for n, value in sums.items() if n.startswith(prefix)}


def stage_prefix(stage: int) -> str:
    """What the names of the sums of a stage begin with."""
    return f"{FIRST}_{stage}_" if stage else ""


def merged_regression(first: Regression | None, second: Regression | None) -> Regression | None:
    """The facts of a union, without robust sums, which belong to the solution of one part.

    Products of single rows add up; those of clusters do not, as a cluster may have rows in both.
    """
    if first is None or second is None:
        return None
    shared, other = (
        {name: value for name, value in regression.facts.items() if name not in OWN}
        for regression in (first, second)
    )
    if shared != other:
        raise InputError(
            "The coresets encode their formulas differently (levels, means or knots), so columns of"
            " one name mean different things. Fit one formula to both sources:"
            " karat.inference.ols(formula, [first, second])."
        )
    shared["row"] = first.facts["row"]
    added = {
        name: first.facts[name] + second.facts[name]
        for name in ADDED
        if first.facts.get(name) is not None
    }
    products, covariances = {}, {}
    if all("HC0" in part.products and not part.facts.get("dropped") for part in (first, second)):
        products["HC0"] = first.products["HC0"].plus(second.products["HC0"])
        covariances["HC0"] = first.facts["covariances"]["HC0"]
    kept = {"covariances": covariances, "merged": True}
    return Regression(shared | added | kept, products=products)


def notes_of_merging(*parts: Regression | None) -> list[str]:
    """What a union loses, for the notes of its certificate."""
    robust = {kind for part in parts if part is not None for kind in part.facts["covariances"]}
    robust -= {PLAIN}
    if all(part is not None and "HC0" in part.products for part in parts):
        robust -= {"HC0"}
    if not robust:
        return []
    return [
        f"The sums of robust covariances ({', '.join(sorted(robust))}) belong to the solutions of"
        " the parts and were dropped by merging; pass the data of both to karat.inference.ols."
    ]


def answers(stored: Regression | None) -> dict[str, Any]:
    """The tables that a coreset can give: its formula, covariances and submodels."""
    if stored is None:
        return {}
    kinds = ["nonrobust"]
    for kind in sorted(set(stored.facts["covariances"]) - {PLAIN}):
        description = stored.facts["covariances"][kind]
        kinds += (
            ["HC0", "HC1"]
            if kind == "HC0"
            else [kind]
            if not description
            else [f"{kind}:{description['column']} ({description['clusters']:,})"]
        )
    left_out = {*(stored.facts.get("dropped") or []), *(stored.facts.get("instruments") or [])}
    products = sorted(set(stored.products) - {PLAIN})
    errors = " and ".join(
        [
            "classical",
            *(["HC0, HC1"] if "HC0" in products else []),
            *(["clustered"] if "cluster" in products else []),
        ]
    )
    return {
        "formula": stored.facts["formula"],
        "observations": stored.facts["observations"],
        "weights": stored.facts.get("weights"),
        "columns": (
            (["Intercept"] if stored.facts["intercept"] else [])
            + [name for name in stored.facts["columns"] if name not in left_out]
        ),
        "tables": kinds,
        "residual_quantiles": bool(stored.facts.get("residual_quantiles")),
        "submodels": (
            None
            if stored.facts.get("instruments")
            else f"any choice of these columns, with {errors} errors"
        ),
    }
