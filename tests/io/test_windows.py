"""What is different on Windows, as far as another system can show it."""

import os

import numpy as np
import pandas as pd
import pytest

import karat
from karat.io.find import find_files


@pytest.fixture
def windows_paths(monkeypatch):
    """Absolute paths are written with backslashes, as ``os.path.abspath`` writes them there."""
    absolute = os.path.abspath
    monkeypatch.setattr("os.path.abspath", lambda path: absolute(path).replace("/", "\\"))
    monkeypatch.setattr("os.sep", "\\")


@pytest.mark.parametrize("pattern", ["*.csv", "*/part-*.csv", "**/*.csv"])
def test_patterns(tmp_path, windows_paths, pattern):
    (tmp_path / "year=2024").mkdir()
    names = ["part-0.csv", "year=2024/part-1.csv"]
    for name in names:
        pd.DataFrame({"a": np.arange(9.0)}).to_csv(tmp_path / name, index=False)
    expected = {"*.csv": names[:1], "*/part-*.csv": names[1:], "**/*.csv": names}[pattern]
    files = find_files([f"{tmp_path}/{pattern}"])[2]
    assert [file.path.removeprefix(f"{tmp_path}/") for file in files] == expected
    assert files[-1].folders == ({"year": 2024} if len(expected[-1]) > 10 else {})


def test_files_are_closed_before_they_are_replaced(tmp_path, monkeypatch):
    """Windows does not rename a file that is open; there are no locks there either."""
    monkeypatch.setattr("karat.storage.archive.LOCKS", False)
    replaced = []
    replace = os.replace

    def careful(source, target, **options):
        held = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        assert str(source) not in held
        assert str(target) not in held
        replaced.append(target)
        replace(source, target, **options)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("open files cannot be listed here")
    monkeypatch.setattr("os.replace", careful)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=list("aby"))
    frame["g"] = np.arange(200) % 4
    core = karat.coreset(frame[["a", "b", "y"]], "y")
    cube = karat.cube(frame, "y", by="g", path=tmp_path / "cube.parquet")
    for _ in range(2):  # the second time, files that were read are replaced
        for name in ("core.npz", "core.parquet"):
            core.save(tmp_path / name)
            core = karat.load(tmp_path / name)
        cube = karat.load(tmp_path / "cube.parquet")
        cube.update(frame + 1 if len(replaced) < 6 else frame + 2)
    assert len(replaced) >= 6
