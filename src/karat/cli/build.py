"""karat build: from files to the few rows that keep a problem."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from karat.cli import _cores, _show
from karat.cli._options import Common, size
from karat.cli._outputs import check_output
from karat.cli._problems import ProblemOptions
from karat.cli._progress import progress
from karat.errors import InputError


class OnMissing(StrEnum):
    """What to do with rows that lack a value."""

    ERROR = "error"
    DROP = "drop"


def build(
    source: Annotated[list[str], typer.Argument(help="Parquet, CSV (also .gz) or Arrow files, folders or globs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The coreset to write: .parquet or .npz.")],
    problem: ProblemOptions,
    shown: Common,
    context: typer.Context,
    target: Annotated[list[str] | None, typer.Option("--target", "-t", help="Target column; repeat for several.")] = None,
    columns: Annotated[list[str] | None, typer.Option(help="Feature column; repeat for several. Default: all others.")] = None,
    drop_columns: Annotated[list[str] | None, typer.Option(help="Column to leave out; repeat for several.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column with sample weights.")] = None,
    groups: Annotated[str | None, typer.Option(help="Column with groups (folds, sites): one exact coreset each.")] = None,
    key: Annotated[str | None, typer.Option(help="Column that identifies rows.")] = None,
    on_missing: Annotated[
        OnMissing, typer.Option(help="Refuse rows with missing values, or leave them out.")
    ] = OnMissing.ERROR,
    memory: Annotated[int | None, typer.Option(parser=size, metavar="SIZE", help="Memory to use, such as 500MB (1GB).")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="A .npz file from which a run that was killed resumes.")] = None,
    seed: Annotated[int, typer.Option(help="The choice of rows depends on it, the exactness does not.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that is not a coreset.")] = False,
) -> None:
    """Keep the few rows, with weights, on which a model trains to exactly the same answer as on all of them.

    Example:  karat build data.parquet --target y --problem ridge --alpha 10 -o core.parquet
    """
    chosen = problem.chosen(bool(target))
    check_output(output, source, force)
    from karat import coreset_files

    start = time.perf_counter()
    options: dict[str, Any] = {} if memory is None else {"memory": memory}
    with progress("Reading", not shown.as_json) as advance:
        core = coreset_files(
            source, target, chosen, columns=_features(source, columns, drop_columns, {*(target or ()), weight, groups, key}),
            on_missing=on_missing.value, checkpoint=checkpoint, progress=advance, sample_weight=weight, groups=groups, key=key,
            random_state=seed, **options,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    core = replace(core, provenance=(core.provenance or {}) | {"command": shlex.join(["karat", *context.obj])})
    core.save(output)
    if shown.as_json:
        found = {"output": str(output), "bytes": output.stat().st_size, "seconds": seconds}
        _show.document(_cores.summary(core) | found)
        return
    speed = {"time": f"{_show.seconds(seconds)} ({core.n_rows / seconds:,.0f} rows/s)"}
    _show.facts(f"{core.n_rows:,} rows became {len(core):,} in {output}", _cores.lines(core) | speed)


def _features(source: list[str], columns: list[str] | None, drop: list[str] | None, taken: set[str | None]) -> list[str] | None:
    """The feature columns; None leaves the choice to the library."""
    if drop is None:
        return columns
    if columns is not None:
        raise InputError("--columns and --drop-columns do not go together: name the columns to keep, or those to leave out.")
    from karat.io._source import open_source

    names = open_source(source, 1).schema().names
    for name in drop:
        if name not in names:
            raise InputError(f"--drop-columns {name}: there is no such column; there are {', '.join(names)}.")
    return [name for name in names if name not in {*taken, *drop}]
