"""Spark Connect, where the client has no JVM: the same coresets and the same errors (pip install
"pyspark[connect]").
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

# In a process of its own: one process has sessions of one kind.
SCRIPT = """
import json
import numpy as np, pandas as pd
from pyspark.sql import SparkSession
import karat, karat.spark
session = SparkSession.builder.remote("local[2]").getOrCreate()
rng = np.random.default_rng(0)
X, groups = rng.standard_normal((3000, 4)), rng.integers(3, size=3000)
weights = rng.uniform(1, 2, 3000)
y = X.sum(axis=1) + rng.standard_normal(3000)
frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y, g=groups, w=weights)
df, found = session.createDataFrame(frame).repartition(3), {"session": type(session).__module__}
plain = karat.spark.coreset(df, "y", columns=list("abcd"))
grouped = karat.spark.coreset(df, "y", columns=list("abcd"), groups="g", sample_weight="w")
mixture = karat.spark.coreset(df, problem=karat.problems.GaussianMixture(2), columns=list("abcd"))
def error(got, full):
    scale = np.sqrt(np.diag(full))
    return float(np.abs((got - full) / np.outer(scale, scale)).max())
def gram(X, y, w):
    D = np.column_stack([np.ones(len(y)), X, y])
    return D.T @ (w[:, None] * D)
Z, t = np.asarray(plain.X.to_pandas()), np.asarray(plain.y)
found["plain"] = error(gram(Z, t, plain.weights), gram(X, y, np.ones(3000)))
Z, t, labels = np.asarray(grouped.X.to_pandas()), np.asarray(grouped.y), np.asarray(grouped.groups)
found["grouped"] = 0.0
for g in range(3):
    kept, all_rows = labels == g, groups == g
    ours = gram(Z[kept], t[kept], grouped.weights[kept])
    theirs = gram(X[all_rows], y[all_rows], weights[all_rows])
    found["grouped"] = max(found["grouped"], error(ours, theirs))
found["mixture"] = mixture.n_rows
frame.loc[5, "a"] = np.nan
try:
    karat.spark.coreset(session.createDataFrame(frame), "y")
except karat.InputError as refused:
    found["refused"] = str(refused)
print(json.dumps(found))
"""


@pytest.mark.slow
def test_spark_connect():
    pytest.importorskip("grpc", reason="needs pyspark[connect]")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not on this machine.")
    env = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        check=False,
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert ".connect." in found["session"]
    assert found["plain"] < 1e-12
    assert found["grouped"] < 1e-12
    assert found["mixture"] == 3000
    assert "column 'a' has no value" in found["refused"]
