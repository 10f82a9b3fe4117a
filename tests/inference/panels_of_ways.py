"""Panels with firms and years, whose errors are alike within both."""

from __future__ import annotations

import numpy as np
import pandas as pd


def panel(seed, firms=30, years=12, n=400):
    rng = np.random.default_rng(seed)
    firm, year = rng.integers(0, firms, n), rng.integers(0, years, n)
    x = rng.standard_normal(n) + rng.standard_normal(firms)[firm] * rng.uniform(0, 1)
    noise = rng.standard_normal(n) + rng.standard_normal(years)[year] * rng.uniform(0, 1)
    frame = pd.DataFrame({"firm": firm, "year": 2000 + year, "x": x, "z": rng.standard_normal(n)})
    names = frame.assign(name=[f"firm '{i}', \x1f{i}" for i in firm], w=rng.uniform(0.5, 2, n))
    return names.assign(y=1 + x - frame["z"] + noise, region=rng.integers(0, 7, n))
