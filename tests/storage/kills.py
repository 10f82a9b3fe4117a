"""Runs killed at random moments: each ends with the same coreset bit for bit, and leaves nothing
half-written.

    python -m storage.kills 60           (in the folder tests)
    python -m storage.kills 60 synthetic "synthetic csv"

A run over files with a checkpoint is started, killed by SIGKILL after a random time, and started
again until it ends.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

FILES = "core = karat.coreset_files({source!r}, checkpoint='c.npz', batch_rows=2000, {options})"
DASK = (
    "import dask.dataframe, karat.dask; core ="
    " karat.dask.coreset(dask.dataframe.read_parquet({source!r}), {options})"
)
SPARK = (
    "from pyspark.sql import SparkSession; import karat.spark; session ="
    " SparkSession.builder.master('local[2]').config('spark.ui.enabled',"
    " 'false').config('spark.log.level', 'OFF').getOrCreate(); core ="
    " karat.spark.coreset(session.read.parquet({source!r}).coalesce(1), {options})"
)
MIXTURE = "problem=karat.problems.GaussianMixture(2), columns=['a', 'b', 'c']"
KINDS = {  # the call, its options
    "parquet": (FILES, "target='y', digest='sha256'"),
    "csv": (FILES, "target='y'"),
    "synthetic": (FILES, "target='y', rows='synthetic', columns=['a', 'b', 'c']"),
    "synthetic csv": (FILES, "target='y', rows='synthetic', columns=['a', 'b', 'c']"),
    "synthetic groups": (FILES, "target='y', groups='g', rows='synthetic', columns=['a', 'b']"),
    "groups": (FILES, "target='y', groups='g', key='id', columns=['a', 'b', 'c']"),
    "moments": (FILES, "problem=karat.problems.Moments(4), columns=['a', 'b']"),
    "latent": (FILES, MIXTURE),
    "sequences": (FILES, "problem=karat.problems.HiddenMarkov(2, 'gaussian'), columns=['u', 'v']"),
    "dask": (DASK, "target='y', groups='g', key='id', columns=['a', 'b', 'c']"),
    "dask latent": (DASK, MIXTURE),
    "spark": (SPARK, "target='y', columns=['a', 'b', 'c']"),
}
PROGRAM = """
import sys, karat, karat.io
print("ready", flush=True)
{call}
core.save(sys.argv[1])
"""


def write(folder):
    rng = np.random.default_rng(1)
    n = 60_000
    X = rng.standard_normal((n, 3)) + 3 * (np.arange(n) % 2)[:, None]
    state = np.cumsum(rng.random(n) < 0.1) % 2  # of a chain that seldom changes
    U = rng.standard_normal((n, 3)) + state[:, None] * [3.0, -2.0, 1.0] + [1.0, 2.0, 0.0]
    columns = dict(zip("abcuvw", np.column_stack([X, U]).T, strict=True))
    numbers = {
        "g": np.arange(n) % 3,
        "id": np.arange(n),
        "y": X.sum(axis=1) + rng.standard_normal(n),
    }
    table = pa.table(columns | numbers)
    (folder / "p").mkdir()
    (folder / "q").mkdir()
    for i in range(10):
        pq.write_table(table.slice(6000 * i, 6000), folder / "p" / f"{i}.parquet")
        pacsv.write_csv(table.slice(6000 * i, 6000), folder / "q" / f"{i}.csv")


def start(kind, folder, output):
    source = str(folder / ("q" if kind.endswith("csv") else "p"))
    call, options = KINDS[kind]
    program = PROGRAM.format(call=call.format(source=source, options=options))
    # one thread: the same last bits
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(output)],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def content(path):
    import karat
    from karat.core.files import described

    header, arrays = described(karat.load(path))
    header["certificate"].pop("seconds")  # and how many bytes a cluster sent, which hold times too
    header["certificate"]["notes"] = [
        note for note in header["certificate"]["notes"] if "bytes" not in note
    ]
    (header.get("provenance") or {}).pop("created", None)
    return repr(header), {
        name: np.asarray(value).tobytes() for name, value in arrays.items() if value is not None
    }


def clear(folder):
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()


def campaign(kills, seed=0, kinds=tuple(KINDS), a_run=8):
    """Kill runs, each at most ``a_run`` times, until there were so many kills; how many runs ended
    with the same coreset.
    """
    rng, done, ended = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        truth, seconds = {}, {}
        for kind in kinds:
            began = time.perf_counter()
            process = start(kind, folder, folder / "truth.npz")
            began = time.perf_counter()
            assert process.wait() == 0
            seconds[kind] = time.perf_counter() - began
            truth[kind] = content(folder / "truth.npz")
            clear(folder)
        while done < kills:
            kind = kinds[ended % len(kinds)]
            times = 0
            while True:
                process = start(kind, folder, folder / "core.npz")
                began = time.perf_counter()
                try:
                    process.wait(
                        timeout=(
                            rng.uniform(0, seconds[kind] * 0.9)
                            if times < a_run and done < kills
                            else None
                        )
                    )
                    assert process.returncode == 0
                    if not times:  # a run that was faster than the first: later kills come sooner
                        seconds[kind] = min(seconds[kind], time.perf_counter() - began)
                    break
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)  # with the workers of a cluster
                    process.wait()
                    done, times = done + 1, times + 1
                    if (folder / "core.npz").exists():
                        assert content(folder / "core.npz") == truth[kind]
            assert content(folder / "core.npz") == truth[kind], kind
            ended += 1
            print(
                f"{done} kills, {ended} runs ended with the same coreset bit for bit ({kind})",
                flush=True,
            )
            left = {path.name for path in folder.iterdir() if path.is_file()}
            # what a kill left half-written was swept away
            assert left - {"c.npz"} == {"core.npz"}, left
            clear(folder)
    return done, ended


if __name__ == "__main__":
    kinds = tuple(sys.argv[2:]) or tuple(KINDS)
    campaign(int(sys.argv[1]) if len(sys.argv) > 1 else 60, kinds=kinds)
