"""The pictures of the README, made again: ``python docs/make_pictures.py [name ...]``.

Each function draws its pictures into ``docs/pictures``; the report's are taken in the browser of the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
COLUMNS = ["income", "age", "rooms", "distance", "tax", "crime", "pupils", "nitric", "river", "access"]


def houses(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated, skewed columns and a price with heavy tails."""
    rng = np.random.default_rng(0)
    mixing = np.eye(len(COLUMNS)) + 0.3 * rng.standard_normal((len(COLUMNS), len(COLUMNS)))
    X = np.exp(0.5 * rng.standard_normal((rows, len(COLUMNS)))) @ mixing + rng.uniform(-5, 5, len(COLUMNS))
    return X, X @ rng.standard_normal(len(COLUMNS)) + 3 + rng.standard_t(5, rows)


def report() -> None:
    """The report of a million rows, by day, by night and on a phone; made by the commands that the README prints."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sys.path.insert(0, str(ROOT / "tests" / "report"))
    from browser import chromium

    X, y = houses(1_000_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(pa.table(dict(zip(COLUMNS, X.T, strict=True)) | {"price": y}), folder / "houses.parquet")
        for line in (
            "build houses.parquet --target price -o core.parquet",
            "report core.parquet --data houses.parquet -o report.html",
        ):
            subprocess.run([Path(sys.executable).with_name("karat"), *line.split()], cwd=folder, check=True)
        with chromium() as browser:
            views = {"report-light": (1080, 1160, "light", 1.25), "report-dark": (1080, 1160, "dark", 1.25)}
            for picture, view in (views | {"report-phone": (360, 780, "light", 2.0)}).items():
                width, height, scheme, scale = view
                browser.open(folder / "report.html", width, height, scheme, scale)
                (PICTURES / f"{picture}.png").write_bytes(browser.screenshot())


def displays() -> None:
    """Four of the displays side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot
    from sklearn.datasets import load_diabetes

    import karat
    from karat import report as pictures

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 9), layout="constrained")
    X, y = load_diabetes(return_X_y=True, scaled=False)
    pictures.SizeDisplay.from_data(X[:, :6], y, np.geomspace(1, 1e7, 8)).plot(axes[0, 0])
    X, y = houses(1_000_000)
    core = karat.coreset(X, y)
    pictures.ProjectionDisplay.from_coreset(core, X, y).plot(axes[0, 1])
    pictures.CertificateDisplay.from_coreset(core, X, y).plot(axes[1, 0])
    pictures.ScalingDisplay.from_data(X, y, rows=[10_000, 30_000, 100_000, 300_000, 1_000_000]).plot(axes[1, 1])
    figure.savefig(PICTURES / "displays.png", dpi=100)


MAKERS = [report, displays]


def main(names: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for maker in MAKERS:
        if not names or maker.__name__ in names:
            maker()


if __name__ == "__main__":
    main(sys.argv[1:])
