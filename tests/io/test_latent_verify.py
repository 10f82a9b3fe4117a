"""Coresets of latent-variable problems against their files, in bounded memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from latent_data import CASES
from latent_tables import MODES, case_of
from tables import write

import karat
from karat import problems as P

pytestmark = pytest.mark.filterwarnings("ignore:.*were left out")


@pytest.mark.parametrize("keep", MODES)
@pytest.mark.parametrize("tag", list(CASES))
def test_proven_and_refuted(tag, keep, tmp_path):
    case = case_of(tag)
    folder = case.write(tmp_path / "data")
    core = karat.coreset_files(
        folder, problem=case.problem(keep), sample_weight="w", key="id", **case.roles
    )
    found = karat.verify_files(core)
    assert found.ok, str(found)
    assert (found.data, found.moved) == ("identical", ())
    assert found.certificate.passes == 2
    in_memory = core.verify(case.X, sample_weight=case.weights, **case.lengths)
    assert found.certificate.loss_error <= 10 * max(in_memory.loss_error, 1e-14)
    assert [n for n in found.certificate.notes if "left out" in n] == [
        n for n in in_memory.notes if "left out" in n
    ]
    wrong = karat.verify_files(
        replace(core, weights=core.weights * np.linspace(0.9, 1.1, len(core)))
    )
    assert not wrong.ok
    assert wrong.data == "identical"


def test_other_data_has_other_maps_and_other_rows(tmp_path):
    case = case_of("mixture")
    core = karat.coreset_files(case.write(tmp_path / "data"), problem=case.problem(), **case.roles)
    name = case.columns[0]
    values = case.table[name].to_numpy().copy()
    values[core.indices[1]] += 1.0
    changed = case.table.set_column(case.table.column_names.index(name), name, pa.array(values))
    found = karat.verify_files(core, write(changed, tmp_path / "other"))
    assert found.moved == (int(core.indices[1]),)
    assert found.data == "changed"
    assert not found.certificate.ok
    notes = " ".join(found.certificate.notes)
    assert "The stored maps are not those of this data" in notes
    assert "The kept rows are not the rows of this data" in notes


def test_tables_are_read_twice_and_streams_are_refused():
    case = case_of("mixture")
    core = karat.coreset_files(case.table, problem=case.problem(), columns=case.columns)
    assert karat.verify_files(core, case.table).data == "identical"
    assert karat.verify_files(core, case.table).ok
    with pytest.raises(karat.InputError, match="a stream can be read only once"):
        karat.verify_files(core, case.table.to_reader())


def peak(path, core):
    """The largest memory of a verification, of NumPy and of Arrow, in bytes."""
    seen = []
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    found = karat.verify_files(
        core, path, memory=20_000_000, progress=lambda *_: seen.append(pa.total_allocated_bytes())
    )
    traced = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.ok
    assert found.data == "identical"
    return traced + max(seen) - before


def test_memory_does_not_grow_with_the_data(tmp_path):
    rng = np.random.default_rng(0)
    schema = pa.schema([(f"x{i}", pa.float64()) for i in range(8)])
    peaks = []
    for chunks in (10, 40):
        path = tmp_path / f"{chunks}.parquet"
        with pq.ParquetWriter(path, schema) as writer:
            for _ in range(chunks):
                hidden = rng.integers(2, size=2**14)[:, None]
                rows = rng.standard_normal((2**14, 8)) + 4 * hidden * np.arange(8)
                writer.write_table(pa.table(list(rows.T), schema=schema))
        core = karat.coreset_files(path, problem=P.GaussianMixture(2), memory=20_000_000)
        peaks.append(peak(path, core))
    assert peaks[1] < 1.25 * peaks[0]
    assert peaks[1] < 40 * 2**14 * 8 * 8  # bytes of all rows
