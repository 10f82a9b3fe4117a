"""Sketches and checkpoints of runs that 0.2.0 made are refused: what their sums were rounded by is
not known.
"""

from __future__ import annotations

import shutil

import pytest
from golden.recipes import ROWS, batches, columns_in_files, csv_parts, in_memory, run_options, stops
from golden.recipes_0_2_0 import CASES, FILES

import karat

RUNS = [(name, suffix) for name, case in CASES.items() if case.run for suffix in stops(case)]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.sketch])
def test_a_sketch_must_be_fed_again(name):
    with pytest.raises(
        karat.InputError,
        match=r"sketch was made by an older version of the proof, so it cannot continue\. Feed",
    ):
        karat.Sketch.load(FILES / f"{name}.sketch.npz", **CASES[name].asked)


@pytest.mark.parametrize(("name", "suffix"), RUNS)
def test_a_run_must_start_again(name, suffix, tmp_path):
    case = CASES[name]
    checkpoint = shutil.copy(FILES / f"{name}.{suffix}.npz", tmp_path / "run.npz")
    before = checkpoint.read_bytes()
    address, options = source(name, case), run_options(case, case.data())
    with pytest.raises(
        karat.InputError,
        match=r"checkpoint was made by an older version of the proof, .* cannot continue\. Delete",
    ):
        karat.coreset_files(address, checkpoint=checkpoint, **options)
    assert checkpoint.read_bytes() == before
    if suffix in ("run", "run-2"):  # what the message says helps
        checkpoint.unlink()
        assert karat.coreset_files(address, checkpoint=checkpoint, **options).certificate.ok


def source(name, case):
    """The files of a run, at the address that its checkpoint knows."""
    if case.run == "csv":
        return in_memory(name, csv_parts(columns_in_files(case.data())[0]), "csv")
    return in_memory(name, [(FILES / f"{name}.data.parquet").read_bytes()], "parquet")


def test_what_is_made_now_goes_on(tmp_path):
    case = CASES["least_squares"]
    data = case.data()
    sketch = karat.Sketch(case.problem)
    for arguments, options in batches(case, data, 0, ROWS // 2):
        sketch.update(*arguments, **options)
    sketch.save(tmp_path / "sketch.npz")
    again = karat.Sketch.load(tmp_path / "sketch.npz")
    for arguments, options in batches(case, data, ROWS // 2, ROWS):
        again.update(*arguments, **options)
    assert again.coreset().verify(data.X, data.y).ok
