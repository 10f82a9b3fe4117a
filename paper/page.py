"""One self-contained HTML page of all experiments, with the figures embedded, in the style of the
report.
"""

from __future__ import annotations

import os
import platform
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import numpy as np
import scipy

import karat
from paper.result import Figure
from paper.settings import Settings

if TYPE_CHECKING:
    from paper.run import Outcome


def write_page(folder: Path, outcomes: Sequence[Outcome], settings: Settings) -> None:
    """Write the page of the experiments run so far, with the PNG files of the folder."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("paper", "."), autoescape=True, trim_blocks=True,
        lstrip_blocks=True, undefined=jinja2.StrictUndefined,
    )  # fmt: skip

    def picture(figure: Figure) -> str:
        return (
            "data:image/png;base64,"
            + b64encode((folder / f"{figure.name}.png").read_bytes()).decode()
        )

    style = (
        resources.files("karat.report").joinpath("template", "page.css").read_text(encoding="utf-8")
    )
    page = environment.get_template("page.html.jinja").render(
        style=style,
        outcomes=outcomes,
        picture=picture,
        quick=settings.quick,
        facts=_facts(settings, outcomes),
    )
    (folder / "index.html").write_text(page, encoding="utf-8")


def _facts(settings: Settings, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """When, where and with which versions the page was made."""
    folder = settings.source.folder
    return {
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "in": (
            f"{sum(outcome.seconds for outcome in outcomes):.0f} s on {os.cpu_count()} cores"
            f" ({platform.machine()})"
        ),
        "with": (
            f"karat {karat.__version__}, Python {platform.python_version()}, NumPy"
            f" {np.__version__}, SciPy {scipy.__version__}"
        ),
        "data from": f"the folder {folder.name}" if folder else "scikit-learn and OpenML",
    }
