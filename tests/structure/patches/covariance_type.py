"""A covariance type: HC4 of Cribari-Neto (2004), residuals divided by (1 - h)^(d / 2) with
d = min(4, h / mean(h)).
"""

ROW = "a covariance type"

NEW_FILES: dict[str, str] = {}

CHANGES = [
    ("inference/options.py", '"HC3", *BY_CLUSTER', '"HC3", "HC4", *BY_CLUSTER'),
    (
        "inference/scores.py",
        'if "HC2" in self.sums or "HC3" in self.sums:',
        'if {"HC2", "HC3", "HC4"} & self.sums.keys():',
    ),
    (
        "inference/scores.py",
        '            factors |= {"HC2": 1 / np.sqrt(rest), "HC3": 1 / rest}\n',
        "            mean = self.solution.width / self.solution.observations\n"
        "            power = np.minimum(4.0, (1.0 - rest) / mean) / 2\n"
        '            factors |= {"HC2": 1 / np.sqrt(rest), "HC3": 1 / rest, "HC4": rest**-power}\n',
    ),
]

SCRIPT = """
import numpy as np
import pandas as pd
import pytest
import karat
from karat.inference import ols

rng = np.random.default_rng(0)
n = 2_000
frame = pd.DataFrame({"x": rng.standard_t(3, n), "g": rng.choice(list("abc"), n)})
frame["y"] = frame["x"] + abs(frame["x"]) * rng.standard_normal(n)
frame["w"] = rng.uniform(0.5, 2.0, n)
design = np.column_stack([np.ones(n), frame["g"] == "b", frame["g"] == "c", frame["x"]])
y = frame["y"].to_numpy()


def covariance(u):  # from the definition, with all rows
    inverse = np.linalg.inv(design.T @ (u[:, None] * design))
    error = y - design @ (inverse @ (design.T @ (u * y)))
    h = u * np.einsum("ij,jk,ik->i", design, inverse, design)
    d = np.minimum(4, h / h.mean())
    assert d.max() == 4 and d.min() < 1
    scaled = (u * error / (1 - h) ** (d / 2))[:, None] * design
    return inverse @ (scaled.T @ scaled) @ inverse


def check(fit, u):
    assert fit.cov_type == "HC4"
    expected = covariance(u)
    assert np.allclose(fit.cov_params(), expected, rtol=0, atol=1e-11 * abs(expected).max())
    assert np.allclose(fit.bse, np.sqrt(np.diag(expected)), rtol=1e-10, atol=0)


check(ols("y ~ C(g) + x", frame, cov_type="HC4"), np.ones(n))
fit = ols("y ~ C(g) + x", frame, cov_type=["HC4", "HC3"], weights="w")
check(fit, frame["w"].to_numpy())
assert "heteroscedasticity robust (HC4)" in str(fit.summary())
fit.coreset.save("fit.npz")
check(ols(karat.load("fit.npz"), cov_type="HC4"), frame["w"].to_numpy())
with pytest.raises(karat.InputError, match="HC3, HC4, cluster"):
    ols("y ~ x", frame, cov_type="HC5")
"""
