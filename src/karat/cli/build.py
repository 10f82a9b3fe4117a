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
from karat.cli._columns import known_columns, named
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
    source: Annotated[
        list[str], typer.Argument(metavar="DATA", help="Parquet, CSV (also .gz) or Arrow files, folders or globs.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The coreset to write: .parquet or .npz.")],
    problem: ProblemOptions,
    shown: Common,
    context: typer.Context,
    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="COLUMN", help="Target; several with commas, or repeat it.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Features; several with commas, or repeat it. Default: all others."),
    ] = None,
    drop_columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Columns to leave out; several with commas.")
    ] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column with sample weights.")] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column with groups (folds, sites): one exact coreset each.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that identifies rows.")] = None,
    on_missing: Annotated[
        OnMissing, typer.Option(help="Refuse rows with missing values, or leave them out.")
    ] = OnMissing.ERROR,
    memory: Annotated[int | None, typer.Option(parser=size, metavar="SIZE", help="Memory to use, such as 500MB (1GB).")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .npz file from which a run that was killed resumes.")
    ] = None,
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
    known = known_columns(source)
    targets = named("--target", target, known)
    roles = {"--weight": weight, "--groups": groups, "--key": key}
    for option, name in roles.items():
        named(option, None if name is None else [name], known)
    features = named("--columns", columns, known) or [name for name in known if name not in {*targets, *roles.values()}]
    if drop_columns and columns:
        raise InputError("--columns and --drop-columns do not go together: name the columns to keep, or those to leave out.")
    dropped = named("--drop-columns", drop_columns, known)
    options: dict[str, Any] = {} if memory is None else {"memory": memory}
    with progress("Reading", not shown.as_json) as advance:
        core = coreset_files(
            source, targets, chosen, columns=[name for name in features if name not in dropped], on_missing=on_missing.value,
            checkpoint=checkpoint, progress=advance, sample_weight=weight, groups=groups, key=key, random_state=seed, **options,
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
