"""Writes linearmodels.json, the numbers of linearmodels for the cases of instrument_cases.py.

Run it in an environment with linearmodels 7.1 and pandas, from the folder of the repository:
``python -m tests.inference.make_linearmodels``.  ``debiased=True`` is its n - k in the place of n.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.inference.instrument_cases import Case, random_case

CASES = 100
PATH = Path(__file__).with_name("linearmodels.json")
WAYS = {  # karat's covariance, and how linearmodels is asked for it
    "nonrobust": {"cov_type": "unadjusted", "debiased": True},
    "HC0": {"cov_type": "robust", "debiased": False},
    "HC1": {"cov_type": "robust", "debiased": True},
    "cluster": {"cov_type": "clustered", "debiased": True},
}


def numbers(case: Case) -> dict[str, object]:
    """The table of one case, with the intercept first."""
    from linearmodels.iv import IV2SLS

    frame = case.frame.assign(Intercept=1.0)
    model = IV2SLS(
        frame["y"], frame[["Intercept", *case.exogenous]], frame[case.endogenous],
        frame[case.instruments], weights=None if case.weights is None else frame[case.weights],
    )  # fmt: skip
    result: dict[str, object] = {}
    for kind, options in WAYS.items():
        clusters = {"clusters": frame["g"]} if kind == "cluster" else {}
        fit = model.fit(**options, **clusters)
        result |= {"params": list(fit.params), kind: list(fit.std_errors)}
        result[f"f {kind}"] = fit.f_statistic.stat
        diagnostics = fit.first_stage.diagnostics
        result[f"first {kind}"] = list(diagnostics["f.stat"])
    result["partial"] = list(diagnostics["partial.rsquared"])
    result["first_r_squared"] = list(diagnostics["rsquared"])
    fit = model.fit(cov_type="unadjusted")
    result["r_squared"] = fit.rsquared
    result["wu_hausman"] = fit.wu_hausman().stat
    if len(case.instruments) > len(case.endogenous):
        result["sargan"] = fit.sargan.stat
    return result


if __name__ == "__main__":
    tables = [numbers(random_case(seed)) for seed in range(CASES)]
    text = json.dumps(tables, default=lambda number: np.asarray(number, dtype=float).tolist())
    PATH.write_text(text.replace("}, {", "},\n{") + "\n", encoding="utf-8")
