"""karat merge: merge coresets into one."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Annotated

import typer

import karat
from karat.cli import printing
from karat.cli.options import Common, check_output
from karat.errors import InputError, several


def merge(
    cores: Annotated[
        list[Path], typer.Argument(metavar="CORESET", help="Two or more coreset files.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The coreset to write: .parquet or .npz."
        ),
    ],
    shown: Common,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for the choice of rows; the coreset is exact with any.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an output that is not a coreset.")
    ] = False,
) -> None:
    """Merge coresets into one that is exact for all their data together.

    Example:  karat merge monday.parquet tuesday.parquet -o week.parquet
    """
    if len(cores) < 2:
        raise InputError("Name at least two coresets to merge.")
    check_output(output, [str(path) for path in cores], force)
    merged = reduce(
        lambda left, right: left.merge(right, random_state=seed), map(karat.Coreset.load, cores)
    )
    merged.save(output)
    if shown.as_json:
        printing.document(
            printing.json_summary(merged)
            | {"output": str(output), "merged": [str(path) for path in cores]}
        )
    else:
        printing.key_values(
            f"{several(len(cores), 'coreset')} became {several(len(merged), 'row')} in {output}",
            printing.summary_lines(merged),
            printing.GOLD,
        )
