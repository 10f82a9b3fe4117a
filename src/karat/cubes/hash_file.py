"""The hashes of the rows of a cube on disk: in its file, or in a file of their own beside it.

Inside, they are two columns of lists: the first kept row of a cell has those of all of its rows.
Beside, they are a table of one line per hash.  The name of that file holds a digest of its content,
and the cube's file says which it is: so a change, which writes the hashes first, still is one step.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from karat.cubes.cells import Cells
from karat.cubes.hashes import CellHashes
from karat.engine.linalg import Indices
from karat.errors import InputError, StorageError, reading, require
from karat.storage.archive import read_bytes, write_atomically
from karat.storage.parquet import pack_table, unpack_table

WHAT = "the hashes of a cube"
DIGITS = 16
PLACES = ("inside", "beside")


def check_place(hashes: Any) -> None:
    """Raise unless the argument says where hashes are stored."""
    if hashes not in PLACES:
        raise InputError(
            f"hashes must be 'inside' (in the file of the cube) or 'beside' (in a file of their"
            f" own), not {hashes!r}.",
            argument="hashes",
        )


def inside(cells: Cells) -> tuple[dict[str, np.ndarray], list[tuple[str, str, list[str]]]]:
    """Hashes as arrays for the file of the cube, and their columns."""
    words, counts = cells.hashes.words, np.zeros(len(cells.weights), dtype=np.int64)
    if not len(words):
        return {}, []
    counts[cells.starts[:-1]] = np.diff(cells.hashes.starts)
    high, low = words.T if words.shape[1] == 2 else words.view(np.uint32).T[::-1]
    ends = np.append(0, np.cumsum(counts))
    name = "row_hash" if words.shape[1] == 1 else "key_hash"
    arrays = {"hashes/indices": high.copy(), "hashes/data": low.copy(), "hashes/indptr": ends}
    return arrays, [("hashes", "sparse", [name, f"{name}_low"])]


def from_inside(arrays: Mapping[str, np.ndarray], starts: Indices) -> CellHashes:
    """What :func:`inside` made; older files, and rows that were not hashed, have none."""
    if "hashes/indptr" not in arrays:
        return CellHashes.none(len(starts) - 1)
    high, low, ends = (arrays[f"hashes/{part}"] for part in ("indices", "data", "indptr"))
    kinds = {high.dtype, low.dtype}
    require(kinds in ({np.dtype(np.uint32)}, {np.dtype(np.uint64)}), "its hashes are not valid")
    require(
        len(ends) == int(starts[-1]) + 1 and int(ends[-1]) == len(high) == len(low),
        "its hashes are cut off",
    )
    words = np.column_stack([low, high] if high.dtype == np.uint32 else [high, low])
    return CellHashes(ends[starts].astype(np.intp), words.view(np.uint64).reshape(len(high), -1))


def write_beside(path: Path, hashes: CellHashes) -> str:
    """Write hashes to a file of their own beside the file of a cube; its name."""
    columns = [f"hash_{i}" for i in range(hashes.words.shape[1])]
    arrays = {"words": hashes.words, "starts": np.asarray(hashes.starts, dtype=np.int64)}
    data = pack_table({"kind": "hashes"}, arrays, [("words", "array", columns)])
    name = f"{path.stem}.{sha256(data).hexdigest()[:DIGITS]}.hashes.parquet"
    write_atomically(path.with_name(name), lambda file: file.write(data))
    return name


def remove_others(path: Path, name: str | None) -> None:
    """Remove the files of hashes beside a cube, but for the one that it names."""
    pattern = f"{glob.escape(path.stem)}.{'[0-9a-f]' * DIGITS}.hashes.parquet"
    for file in path.parent.glob(pattern):
        if file.name != name:
            file.unlink(missing_ok=True)


def read_beside(folder: Path | None, name: Any, cells: int) -> CellHashes:
    """The hashes that a cube names, from the folder of its file."""
    named = isinstance(name, str) and re.fullmatch(
        rf"[^/\\]*\.[0-9a-f]{{{DIGITS}}}\.hashes\.parquet", name
    )
    require(bool(named), "it names no file of hashes")
    if folder is None or not (folder / name).is_file():
        raise StorageError(
            f"The hashes of the rows of this cube are in a file of their own, {name}, which is not"
            " beside it. Put it there, or load the cube with hashes=False: it will not know the"
            " rows that it has already."
        )
    header, arrays = unpack_table(read_bytes(folder / name), name, WHAT)
    with reading(name, WHAT):
        words, starts = arrays["words"], arrays["starts"]
        require(header.get("kind") == "hashes", "it holds something else")
        require(words.dtype == np.uint64 and words.ndim == 2, "its hashes are not valid")
        require(
            len(starts) == cells + 1
            and int(starts[0]) == 0
            and int(starts[-1]) == len(words)
            and bool((np.diff(starts) >= 0).all()),
            "its hashes are those of another cube",
        )
    return CellHashes(starts.astype(np.intp), words)
