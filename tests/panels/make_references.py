"""Write ``references.json``: what pyfixest's ``feols`` gives for the panels of ``made.py``.

    cd tests; python -m panels.make_references        needs pyfixest 0.60 or newer

Two traps.  A formula written without spaces gets the wrong number of parameters for some values of
PYTHONHASHSEED, so ``df_k`` is checked here by counting; and the default tolerance of 1e-6 leaves
errors of that size, so means are removed to 1e-15 (with 1e-13, a variance of
a chain is off by 2e-10).  Every number is compared with indicators in
long double before it is stored: a panel on which both differ is an error of one of them.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from panels.dummies import Dummies
from panels.made import COUNT, Panel, panel

PLACE = Path(__file__).with_name("references.json")
TOLERANCE = 1e-10  # standard errors


def fitted(made: Panel) -> Any:
    import pyfixest as pf
    from pyfixest.demeaners import MapDemeaner

    return pf.feols(
        made.formula,
        pd.DataFrame(made.columns()),
        vcov="iid",
        weights=None if made.weights is None else "w",
        demeaner=MapDemeaner(fixef_tol=1e-15, fixef_maxiter=1_000_000),
    )


def reference(made: Panel) -> dict[str, Any]:
    """The numbers of one panel."""
    fit = fitted(made)
    if fit._collin_vars:
        raise ValueError(f"panel {made.seed}: {fit._collin_vars} are collinear")
    one, two = made.two_ways[0], made.two_ways
    found: dict[str, Any] = {
        "kind": made.kind,
        "digest": made.digest(),
        "rows": int(fit._N),
        "params": fit._beta_hat.tolist(),
        "r2": float(fit._r2),
        "r2_within": float(fit._r2_within),
    }
    kinds = {
        "iid": "iid",
        "HC1": "HC1",
        "one_way": {"CRV1": one},
        "two_ways": {"CRV1": "+".join(two)},
    }
    for name, kind in kinds.items():
        fit.vcov(kind)
        found[name] = fit._vcov[np.tril_indices(len(fit._beta_hat))].tolist()
        found[f"df_{name}"] = [int(fit._df_k), int(fit._df_t)]
    check(made, found)
    return found


def check(made: Panel, found: dict[str, Any]) -> float:
    """Compare with indicators in long double, and counts with counting."""
    oracle = Dummies(made.x, made.y, made.absorbed, made.weights)
    columns = made.columns()
    ways = [np.unique(columns[name], return_inverse=True)[1] for name in made.two_ways]
    k, lower = len(oracle.params), np.tril_indices(len(oracle.params))
    assert found["rows"] == oracle.n, made.seed
    kept = [given[oracle.kept] for given in ways]
    counts = {
        "iid": oracle.counted(),
        "HC1": oracle.counted(),
        "one_way": oracle.counted(kept[:1]),
        "two_ways": oracle.counted(kept),
    }
    for name, count in counts.items():
        assert found[f"df_{name}"][0] == k + count, (
            made.seed,
            name,
            found[f"df_{name}"],
            k + count,
        )
    matrices = {
        "iid": oracle.classical(),
        "HC1": oracle.hc1(),
        "one_way": oracle.clustered(ways[0]),
        "two_ways": oracle.clustered(*ways),
    }
    worst = np.abs((found["params"] - oracle.params) / np.sqrt(np.diag(matrices["iid"]))).max()
    for name, matrix in matrices.items():
        errors = np.sqrt(np.abs(np.diag(matrix)))
        scale = np.outer(errors, errors)
        scale = np.maximum(scale, 1e-6 * np.abs(np.diag(matrices["iid"])).max())
        worst = max(worst, np.abs((found[name] - matrix[lower]) / scale[lower]).max())
    worst = max(worst, abs(found["r2"] - oracle.r2()), abs(found["r2_within"] - oracle.r2_within()))
    found["differs"] = float(worst)
    return float(worst)


def main() -> None:
    warnings.simplefilter("ignore")  # singletons, which are counted
    found = {}
    for seed in range(COUNT):
        found[seed] = reference(panel(seed))
    worst = max(found, key=lambda seed: found[seed]["differs"])
    for kind in dict.fromkeys(entry["kind"] for entry in found.values()):
        of_kind = [entry["differs"] for entry in found.values() if entry["kind"] == kind]
        print(f"{kind:26} {len(of_kind)} panels, largest difference {max(of_kind):.1e}")
    print("panels with a negative variance:", sum(negative(entry) for entry in found.values()))
    print("all: largest", worst, found[worst]["differs"])
    text = ",\n".join(f'"{seed}": {json.dumps(entry)}' for seed, entry in found.items())
    PLACE.write_text("{\n" + text + "\n}\n", encoding="utf-8")


def negative(entry: dict[str, Any]) -> bool:
    matrix = np.zeros((len(entry["params"]),) * 2)
    matrix[np.tril_indices(len(matrix))] = entry["two_ways"]
    return bool((np.diag(matrix) < 0).any())


if __name__ == "__main__":
    main()
