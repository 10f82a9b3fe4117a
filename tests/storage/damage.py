"""Damaged cubes, hashes and data files: none may be believed, or end in a raw exception.

    python -m storage.damage 3000   (in the folder tests) prints what happened

Bits flip, bytes are overwritten, cut off or swapped, whole pages change places.  Coresets, sketches
and checkpoints are those of :mod:`storage.fuzz`.  A cube that loads must be what was written.  Data
is verified with the hashes of a coreset: if nothing is found, every value must be the one that was
written, as pandas and pyarrow read it.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from storage.fuzz import campaign as campaign_of_coresets
from storage.fuzz import damaged, outcome

import karat
from karat.storage.archive import plain

COLUMNS = ["a", "b", "y"]
ROWS = 900


def table():
    rng = np.random.default_rng(3)
    numbers = {name: np.round(rng.standard_normal(ROWS), 4) for name in COLUMNS}
    labels = {"g": rng.choice(["north", "south"], ROWS), "id": np.arange(ROWS)}
    return pa.table({**numbers, **labels})


def picture(cube):
    """Everything that a cube says, for comparison."""
    cells = cube.cells
    arrays = {f"label{i}": values for i, values in enumerate(cells.labels)}
    arrays |= {f"column{i}": values for i, values in enumerate(cells.columns)}
    arrays |= {"starts": cells.starts, "weights": cells.weights, "numbers": cells.numbers}
    arrays |= {"words": cells.hashes.words, "hashes": cells.hashes.starts}
    arrays |= {} if cells.keys is None else {"keys": cells.keys}
    said = [certificate.to_dict() for certificate in cells.certificates]
    facts = [said, cells.origins, cells.parts, cube.history, repr(cube.layout), repr(cube)]
    return json.dumps(facts, default=str), {
        name: (array.dtype.str, array.shape, array.tobytes())
        for name, array in plain(arrays).items()
    }


def cubes(folder, rows):
    """Files of cubes, and their hashes: name -> reader of the file."""
    for name, how in {
        "made": {}, "keys": {"key": "id"}, "real": {"rows": "real", "key": "id"},
        "beside": {"hashes": "beside"},
    }.items():  # fmt: skip
        path = folder / f"{name}.parquet"
        karat.cube(rows, "y", "g", columns=["a", "b"], path=path, **how)
        yield path, lambda p: picture(karat.Cube.load(p))
    (hashes,) = folder.glob("beside.*.hashes.parquet")
    yield hashes, lambda p: picture(karat.Cube.load(p.with_name("beside.parquet")))


def values(path):
    """The values of a data file, or why another library cannot read them."""
    try:
        if path.suffix == ".csv":
            frame = pd.read_csv(path, usecols=COLUMNS, dtype=str)
        else:
            frame = pq.read_table(path, columns=COLUMNS).to_pandas()
        return frame[COLUMNS].astype(float).to_numpy().tobytes()
    except Exception as error:
        return f"unreadable: {type(error).__name__}"


def data(folder, rows):
    """Data files: the reader verifies them with the hashes of an undamaged copy."""
    pq.write_table(rows, folder / "plain.parquet", row_group_size=300)
    pq.write_table(
        rows, folder / "checked.parquet", row_group_size=300, write_page_checksum=True,
        compression="none",
    )  # fmt: skip
    rows.to_pandas().to_csv(folder / "lines.csv", index=False)
    for name in ("plain.parquet", "checked.parquet", "lines.csv"):
        core = karat.coreset_files(folder / name, "y", columns=["a", "b"])

        def read(path, core=core):
            built = karat.coreset_files(path, "y", columns=["a", "b"])
            if not karat.io.verify_files(core, path).ok:
                raise karat.InputError("It is noticed.")
            return values(path), built.n_rows

        yield folder / name, read


def swapped_pages(stored, rng):
    """A Parquet file in which two columns of a row group have changed places, if they are as long
    as one another.
    """
    try:
        groups = pq.ParquetFile(io.BytesIO(stored)).metadata
    except Exception:
        return None
    spans = []
    for group in range(groups.num_row_groups):
        for place in range(groups.num_columns):
            column = groups.row_group(group).column(place)
            start = column.dictionary_page_offset or column.data_page_offset
            spans.append((start, column.total_compressed_size))
    pairs = [(a, b, n) for a, n in spans for b, m in spans if n == m and a < b]
    if not pairs:
        return None
    a, b, n = pairs[int(rng.integers(len(pairs)))]
    mixed = bytearray(stored)
    mixed[a : a + n], mixed[b : b + n] = stored[b : b + n], stored[a : a + n]
    return bytes(mixed)


def campaign(count, seed=0):
    """Damage files ``count`` times; the outcomes, by kind of file."""
    rng, results = np.random.default_rng(seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        whole, broken, rows = Path(name) / "whole", Path(name) / "broken", table()
        whole.mkdir()
        files = [(path, read, "cube") for path, read in cubes(whole, rows)]
        files += [(path, read, "data") for path, read in data(whole, rows)]
        truths = [read(path) for path, read, _ in files]
        shutil.copytree(whole, broken)
        for i in range(count):
            place = i % len(files)
            path, read, kind = files[place]
            stored, bad = path.read_bytes(), None
            if rng.random() < 0.2:
                bad, kind = swapped_pages(stored, rng), f"{kind}, pages swapped"
            bad = damaged(stored, rng) if bad is None else bad
            target = broken / path.name
            target.write_bytes(bad)
            found = outcome(target, read, truths[place])
            results[f"{kind}: {found}" + (f" {path.name}" if found.isupper() else "")] += 1
            target.write_bytes(stored)
    return results


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for results in (campaign(number // 2, seed), campaign_of_coresets(number - number // 2, seed)):
        for name, times in sorted(results.items()):
            print(f"{times:6,}  {name}", flush=True)
