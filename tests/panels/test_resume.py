"""A run that is killed at any moment resumes and ends with the same bits."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from panels.resumed import table, write

import karat
from karat.panels.levels import Levels
from karat.panels.pairs import PairCounts

nightly = pytest.mark.nightly
pytestmark = pytest.mark.filterwarnings("ignore:.*singletons:UserWarning")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("panel") / "files")


@pytest.fixture(scope="module")
def whole(files):
    return table(files, None)


class Stop(BaseException):
    """Stops a run, as a kill would."""


def interrupted(files: Path, checkpoint: Path, after: int) -> int:
    """A run that stops after some batches; how many it saw."""
    seen = []

    def stop(done, total):
        seen.append(done)
        if len(seen) == after:
            raise Stop

    with contextlib.suppress(Stop):
        table(files, checkpoint, stop)
    return len(seen)


@pytest.mark.parametrize(
    "after",
    [
        [35],
        [101, 10],
        *(pytest.param(after, marks=nightly) for after in ([52, 1], [17, 25], [75], [7] * 30)),
    ],
)
def test_every_place_leads_to_the_same_bits(after, files, whole, tmp_path):
    checkpoint = tmp_path / "c.npz"
    for count in after:
        interrupted(files, checkpoint, count)
    assert table(files, checkpoint) == whole
    read = []
    assert table(files, checkpoint, lambda done, total: read.append(done)) == whole
    assert not read  # a run that had ended reads nothing


def test_finished_passes_are_not_read_again(files, tmp_path):
    batches = interrupted(files, tmp_path / "whole.npz", -1)
    each = batches // 4  # levels, sums, decisions, scores
    interrupted(files, tmp_path / "c.npz", 3 * each + 1)
    assert interrupted(files, tmp_path / "c.npz", -1) <= batches - 3 * each


@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=nightly)])
def test_killed_processes(kills, files, tmp_path):
    rng, work = np.random.default_rng(kills), tmp_path / "work"
    work.mkdir()

    def start(pause: float, checkpoint: str = "work/c.npz") -> subprocess.Popen:
        output = (tmp_path / checkpoint).with_name("bits")
        arguments = [str(files), str(tmp_path / checkpoint), str(output), str(pause)]
        command = [sys.executable, "-m", "panels.resumed", *arguments]
        home = Path(__file__).parents[1]
        env = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # the same last bits
        return subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE, text=True)

    for _ in range(kills):
        with start(0.1) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.5, 6.0))
            process.send_signal(signal.SIGKILL)
    for checkpoint in ("work/c.npz", "whole.npz"):
        with start(0, checkpoint) as process:
            assert process.wait() == 0
    assert (work / "bits").read_bytes() == (tmp_path / "bits").read_bytes()
    names = {path.name for path in work.iterdir()}  # nothing is left half-written
    passes = {f"c.pass-{number}.npz" for number in (1, 2, 3)}
    assert names - {"c.npz"} == {"c.design.npz", "bits"} | passes


def test_another_call_or_changed_files_are_refused(tmp_path):
    files = write(tmp_path / "files", 2, 3000)
    karat.ols("y ~ x1 | firm", files, checkpoint=tmp_path / "c.npz")
    with pytest.raises(karat.InputError, match="checkpoint of another call: formula differ"):
        karat.ols("y ~ x1 | year", files, checkpoint=tmp_path / "c.npz")
    with pytest.raises(karat.InputError, match="checkpoint of another call: cov_type differ"):
        karat.ols("y ~ x1 | firm", files, checkpoint=tmp_path / "c.npz", cov_type="HC1")
    pd.read_parquet(files / "0.parquet").iloc[1:].to_parquet(files / "0.parquet")
    with pytest.raises(karat.InputError, match=r"0\.parquet changed since the checkpoint"):
        karat.ols("y ~ x1 | firm", files, checkpoint=tmp_path / "c.npz")


def test_damaged_files_are_refused(tmp_path):
    files = write(tmp_path / "files", 2, 3000)
    karat.ols("y ~ x1 | firm", files, checkpoint=tmp_path / "c.npz")
    path = tmp_path / "c.pass-1.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        karat.InputError, match=r"pass-1\.npz is not a checkpoint, or it is damaged"
    ):
        karat.ols("y ~ x1 | firm", files, checkpoint=tmp_path / "c.npz")


@pytest.mark.parametrize("formula", ["y ~ x1 | firm", "y ~ x1"])
def test_what_cannot_be_resumed_is_refused(formula, tmp_path):
    frame = pd.read_parquet(write(tmp_path / "files", 1, 500))
    said = "Only a run over files" if "|" in formula else "checkpoint= is for tables with fixed"
    with pytest.raises(karat.InputError, match=said):
        karat.ols(formula, frame, checkpoint=tmp_path / "c.npz")


def test_labels_of_every_type_are_restored():
    labels = [
        3, "three", -(2**70), 2.5, True, datetime.date(2020, 1, 2), "",
        datetime.datetime(2020, 1, 2, 3, 4), 2**63, "é", False, 0.0,
    ]  # fmt: skip
    before = Levels()
    before.codes(np.array(labels, dtype=object))
    header, arrays = before.state()
    after = Levels()
    after.restore(header, arrays)
    assert [(type(label), label) for label in after.labels()] == [
        (type(label), label) for label in before.labels()
    ]
    tuples = Levels(places={(1, 2): 0}, count=1)
    with pytest.raises(karat.InputError, match="Labels of type tuple cannot be saved"):
        tuples.state()


def test_pairs_that_wait_are_summed_as_without_a_checkpoint():
    rng = np.random.default_rng(0)
    parts = [(rng.integers(0, 40, 500), rng.integers(0, 9, 500), rng.random(500)) for _ in "abcd"]
    whole, resumed = (PairCounts(("a", "b"), True, 10**6) for _ in range(2))
    for number, part in enumerate(parts):
        whole.add(*part)
        resumed.add(*part)
        header, arrays = resumed.state()
        resumed = PairCounts(("a", "b"), True, 10**6)
        resumed.restore(header, arrays)
        if number == 1:
            whole.settle()
            resumed.settle()
    for pairs in (whole, resumed):
        pairs.settle()
    assert whole.keys.tobytes() == resumed.keys.tobytes()
    assert whole.weights.tobytes() == resumed.weights.tobytes()
