"""The documentation builds without a warning, and every link inside it works."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("sphinx", "numpydoc", "sphinx_gallery", "pydata_sphinx_theme", "myst_parser", "latex2mathml", "ziamath")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built from a copy; examples are shown but not run, tests/estimators/test_examples.py runs them."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"The documentation needs {', '.join(missing)}: pip install --group docs.")
    copy = tmp_path_factory.mktemp("docs")
    made = shutil.ignore_patterns("_build", "gallery", "generated", "__pycache__")
    for folder in ("docs", "examples"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=made)
    shutil.copy(ROOT / "CHANGELOG.md", copy)
    command = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-D", "plot_gallery=0"]
    done = subprocess.run(
        [*command, "docs", "html"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "html"


@pytest.mark.slow
def test_links(site: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "_ext" / "links.py", site], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_every_public_name_has_a_page(site: Path) -> None:
    import karat
    from karat import estimators, models, problems

    pages = {path.stem for path in (site / "api" / "generated").glob("*.html")}
    expected = {f"karat.{name}" for name in karat.__all__ if name != "problems"}
    expected |= {f"karat.problems.{name}" for name in problems.__all__}
    expected |= {f"karat.models.{name}" for name in models.__all__}
    expected |= {f"karat.estimators.{name}" for name in estimators.__all__ if name not in karat.__all__}
    assert expected <= pages, sorted(expected - pages)


@pytest.mark.slow
def test_every_problem_says_what_it_keeps(site: Path) -> None:
    from karat import problems

    text = re.sub(r"<[^>]*>", "", (site / "problems" / "index.html").read_text())
    for name in problems.__all__:
        if name != "Problem":
            assert name in text, name


@pytest.mark.slow
def test_formulas_are_set(site: Path) -> None:
    """No LaTeX is left in a page for a script to find, and no command that the converter does not know."""
    for path in site.rglob("*.html"):
        for formula in re.findall(r"<math.*?</math>", path.read_text(), re.DOTALL):
            assert "\\" not in re.sub(r"<annotation.*?</annotation>", "", formula, flags=re.DOTALL), (path.name, formula)
