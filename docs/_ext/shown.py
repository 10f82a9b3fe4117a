"""The directive ``{shown}``: runs commands when the pages are built, and shows them with their output.

The commands of a page run in one folder, with the files that ``houses`` writes.  An exit code other than ``:exit:`` (0) is an
error of the build.  Times are left out: they are those of the machine that builds the pages.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import karat

SOURCE = str(
    Path(karat.__file__).parents[1]
)  # the karat of this environment, from any folder
PLAIN = {"NO_COLOR": "1", "COLUMNS": "64", "TERM": "dumb", "PYTHONPATH": SOURCE}
COLUMNS = ("area", "rooms", "age", "floor", "distance")
# lines that are times, and the time within the line "made by"
TIMES = re.compile(
    r"^(?:time|solver tolerance)\b.*\n?(?: {9,}.*\n?)*|(?<=, )[\d.,]+ m?s, (?=passes:)",
    re.M,
)
TOWNS = ("Ayr", "Bath", "Cork", "Dover")


def houses(path: Path, rows: int = 1_000_000) -> None:
    """Write a table of houses: numbers, and a second file with towns and gaps."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    X = rng.gamma(4.0, 1.0, (rows, len(COLUMNS))).round(2)
    price = 50 + X @ [30.0, 5.0, -2.0, 1.0, -8.0] + 10 * rng.standard_normal(rows)
    table = pa.table(dict(zip(COLUMNS, X.T, strict=True)) | {"price": price})
    pq.write_table(table, path / "houses.parquet")
    known = pa.array(rng.random(rows) > 0.02)
    table = table.set_column(2, "age", pc.if_else(known, table["age"], None))
    towns = pa.array(np.array(TOWNS)[rng.integers(len(TOWNS), size=rows)])
    pq.write_table(table.append_column("town", towns), path / "towns.parquet")
    changed = price.copy()
    changed[123_456] += 1e-9
    table = pa.table(dict(zip(COLUMNS, X.T, strict=True)) | {"price": changed})
    pq.write_table(table, path / "touched.parquet")


def wrapped(command: str) -> list[str]:
    """A command in lines of the width of its output, which a shell reads as one."""
    width = int(PLAIN["COLUMNS"])
    lines = textwrap.wrap(
        command, width - 2, subsequent_indent="    ", break_on_hyphens=False
    )
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


class Shown(SphinxDirective):
    """Commands and their output."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"exit": directives.nonnegative_int}

    def run(self) -> list[nodes.Node]:
        if "shown" not in self.env.temp_data:
            self.env.temp_data["shown"] = tempfile.TemporaryDirectory()
            houses(Path(self.env.temp_data["shown"].name))
        lines: list[str] = []
        for command in self.content:
            done = self.perform(command)
            lines += [
                *wrapped(f"$ {command}"),
                *TIMES.sub("", done.stdout + done.stderr).splitlines(),
                "",
            ]
            if done.returncode != self.options.get("exit", 0):
                where = self.get_location()
                raise self.error(f"{where}: exit code {done.returncode} of {lines}")
        text = "\n".join(line.rstrip() for line in lines).strip()
        longest = max(len(line) for line in text.splitlines())
        size = ["wide"] if longest > int(PLAIN["COLUMNS"]) else []
        block = nodes.literal_block(
            text, text, language="console", classes=["shown", *size]
        )
        return [block]

    def perform(self, command: str) -> subprocess.CompletedProcess[str]:
        program, *rest = shlex.split(command)
        assert program == "karat", command
        start = "import sys; from karat.cli import main; main(sys.argv[1:])"
        return subprocess.run(
            [sys.executable, "-c", start, *rest],
            cwd=self.env.temp_data["shown"].name,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | PLAIN,
        )


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("shown", Shown)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
