"""A table with a checkpoint, whose passes pause often, in this process or in one to be killed."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from karat.formulas.passes import SourceRows, open_table
from karat.panels.effects import parse_effects
from karat.panels.fit import Panel

FORMULA = "y ~ x1 + x2 + C(kind) | firm^town + year"
KINDS = ("cluster", "HC1")
CLUSTERS = ("firm", "year", "town")
PAUSES = 4000  # rows between pauses


def write(folder: Path, parts: int = 6, rows: int = 5000) -> Path:
    """The files of a panel, with a regressor that the effects determine."""
    rng = np.random.default_rng(5)
    folder.mkdir()
    for part in range(parts):
        firm, year, town = (rng.integers(0, levels, rows) for levels in (90, 9, 7))
        columns = {
            "firm": firm, "year": year, "town": np.array(list("abcdefg"))[town],
            "kind": rng.integers(0, 3, rows), "w": 1 + firm % 7 / 3, "x2": 1.0 * year,
            "x1": rng.standard_normal(rows) + firm / 9,
        }  # fmt: skip
        frame = pd.DataFrame(columns)
        frame["y"] = frame["x1"] + year + rng.standard_normal(rows)
        frame.to_parquet(folder / f"{part}.parquet", row_group_size=1000)
    return folder


def table(files: Path, checkpoint: Path | None, progress: Any = None) -> list[bytes]:
    """The bits of the solution, its covariances and its effects."""
    rows = SourceRows(open_table(files), {}, progress, PAUSES)
    regressors, effects = parse_effects(FORMULA)
    with rows.resumable(checkpoint, {"formula": FORMULA}):
        panel = Panel.opened(FORMULA, regressors, effects, CLUSTERS, "w", rows, "error", None)
        model = panel.model(KINDS, True, False)
    found = [model.solution.params, *model.middles.values(), *model.clusters.middles.values()]
    return [np.ascontiguousarray(each).tobytes() for each in [*found, *model.absorbed.values]]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    source, checkpoint, output, pause = sys.argv[1:]
    print("ready", flush=True)
    bits = table(Path(source), Path(checkpoint), lambda done, total: time.sleep(float(pause)))
    Path(output).write_bytes(b"".join(bits))
