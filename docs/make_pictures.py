"""Make the pictures of the README and the documentation: ``python docs/make_pictures.py [name ...]``.

Each function writes its pictures to ``docs/pictures``: ``terminal`` records the output of a command, ``report`` takes
screenshots in the browser of the tests.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
WIDTH = 92  # characters of a recorded terminal
COLUMNS = ["income", "age", "rooms", "distance", "tax", "crime", "pupils", "nitric", "river", "access"]


def houses(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw correlated, skewed columns and a price with heavy tails."""
    rng = np.random.default_rng(0)
    mixing = np.eye(len(COLUMNS)) + 0.3 * rng.standard_normal((len(COLUMNS), len(COLUMNS)))
    X = np.exp(0.5 * rng.standard_normal((rows, len(COLUMNS)))) @ mixing + rng.uniform(-5, 5, len(COLUMNS))
    return X, X @ rng.standard_normal(len(COLUMNS)) + 3 + rng.standard_t(5, rows)


def write_houses(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = houses(1_000_000)
    pq.write_table(pa.table(dict(zip(COLUMNS, X.T, strict=True)) | {"price": y}), path)


def report() -> None:
    """Take screenshots of the report of a million rows, light and dark; they end below its first charts."""
    sys.path.insert(0, str(ROOT / "tests" / "report"))
    from browser import chromium

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_houses(folder / "houses.parquet")
        for line in (
            "build houses.parquet --target price -o core.parquet",
            "report core.parquet --data houses.parquet -o report.html",
        ):
            subprocess.run([Path(sys.executable).with_name("karat"), *line.split()], cwd=folder, check=True)
        with chromium() as browser:
            for scheme in ("light", "dark"):
                browser.open(folder / "report.html", 1040, 1530, scheme, 1.2)
                (PICTURES / f"report-{scheme}.png").write_bytes(browser.screenshot())


def displays() -> None:
    """Draw four displays side by side."""
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


def losses() -> None:
    """Draw the loss of every line, for the README."""
    import matplotlib as mpl

    mpl.use("Agg")
    sys.path[:0] = [str(ROOT / "docs" / "figures"), str(ROOT / "docs" / "_ext")]
    from drawn import STYLE
    from losses import draw as drawn

    with mpl.rc_context({**STYLE, "savefig.transparent": False}):
        drawn("#222222").savefig(PICTURES / "losses.png", dpi=130, facecolor="white")


def terminal() -> None:
    """Record the demo on a terminal."""
    draw("demo", record("demo"))


def record(line: str) -> str:
    """Run a command on a terminal and return its output with colours."""
    main, side = pty.openpty()
    settings = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
    settings.pop("NO_COLOR", None)
    command = [Path(sys.executable).with_name("karat"), *line.split()]
    process = subprocess.Popen(command, env=settings, stdout=side, stderr=subprocess.DEVNULL)
    os.close(side)
    printed = b""
    try:
        while block := os.read(main, 4096):
            printed += block
    except OSError:  # the terminal is closed when the command ends
        pass
    os.close(main)
    assert process.wait() == 0, line
    text = printed.decode().replace("\r\n", "\n").rstrip()
    return f"\x1b[32m$\x1b[0m \x1b[1mkarat {line}\x1b[0m\n{text}\n"


def draw(name: str, shown: str) -> None:
    """Write text with colours as SVG without external fonts."""
    from rich.console import Console
    from rich.text import Text

    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(shown))
        svg = console.export_svg(title="karat", unique_id=name)
    svg = svg.replace("<!-- Generated with Rich https://www.textualize.io -->", "")
    plain = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    lines = [
        line.rstrip() for line in plain.replace("Fira Code, monospace", "Fira Code, Menlo, Consolas, monospace").splitlines()
    ]
    (PICTURES / f"{name}.svg").write_text("\n".join(lines) + "\n")


MAKERS = [losses, terminal, report, displays]


def main(names: list[str]) -> None:
    PICTURES.mkdir(exist_ok=True)
    for maker in MAKERS:
        if not names or maker.__name__ in names:
            maker()


if __name__ == "__main__":
    main(sys.argv[1:])
