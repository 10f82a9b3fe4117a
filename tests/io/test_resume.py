"""Killed at any moment, a run resumes and ends with the same coreset; nothing is ever
half-written.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tables import COLUMNS, arrays, make, write

import karat
from karat import problems as P
from karat.io.find import open_source
from karat.storage.archive import read_archive

SCRIPT = """
import sys, time
import karat
source, checkpoint, output, pause = sys.argv[1:]
karat.coreset_files
print("ready", flush=True)
core = karat.coreset_files(
    source, "y", columns=["a", "b", "c", "d"], groups="g", key="id", batch_rows=2000,
    checkpoint=checkpoint, progress=lambda done, total: time.sleep(float(pause)),
)
core.save(output)
"""


def start(source, checkpoint, output, pause):
    command = [sys.executable, "-c", SCRIPT, str(source), str(checkpoint), str(output), str(pause)]
    env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def interrupted(folder, checkpoint, after):
    """A run that stops, as a kill would, after some batches."""

    class Stop(BaseException):
        pass

    seen = []

    def stop(done, total):
        seen.append(done)
        if len(seen) == after:
            raise Stop

    with pytest.raises(Stop):
        run(folder, checkpoint, progress=stop)


def run(folder, checkpoint=None, **kwargs):
    return karat.coreset_files(
        folder, "y", columns=COLUMNS, checkpoint=checkpoint, **{"batch_rows": 2000} | kwargs
    )


@pytest.mark.parametrize("after", [1, 3, 4, 17, 29])
def test_every_place_leads_to_the_same_end(after, folder, tmp_path):
    whole = run(folder)
    interrupted(folder, tmp_path / "c.npz", after)
    core = run(folder, tmp_path / "c.npz")
    np.testing.assert_array_equal(core.indices, whole.indices)
    np.testing.assert_array_equal(core.weights, whole.weights)
    again = run(folder, tmp_path / "c.npz")  # a run that had ended returns its coreset
    np.testing.assert_array_equal(again.weights, whole.weights)


@pytest.mark.parametrize("after", [14, 40, 70])
def test_csv_resumes_within_a_file(after, table, tmp_path):
    pacsv.write_csv(table, tmp_path / "one.csv")
    source = open_source(tmp_path / "one.csv", block_bytes=200_000)
    seen = []
    whole = run(source, progress=lambda done, total: seen.append(done))
    assert len(set(seen)) > 15
    assert seen == sorted(seen)
    interrupted(source, tmp_path / "c.npz", after)
    header, _ = read_archive(tmp_path / "c.npz", "a checkpoint")
    place, rows = header["extra"]["place"], header["n_rows"]
    assert 0 < rows < len(table)  # it was written in the middle of the only file
    assert (place["file"], place["row"]) == (0, rows)
    assert 0 < place["cursor"] < (tmp_path / "one.csv").stat().st_size
    rest = []
    core = run(source, tmp_path / "c.npz", progress=lambda done, total: rest.append(done))
    assert rest == sorted(rest)
    later = {done for done in seen if done > place["cursor"]}
    assert set(rest) - {place["cursor"]} == later  # what was done is not read again
    np.testing.assert_array_equal(core.indices, whole.indices)
    np.testing.assert_array_equal(core.weights, whole.weights)


def test_changed_files_are_noticed(folder, table, tmp_path):
    interrupted(folder, tmp_path / "c.npz", 7)
    path = folder / "part-000.parquet"
    part = pq.read_table(path)
    pq.write_table(part.slice(0, 100), path)
    with pytest.raises(karat.InputError, match=r"part-000\.parquet changed since the checkpoint"):
        run(folder, tmp_path / "c.npz")
    write(table, folder)  # the same rows, written again: the time tells
    with pytest.raises(karat.InputError, match="changed since"):
        run(folder, tmp_path / "c.npz")
    (tmp_path / "c.npz").unlink()
    pq.write_table(part, folder / "part-999.parquet")
    interrupted(folder, tmp_path / "c.npz", 7)
    (folder / "part-999.parquet").unlink()
    with pytest.raises(karat.InputError, match=r"part-999\.parquet changed"):
        run(folder, tmp_path / "c.npz")


def test_a_file_that_changes_while_it_is_read(folder):
    def touch(done, total):
        os.utime(folder / "part-004.parquet")

    with pytest.raises(karat.InputError, match=r"part-004\.parquet changed while it was read"):
        run(folder, progress=touch)


def test_the_checkpoint_of_another_call(folder, tmp_path):
    interrupted(folder, tmp_path / "c.npz", 7)
    for other in (
        {"problem": P.Ridge(3.0)},
        {"batch_rows": 3000},
        {"random_state": 1},
        {"sample_weight": "w"},
    ):
        with pytest.raises(karat.InputError, match=r"another call|was saved for"):
            run(folder, tmp_path / "c.npz", **other)


def test_two_processes_on_one_checkpoint(folder, tmp_path):
    first = start(folder, tmp_path / "c.npz", tmp_path / "core.npz", 0.2)
    try:
        deadline = time.time() + 60
        while not (tmp_path / "c.npz.lock").exists() and time.time() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        with pytest.raises(karat.InputError, match="Another process is writing the checkpoint"):
            run(folder, tmp_path / "c.npz", groups="g", key="id")
    finally:
        first.kill()
        first.communicate()
    # the lock went with the process
    assert run(folder, tmp_path / "c.npz", groups="g", key="id").certificate.ok


def test_two_processes_writing_one_output(tmp_path):
    script = """
import sys, numpy as np, karat
X = np.random.default_rng(int(sys.argv[2])).standard_normal((500, 3))
core = karat.coreset(X)
for _ in range(40):
    core.save(sys.argv[1])
"""
    path = tmp_path / "core.npz"
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(seed)]) for seed in (1, 2)
    ]
    reads = 0
    while any(w.poll() is None for w in writers):
        if path.exists():
            assert len(karat.load(path)) == 10  # always a whole file
            reads += 1
        time.sleep(0.005)
    assert [w.wait() for w in writers] == [0, 0]
    assert reads > 5
    assert os.listdir(tmp_path) == ["core.npz"]


@pytest.mark.parametrize("broken", ["write", "fsync", "replace"])
def test_a_full_disk(broken, folder, tmp_path, monkeypatch):
    path = tmp_path / "out" / "c.npz"
    path.parent.mkdir()
    interrupted(folder, path, 7)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    real = os.fdopen

    def open_full(handle, mode):
        file = real(handle, mode)

        class Full:
            def __enter__(self):
                return self

            def __exit__(self, *args):
                file.close()

            def write(self, data):
                file.write(data[:100])
                full()

        return Full()

    with monkeypatch.context() as patch:
        if broken == "write":
            patch.setattr("karat.storage.archive.os.fdopen", open_full)
        elif broken == "fsync":
            patch.setattr("karat.storage.archive.os.fsync", full)
        else:
            patch.setattr("karat.storage.archive.Path.replace", full)
        with pytest.raises(karat.StorageError, match=r"No space left on device.*unchanged"):
            run(folder, path)
        with pytest.raises(karat.StorageError, match="could not be written"):
            karat.coreset(arrays(make(500))[0]).save(tmp_path / "core.npz")
    assert path.read_bytes() == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["c.npz"]
    assert not (tmp_path / "core.npz").exists()
    np.testing.assert_array_equal(run(folder, path).weights, run(folder).weights)
