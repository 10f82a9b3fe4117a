"""The table "Where to add things" of ARCHITECTURE.md is true: each addition in ``patches`` changes
the files that its row names, no others, and works.

A patch is a module with ``ROW`` (the first cell of its row), ``NEW_FILES`` (texts by path),
``CHANGES`` (a path, a text that occurs once in that file, and the text that takes its place) and
``SCRIPT``, which uses the addition and compares it with an independent computation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest
from structure.patches import covariance_type, estimator_rule, file_format, problem
from structure.private_names import uses

import karat

PACKAGE = Path(karat.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "ARCHITECTURE.md"
EXTRAS = {  # what the scripts import
    problem: ("typer",),
    file_format: ("pyarrow",),
    estimator_rule: ("sklearn",),
    covariance_type: ("pyarrow", "statsmodels", "formulaic"),
}
FROM_THE_COPY = "import karat\nassert karat.__file__ == {!r}, karat.__file__\n"


def table() -> dict[str, str]:
    """What to add, and where to write it."""
    section = ARCHITECTURE.read_text(encoding="utf-8").split("\n## Where to add things\n")[1]
    lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["to add", "write in", "copy from"]
    return {add: write for add, write, _ in cells[2:]}


def named(text: str) -> tuple[set[str], set[str]]:
    """The modules and the folders that a cell names, such as `io/find.py` and `io/`."""
    paths = re.findall(r"`([\w/]+(?:\.py|/))`", text)
    return {p for p in paths if p.endswith(".py")}, {p for p in paths if p.endswith("/")}


def apply(patch: ModuleType, package: Path) -> None:
    for path, text in patch.NEW_FILES.items():
        assert not (package / path).exists(), f"{path} exists already"
        (package / path).write_text(text, encoding="utf-8")
    for path, anchor, replacement in patch.CHANGES:
        text = (package / path).read_text(encoding="utf-8")
        count = text.count(anchor)
        assert count == 1, f"{path} has the anchor {anchor!r} {count} times, instead of once"
        (package / path).write_text(text.replace(anchor, replacement), encoding="utf-8")


def test_the_patches_are_those_of_the_first_rows():
    assert list(table())[: len(EXTRAS)] == [patch.ROW for patch in EXTRAS]


@pytest.mark.parametrize("patch", EXTRAS, ids=lambda patch: patch.__name__.split(".")[-1])
def test_an_addition_changes_the_named_files_only(patch):
    modules, folders = named(table()[patch.ROW])
    assert {path for path, _, _ in patch.CHANGES} == modules
    assert {f"{PurePosixPath(path).parent}/" for path in patch.NEW_FILES} == folders


@pytest.mark.sampled(2)
@pytest.mark.parametrize("patch", EXTRAS, ids=lambda patch: patch.__name__.split(".")[-1])
def test_an_addition_works(patch, tmp_path):
    missing = [name for name in EXTRAS[patch] if find_spec(name) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    package = tmp_path / "karat"
    shutil.copytree(PACKAGE, package)
    apply(patch, package)
    for path in {*patch.NEW_FILES, *(path for path, _, _ in patch.CHANGES)}:
        text = (package / path).read_text(encoding="utf-8")
        module = ".".join(("karat", *PurePosixPath(path).with_suffix("").parts))
        assert not list(uses(module, text))
        assert len(text.splitlines()) <= 450, path
        assert max(map(len, text.splitlines())) <= 100, path
    script = tmp_path / "script.py"
    script.write_text(
        FROM_THE_COPY.format(str(package / "__init__.py")) + patch.SCRIPT, encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
