"""Two passes, killed at any moment in either, end with the same coreset."""

from __future__ import annotations

import os

import numpy as np
import pyarrow.csv as pacsv
import pytest
from latent_data import CASES
from latent_tables import case_of

import karat
from karat import problems as P
from karat.io.find import open_source
from karat.storage.archive import read_archive


class Stop(BaseException):
    pass


def run(case, source, checkpoint=None, after=None, seen=None, **options):
    """A run, or one that stops as a kill would after some batches; ``seen`` counts them."""
    seen = [] if seen is None else seen

    def stop(done, total):
        seen.append(done)
        if len(seen) == after:
            raise Stop

    options = (
        {"problem": case.problem(), "sample_weight": "w", "key": "id", "batch_rows": case.n // 7}
        | case.roles
        | options
    )
    return karat.coreset_files(source, checkpoint=checkpoint, progress=stop, **options)


def same(one, two):
    for name in ("indices", "weights", "keys"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for name, value in one.maps.items():
        np.testing.assert_array_equal(value, two.maps[name])


@pytest.mark.parametrize("tag", list(CASES))
def test_every_place_leads_to_the_same_end(tag, tmp_path):
    case, path = case_of(tag), tmp_path / "c.npz"
    folder = case.write(tmp_path / "data")
    seen = []
    whole = run(case, folder, seen=seen)
    some = len(seen) // 4
    # one run is killed twice in the first pass, and then in the second
    for after in (some, some // 2, 2 * some):
        with pytest.raises(Stop):
            run(case, folder, path, after)
    assert read_archive(path, "")[0]["pass"] == 2
    same(run(case, folder, path), whole)
    same(run(case, folder, path), whole)  # a run that had ended returns its coreset
    assert run(case, folder, path).certificate.notes == whole.certificate.notes


@pytest.mark.sampled(3)
@pytest.mark.parametrize("after", [3, 20, 29])
def test_csv_resumes_within_a_file(after, tmp_path):
    case = case_of("chain, gaussian")
    pacsv.write_csv(case.table, tmp_path / "one.csv")
    source = open_source(tmp_path / "one.csv", block_bytes=150_001)
    whole = run(case, source, batch_rows=1000)
    with pytest.raises(Stop):
        run(case, source, tmp_path / "c.npz", after, batch_rows=1000)
    same(run(case, source, tmp_path / "c.npz", batch_rows=1000), whole)


def test_other_calls_and_changed_files_are_noticed(tmp_path):
    case, path = case_of("mixture"), tmp_path / "c.npz"
    folder = case.write(tmp_path / "data")
    with pytest.raises(Stop):
        run(case, folder, path, 8)
    with pytest.raises(karat.InputError, match="another call: problem differ"):
        run(case, folder, path, problem=case.problem("moments"))
    with pytest.raises(karat.InputError, match="another call: features differ"):
        run(case, folder, path, columns=case.columns[:5])
    os.utime(folder / "part-000.parquet", ns=(1, 1))
    with pytest.raises(karat.InputError, match=r"part-000\.parquet changed since"):
        run(case, folder, path)
    karat.coreset_files(folder, columns=case.columns, checkpoint=tmp_path / "plain.npz")
    with pytest.raises(karat.InputError, match=r"another call: .*problem differ"):
        run(case, folder, tmp_path / "plain.npz")
    with pytest.raises(karat.InputError, match="another call"):
        karat.coreset_files(folder, problem=P.Moments(2), columns=case.columns, checkpoint=path)
