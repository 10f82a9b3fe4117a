"""The documentation builds without a warning, its links work, and it says what the code says."""

from __future__ import annotations

import html
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import karat
from karat import estimators, models, problems, report

ROOT = Path(__file__).parents[2]
CHECKER = ROOT / "docs" / "_ext" / "links.py"
NEEDED = (
    "sphinx",
    "numpydoc",
    "sphinx_gallery",
    "pydata_sphinx_theme",
    "myst_parser",
    "latex2mathml",
    "ziamath",
)
PROBLEMS = {
    "least-squares": problems.LeastSquares(),
    "ridge": problems.Ridge(1.0, absorb="box"),
    "lp-regression": problems.LpRegression(4),
    "moments": problems.Moments(2),
    "tensor-contraction": problems.TensorContraction(3),
    "mean": problems.Mean(),
    "kernel": problems.Kernel(abs),
    "grouped-logistic": problems.GroupedLogistic([[0.0], [1.0]]),
    "transformed": problems.Transformed(problems.LeastSquares(), abs),
    "gaussian-mixture": problems.GaussianMixture(4),
    "single-topic": problems.SingleTopic(4),
    "latent-dirichlet": problems.LatentDirichlet(4, 1.0),
    "hidden-markov": problems.HiddenMarkov(4),
    "multi-view": problems.MultiView(4),
    "ica": problems.ICA(4),
}


@pytest.mark.nightly
def test_documentation(tmp_path: Path) -> None:
    """One test for the whole site, so that parallel runs build it once."""
    site = build(tmp_path)
    done = subprocess.run(
        [sys.executable, CHECKER, site], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert not unknown_names(site)
    assert not unsaid_words(site)
    assert not unset_formulas(site)


def build(folder: Path) -> Path:
    """The pages, from a copy of their sources; examples are shown but not run, which
    test_examples.py does.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"The documentation needs {', '.join(missing)}: pip install --group docs.")
    made = shutil.ignore_patterns("_build", "gallery", "generated", "__pycache__")
    for part in ("docs", "examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=made)
    for page in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / page, folder)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-n",
        "-W",
        "--keep-going",
        "-D",
        "plot_gallery=0",
        "docs",
        "html",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def unknown_names(site: Path) -> set[str]:
    """Public names without a page."""
    pages = {path.stem for path in (site / "api" / "generated").glob("*.html")}
    public = {f"karat.{name}" for name in karat.__all__ if name != "problems"}
    public |= {
        f"karat.estimators.{name}" for name in estimators.__all__ if name not in karat.__all__
    }
    for module in (models, problems, report):
        public |= {f"{module.__name__}.{name}" for name in module.__all__}
    return public - pages


def unsaid_words(site: Path) -> list[tuple[str, str]]:
    """What a problem keeps or excludes, and its page does not say."""
    unsaid = []
    for page, problem in PROBLEMS.items():
        text = html.unescape(
            re.sub(r"<[^>]*>", "", (site / "problems" / f"{page}.html").read_text())
        )
        unsaid += [
            (page, said) for said in (problem.keeps, *problem.excludes) if said[1:] not in text
        ]
    return unsaid


def unset_formulas(site: Path) -> list[str]:
    """Formulas with a command that the converter did not know."""
    formulas = [
        f
        for path in site.rglob("*.html")
        for f in re.findall(r"<math.*?</math>", path.read_text(), re.DOTALL)
    ]
    assert len(formulas) > 100
    return [formula for formula in formulas if "\\" in formula]


def test_every_problem_is_listed() -> None:
    public = set(problems.__all__) - {"Problem"}
    assert {type(problem).__name__ for problem in PROBLEMS.values()} == public
    listed = re.search(
        r"EVERYTHING = \{(.*?)\n\}", (ROOT / "docs" / "_ext" / "kept.py").read_text(), re.DOTALL
    )[1]
    assert set(re.findall(r'": "(\w+)\(', listed)) == public


def test_the_checker_sees_what_is_broken(tmp_path: Path) -> None:
    links = (
        '<a href="other.html#here"></a><a href="gone.html"></a><script'
        ' src="https://example.org/x.js"></script>'
    )
    (tmp_path / "index.html").write_text(links + '<p id="a"></p><p id="a"></p>')
    (tmp_path / "other.html").write_text('<p id="there"></p>')
    done = subprocess.run(
        [sys.executable, CHECKER, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "index.html: https://example.org/x.js would be fetched from a network.",
        "index.html: the anchor #a occurs twice.",
        "index.html: other.html#here has no such anchor.",
        "index.html: gone.html does not exist.",
    ]
