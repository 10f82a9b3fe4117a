"""karat merge: the coreset of a union from the coresets of its parts."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Annotated

import typer

from karat.cli import _cores, _show
from karat.cli._options import Common
from karat.cli._outputs import check_output
from karat.errors import InputError


def merge(
    cores: Annotated[list[Path], typer.Argument(metavar="CORESET", help="Two or more coreset files.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The coreset to write: .parquet or .npz.")],
    shown: Common,
    seed: Annotated[int, typer.Option(min=0, help="The choice of rows depends on it, the exactness does not.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that is not a coreset.")] = False,
) -> None:
    """One coreset for the union of the data behind several, exactly, and no larger than each.

    Example:  karat merge monday.parquet tuesday.parquet -o week.parquet
    """
    import karat

    if len(cores) < 2:
        raise InputError("Name two coresets or more to merge.")
    check_output(output, [str(path) for path in cores], force)
    merged = reduce(lambda one, other: one.merge(other, random_state=seed), map(karat.load, cores))
    merged.save(output)
    if shown.as_json:
        _show.document(_cores.summary(merged) | {"output": str(output), "merged": [str(path) for path in cores]})
    else:
        _show.facts(f"{len(cores)} coresets became {len(merged):,} rows in {output}", _cores.lines(merged), _show.GOLD)
