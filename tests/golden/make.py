"""Write the golden files: what karat 0.1.0 saves, which every later version must load.

    PYTHONPATH=src:tests python -m golden.make

Fixed seeds and the public API only.  Beside the files stands ``expected.json``: plain facts about them, with the losses of the
full data by plain NumPy.  It was run once, at version 0.1.0; other versions refuse to run it.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from golden import plain
from golden.recipes import (
    BATCH,
    RIGHT,
    ROWS,
    SKETCHED,
    WRONG,
    Case,
    Data,
    Wrong,
    batches,
    columns_in_files,
    contained,
    csv_parts,
    in_memory,
    run_options,
    stops,
)
from golden.stored import EXPECTED, FILES, VISIBLE

import karat
from karat import problems as P

VERSION = "0.1.0"


class Interrupted(BaseException):
    """Ends a run as a kill would."""


def facts(core: karat.Coreset) -> dict[str, Any]:
    """What a file must give back."""
    lists = {name: getattr(core, name) for name in ("indices", "weights", "groups", "keys")}
    problem = {"name": type(core.problem).__name__, "params": core.problem.params() if core.problem.storable else None}
    described = {"n_rows": core.n_rows, "size": len(core), "problem": problem}
    return described | {name: None if value is None else value.tolist() for name, value in lists.items()}


def right(name: str, case: Case) -> dict[str, Any]:
    """The files of one case, and the facts about them."""
    data = case.data()
    core = coreset_of(case, data)
    for suffix in ("npz", "parquet"):
        core.save(FILES / f"{name}.{suffix}")
    found = facts(core) | {"container": case.container, "digest": data.digest(), "losses": []}
    for query in case.queries:
        value, scale = plain.loss(case.problem, data, query, core.maps)
        check(name, core.loss(np.array(query)), value, scale)
        found["losses"].append({"query": query, "value": value, "scale": scale})
    if core.maps is not None:
        found["maps"] = {key: np.asarray(value).tolist() for key, value in core.maps.items()}
    if getattr(case.problem, "keep", None) == "all":
        found["second_moments"] = second_moments(case, data).tolist()
    if case.sketch:
        found["sketch"] = sketched(name, case, data)
    if case.run is not None:
        address = in_memory(name, data_files(name, case, data), case.run)
        interrupt_runs(name, case, data, address)
        found["run"] = case.run
        if case.run == "parquet":
            found["files"] = core_of_files(name, case, data, address)
    return found


def second_moments(case: Case, data: Data) -> np.ndarray:
    if data.lengths is None:
        return plain.second_moments(case.problem, data.tables, data.mass)
    tables = plain.three_views(case.problem, data)
    return plain.second_moments(case.problem, tables, np.ones(len(tables[0])))


def coreset_of(case: Case, data: Data) -> karat.Coreset:
    if data.keys is None:
        return karat.coreset(*contained(data, case.container), case.problem, **data.options())
    return feed(karat.Sketch(case.problem, "id"), case, data, ROWS).coreset()


def feed(sketch: karat.Sketch, case: Case, data: Data, rows: int) -> karat.Sketch:
    for arguments, options in batches(case, data, 0, rows):
        sketch.update(*arguments, **options)
    return sketch


def sketched(name: str, case: Case, data: Data) -> dict[str, Any]:
    """A checkpoint of a sketch that has seen a part of the rows; what it would return."""
    sketch = karat.Sketch(case.problem, None if data.keys is None else "id", buffer_rows=BATCH)
    feed(sketch, case, data, SKETCHED).save(FILES / f"{name}.sketch.npz")
    return facts(karat.Sketch.load(FILES / f"{name}.sketch.npz", **case.asked).coreset())


def core_of_files(name: str, case: Case, data: Data, address: str) -> dict[str, Any]:
    """The coreset of a whole run, with its provenance."""
    core = karat.coreset_files(address, **run_options(case, data))
    for suffix in ("npz", "parquet"):
        core.save(FILES / f"{name}.files.{suffix}")
    return facts(core) | {"provenance": core.provenance}


def interrupt_runs(name: str, case: Case, data: Data, address: str) -> None:
    """Checkpoints of runs that were interrupted (latent problems: in the first pass, and in the second)."""
    for suffix, batch in stops(case).items():
        checkpoint = FILES / f"{name}.{suffix}.npz"
        checkpoint.unlink(missing_ok=True)
        try:
            karat.coreset_files(address, checkpoint=checkpoint, progress=interrupter(batch), **run_options(case, data))
        except Interrupted:
            checkpoint.with_name(f"{checkpoint.name}.lock").unlink()
        else:
            raise RuntimeError(f"{name} was not interrupted.")


def data_files(name: str, case: Case, data: Data) -> list[bytes]:
    """CSV files are made anew whenever they are needed; a Parquet file depends on pyarrow's version, so it is kept."""
    columns = columns_in_files(data)[0]
    if case.run == "csv":
        return csv_parts(columns)
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=BATCH)
    (FILES / f"{name}.data.parquet").write_bytes(file.getvalue())
    return [file.getvalue()]


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


def wrong(name: str, case: Wrong) -> dict[str, Any]:
    """A coreset that is accepted although it is wrong, and how far it is off."""
    data = case.data()
    core = wrong_coreset(case, data)
    for suffix in ("npz", "parquet"):
        core.save(FILES / f"wrong_{name}.{suffix}")
    if case.moment is None:
        full, scale = plain.loss(case.problem, data, case.query)
        kept = core.loss(np.array(case.query))
    else:
        full, scale = plain.moment(data, case.moment)
        kept = plain.moment(Data(core.arrays()[0]), case.moment, core.weights)[0]
    if not core.certificate.ok or abs(kept - full) < VISIBLE * scale:
        raise RuntimeError(f"{name} is not wrong: {kept} and {full} at the scale {scale}.")
    verified = bool(core.verify(data.X, data.y, **data.options()).ok)
    off = {"value": full, "scale": scale, "kept": kept, "claimed": core.certificate.loss_error}
    if isinstance(case.problem, P.LeastSquares | P.Ridge):
        off["coefficients"] = plain.coefficients(data, getattr(case.problem, "alpha", 0.0)).tolist()
        off["kept_coefficients"] = case.problem.solve(core).coef.tolist()
    return facts(core) | {"wrong": True, "digest": data.digest(), "off": off, "verify_accepts": verified}


def wrong_coreset(case: Wrong, data: Data) -> karat.Coreset:
    if case.batch is None:
        return karat.coreset(data.X, data.y, case.problem, **data.options())
    sketch = karat.Sketch(case.problem, buffer_rows=case.batch)
    for start in range(0, data.count, case.batch):
        part = data.take(slice(start, start + case.batch))
        sketch.update(part.X, part.y, **part.options())
    return sketch.coreset()


def main() -> None:
    if karat.__version__ != VERSION:
        raise SystemExit(f"These are the files of karat {VERSION}; this is {karat.__version__}.")
    FILES.mkdir(exist_ok=True)
    cases = {name: right(name, case) for name, case in RIGHT.items()}
    cases |= {f"wrong_{name}": wrong(name, case) for name, case in WRONG.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in cases.items())
    EXPECTED.write_text(f'{{"version": "{VERSION}", "cases": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
