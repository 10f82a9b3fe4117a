"""Write the golden files of karat 0.2.0: coresets, sketches, checkpoints of runs, coresets of
files, and cubes.

    PYTHONPATH=<the source of 0.2.0>/src:tests python -m golden.make_0_2_0

Fixed seeds and the public API only.  ``expected_0_2_0.json`` has facts about the files, with the
losses and sums of the full data by plain NumPy.  It was run once, at version 0.2.0; other versions
refuse to run it.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from golden import plain
from golden.recipes import (
    BATCH,
    ROWS,
    SKETCHED,
    Case,
    Data,
    batches,
    columns_in_files,
    contained,
    csv_parts,
    in_memory,
    run_options,
    stops,
)
from golden.recipes_0_2_0 import CASES, CUBES, EXPECTED, FILES, MERGED, CubeCase, shop

import karat

VERSION, PROOF = "0.2.0", 2


class Interrupted(BaseException):
    """Ends a run as a kill would."""


def facts(core: karat.Coreset) -> dict[str, Any]:
    """What a file must give back."""
    lists = {name: getattr(core, name) for name in ("indices", "weights", "groups", "keys")}
    problem = {
        "name": type(core.problem).__name__,
        "params": core.problem.params() if core.problem.storable else None,
    }
    described = {"n_rows": core.n_rows, "size": len(core), "problem": problem}
    return described | {
        name: None if value is None else value.tolist() for name, value in lists.items()
    }


def made(name: str, case: Case) -> dict[str, Any]:
    """The files of one case, and the facts about them."""
    data = case.data()
    core = merged(case, data) if name == MERGED else coreset_of(case, data)
    saved(core, name)
    found = facts(core) | {
        "digest": data.digest(),
        "losses": losses(name, case, data, core),
        "run": case.run,
    }
    if case.sketch:
        sketch = karat.Sketch(case.problem, None if data.keys is None else "id", buffer_rows=BATCH)
        feed(sketch, case, data, SKETCHED).save(FILES / f"{name}.sketch.npz")
    if case.run is not None:
        address = in_memory(name, data_files(name, case, data), case.run)
        for suffix, batch in stops(case).items():
            interrupt(FILES / f"{name}.{suffix}.npz", batch, address, run_options(case, data))
        whole = karat.coreset_files(address, **run_options(case, data))
        saved(whole, f"{name}.files")
        found["files"] = facts(whole) | {"losses": losses(name, case, data, whole)}
    return found


def coreset_of(case: Case, data: Data) -> karat.Coreset:
    if data.keys is None:
        return karat.coreset(*contained(data, case.container), case.problem, **data.options())
    return feed(karat.Sketch(case.problem, "id"), case, data, ROWS).coreset()


def feed(sketch: karat.Sketch, case: Case, data: Data, rows: int) -> karat.Sketch:
    for arguments, options in batches(case, data, 0, rows):
        sketch.update(*arguments, **options)
    return sketch


def merged(case: Case, data: Data) -> karat.Coreset:
    parts = [data.take(rows) for rows in (slice(SKETCHED), slice(SKETCHED, None))]
    first, second = (karat.coreset(part.X, part.y, case.problem) for part in parts)
    return first.merge(second)


def saved(core: karat.Coreset, name: str) -> None:
    assert core.certificate.ok, name
    for suffix in ("npz", "parquet"):
        core.save(FILES / f"{name}.{suffix}")


def losses(name: str, case: Case, data: Data, core: karat.Coreset) -> list[dict[str, Any]]:
    found = []
    for query in case.queries:
        value, scale = plain.loss(case.problem, data, query, core.maps)
        check(name, core.loss(np.array(query)), value, scale)
        found.append({"query": query, "value": value, "scale": scale})
    return found


def data_files(name: str, case: Case, data: Data) -> list[bytes]:
    """CSV files are made anew whenever they are needed; a Parquet file depends on pyarrow's
    version, so it is kept.
    """
    columns = columns_in_files(data)[0]
    if case.run == "csv":
        return csv_parts(columns)
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=BATCH)
    (FILES / f"{name}.data.parquet").write_bytes(file.getvalue())
    return [file.getvalue()]


def interrupt(checkpoint: Path, batch: int, address: str, options: dict[str, Any]) -> None:
    checkpoint.unlink(missing_ok=True)
    try:
        karat.coreset_files(address, checkpoint=checkpoint, progress=interrupter(batch), **options)
    except Interrupted:
        checkpoint.with_name(f"{checkpoint.name}.lock").unlink(missing_ok=True)
    else:
        raise RuntimeError(f"{checkpoint.name} was not interrupted.")


def interrupter(batch: int) -> Any:
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == batch:
            raise Interrupted

    return progress


def check(name: str, kept: float, full: float, scale: float) -> None:
    if abs(kept - full) > 1e-11 * scale:
        raise RuntimeError(f"{name}: the loss is {kept}, that of the full data {full}.")


def cubed(name: str, case: CubeCase) -> dict[str, Any]:
    """The file of a cube, and of every cell its labels, rows, weight and second moments, from the
    full data.
    """
    columns = shop()
    frame = pd.DataFrame(columns)
    first = frame.iloc[:SKETCHED] if case.later else frame
    cube = karat.cube(first, by=list(case.by), problem=case.problem, **case.options)
    if case.later:
        cube.update(frame.iloc[SKETCHED:])
    cube.save(FILES / f"{name}.parquet")
    (FILES / f".{name}.parquet.lock").unlink(missing_ok=True)
    assert cube.to_frame().ok.all(), name
    cells = plain.cells(columns, case.by, case.names, case.options.get("sample_weight"))
    assert len(cells) == len(cube), name
    return {
        "cells": cells,
        "weights": cube.cells.weights.tolist(),
        "numbers": cube.cells.numbers.tolist(),
    }


def main() -> None:
    # a version that is being worked on has the old name
    proof = karat.coreset(np.eye(2)).certificate.proof_version
    if (karat.__version__, proof) != (VERSION, PROOF):
        raise SystemExit(
            f"These are the files of karat {VERSION}; this is {karat.__version__}, with proof"
            f" {proof}."
        )
    FILES.mkdir(exist_ok=True)
    parts = {"cases": {name: made(name, case) for name, case in CASES.items()}}
    parts["cubes"] = {name: cubed(name, case) for name, case in CUBES.items()}
    said = []
    for part, found in parts.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in found.items())
        said.append(f'"{part}": {{\n{lines}\n}}')
    EXPECTED.write_text(f'{{"version": "{VERSION}", {", ".join(said)}}}\n')


if __name__ == "__main__":
    main()
