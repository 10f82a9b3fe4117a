"""What is published: the wheel works with NumPy and SciPy alone, and the sdist carries its
tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from importlib import metadata, util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        util.find_spec("hatchling") is None,
        reason="hatchling builds the package: pip install --group test",
    ),
    pytest.mark.xdist_group("distribution"),
]

# Runs where only NumPy and SciPy are installed.  Prints the extra that each name asks for.
BARE = r"""
import importlib.util, re
extras = "sklearn pandas pyarrow narwhals matplotlib typer dask pyspark statsmodels"
for name in extras.split():
    assert importlib.util.find_spec(name) is None, name

import numpy as np
import karat

assert all(hasattr(karat.problems, name) for name in ("LeastSquares", "Ridge", "GaussianMixture"))
X = np.random.default_rng(0).standard_normal((5000, 4))
y = X.sum(axis=1)
core = karat.coreset(X, y)
assert core.certificate.ok and len(core) <= 21, core
assert core.verify(X, y).ok
core.save("core.npz")
assert karat.load("core.npz").certificate.ok
roots = np.sqrt(core.weights)
coefficients = np.linalg.lstsq(core.X * roots[:, None], core.y * roots, rcond=None)[0]
assert np.allclose(coefficients, 1.0, atol=1e-12)
sketch = karat.Sketch(karat.problems.LeastSquares())
sketch.update(X, y)
assert sketch.coreset().certificate.ok

def asked(action):
    try:
        action()
    except karat.MissingExtraError as error:
        return re.search(r"karat\[(\w+)\]", str(error))[1]
    return "nothing"

print("regressor", asked(lambda: karat.CoresetRegressor))
print("cv", asked(lambda: karat.exact_cv))
print("files", asked(lambda: karat.coreset_files))
print("verify", asked(lambda: karat.verify_files))
print("cube", asked(lambda: karat.cube))
print("fit", asked(lambda: core.fit(None)))
print("report", asked(lambda: karat.report.write_report(core, "report.html")))
print("display", asked(lambda: karat.report.WeightsDisplay.from_coreset(core).plot()))
print("parquet", asked(lambda: core.save("core.parquet")))
print("models", asked(lambda: karat.models.GaussianMixture))
print("inference", asked(lambda: karat.inference.ols(core)))
print("ols", asked(lambda: karat.ols))
print("dask", asked(lambda: karat.dask.coreset))
print("spark", asked(lambda: karat.spark.coreset))
"""
EXTRAS = {
    "regressor": "sklearn", "cv": "sklearn", "files": "io", "verify": "io", "cube": "io",
    "fit": "sklearn", "report": "report", "display": "report", "parquet": "io", "models": "models",
    "inference": "inference", "ols": "inference", "dask": "dask", "spark": "spark",
}  # fmt: skip


def run(*command: object, folder: Path, **environment: str) -> str:
    """What a command prints; a failure shows both of its streams."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME")
    }
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=kept | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """The source distribution, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    import hatchling

    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "sdist",
        "-d",
        folder,
        folder=ROOT,
        PYTHONPATH=home_of(hatchling),
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def home_of(module):
    """The folder to import a module from: the tests may run with a path of their own."""
    return str(Path(module.__file__).parents[1])


@pytest.fixture(scope="module")
def bare(sdist, tmp_path_factory):
    """Python of an environment with NumPy, SciPy and the wheel, which is built from the sdist as
    installers do.

    NumPy and SciPy are those of this environment: linked, not downloaded.  pip resolves the wheel's
    own requirements without an index, so it would refuse a wheel that requires more.
    """
    import hatchling

    folder = tmp_path_factory.mktemp("bare")
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        folder,
        folder=sdist,
        PYTHONPATH=home_of(hatchling),
    )
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    for package in ("numpy", "scipy"):
        found = metadata.distribution(package)
        for top in {path.parts[0] for path in found.files or [] if path.parts[0] != ".."}:
            (site / top).symlink_to(found.locate_file(top))
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
        wheel,
        folder=folder,
    )
    return python


def test_two_builds_give_the_same_bytes(sdist, tmp_path):
    """Whatever the times and modes of the files are; ``python -m build`` calls the same backend."""
    import hatchling

    made = []
    for i in range(2):
        copy = tmp_path / f"copy{i}"
        shutil.copytree(sdist, copy)
        for path in copy.rglob("*.py") if i else ():
            os.utime(path, (10**9, 10**9))
            path.chmod(0o600)
        options = {
            "PYTHONPATH": home_of(hatchling),
            "SOURCE_DATE_EPOCH": "1700000000",
            "PYTHONHASHSEED": str(i),
        }
        run(
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-d",
            tmp_path / f"dist{i}",
            folder=copy,
            **options,
        )
        made.append({path.name: path.read_bytes() for path in (tmp_path / f"dist{i}").iterdir()})
    assert len(made[0]) == 2
    assert made[0] == made[1]


def test_numpy_and_scipy_are_enough(bare, tmp_path):
    printed = run(bare, "-W", "error", "-c", BARE, folder=tmp_path)
    assert dict(line.split() for line in printed.splitlines()) == EXTRAS


def test_the_command_names_its_extra(bare, tmp_path):
    done = subprocess.run(
        [bare.with_name("karat"), "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "karat[cli]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_wheel_holds_the_package_only(bare):
    site = Path(
        run(
            bare,
            "-c",
            "import karat, pathlib; print(pathlib.Path(karat.__file__).parents[1])",
            folder=ROOT,
        ).strip()
    )
    assert {path.name.split("-")[0].split(".")[0] for path in site.iterdir()} == {
        "karat",
        "numpy",
        "scipy",
    }
    source = ROOT / "src"
    assert {p.relative_to(site) for p in files(site / "karat")} == {
        p.relative_to(source) for p in files(source)
    }


@pytest.mark.nightly
def test_the_tests_of_the_sdist_pass(sdist):
    """The sdist holds every file of the tests and of what they read, and a few of the tests are
    run.
    """
    made = {ROOT / "docs" / name for name in ("_build", "gallery", "api/generated")}
    for part in ("tests", "docs", "examples", "paper"):
        here = {
            path.relative_to(ROOT) for path in files(ROOT / part) if not made & set(path.parents)
        }
        assert {path.relative_to(sdist) for path in files(sdist / part)} == here
    chosen = [
        next(sdist.glob(f"tests/**/{name}"))
        for name in ("test_counterexamples.py", "test_golden_0_2_0.py", "test_plan.py")
    ]
    options = ("-p", "no:cacheprovider", "-m", "not slow")
    run(
        sys.executable,
        "-m",
        "pytest",
        *options,
        *chosen,
        folder=sdist,
        PYTHONPATH=str(sdist / "src"),
    )


def files(folder: Path) -> list[Path]:
    """All files below a folder, without caches."""
    inside = [
        (path, path.relative_to(folder).parts) for path in folder.rglob("*") if path.is_file()
    ]
    return [
        path
        for path, parts in inside
        if not any(part.startswith((".", "__pycache__")) for part in parts)
    ]


def test_links_of_the_packaged_readme_are_absolute(sdist):
    text = (sdist / "PKG-INFO").read_text()
    links = re.findall(r"\]\(([^)]+)\)", text.partition("\n\n")[2])
    assert len(links) > 10
    assert all(link.startswith("https://") for link in links)
    assert any("/docs/pictures/losses.png" in link for link in links)
