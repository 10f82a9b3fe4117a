"""karat plan: estimate what a coreset costs before any data is read."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

import karat
from karat.cli import printing
from karat.cli.options import Common, count, named
from karat.cli.problems import ProblemOptions
from karat.errors import InputError, several

Where = StrEnum("Where", ["MEMORY", "FILES", "CLUSTER"])


def plan(
    problem: ProblemOptions,
    shown: Common,
    source: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Files to plan for, instead of --rows and --columns."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(parser=count, metavar="N", help="Number of rows, such as 1e9.")
    ] = None,
    columns: Annotated[
        int | None, typer.Option(parser=count, metavar="D", help="Number of feature columns.")
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="Target column of the files; several with commas.",
        ),
    ] = None,
    targets: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of targets, with --rows and --columns (1, or none if none is needed).",
        ),
    ] = None,
    groups: Annotated[int, typer.Option(min=1, help="Number of groups (folds).")] = 1,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Plan for made rows instead of rows of the data.")
    ] = False,
    where: Annotated[Where, typer.Option(help="Where the rows are.")] = Where.FILES,
    partitions: Annotated[int, typer.Option(min=1, help="Number of partitions on a cluster.")] = 1,
    workers: Annotated[
        int, typer.Option(min=1, help="Number of partitions that are read at the same time.")
    ] = 1,
) -> None:
    """Estimate rows, memory, passes and work of a coreset, and say why.

    Example:  karat plan --rows 1e9 --columns 12 --problem ridge --alpha 10
    """
    left_out: list[str] = []
    if source:
        if (rows, columns, targets) != (None, None, None):
            raise InputError("Name files, or give --rows, --columns and --targets, but not both.")
        from karat.io.find import open_source
        from karat.io.source import text_columns

        opened = open_source(source)
        predicted = named("--target", target, opened.schema().names)
        left_out = [name for name in text_columns(opened.schema()) if name not in predicted]
        (rows, exact), targets = opened.row_count(), len(predicted)
        columns = len(opened.schema().names) - targets - len(left_out)
    elif rows is None or columns is None:
        raise InputError(
            "The size of the data is missing: name its files, or give --rows and --columns."
        )
    elif target:
        raise InputError("--target is for files; with --rows and --columns, give --targets.")
    if targets is None:
        targets = 1 if problem.problem is None or problem.takes_target() else 0
    chosen = problem.chosen(targets > 0)
    expected = karat.plan(
        chosen,
        rows,
        columns,
        targets=max(targets, 1),
        groups=groups,
        rows="synthetic" if synthetic else "real",
        source=where.value,
        partitions=partitions,
        workers=workers,
    )
    facts = {
        "problem": chosen.describe(),
        "rows_in": rows,
        "columns": columns,
        "left_out": left_out,
    }
    if shown.as_json:
        printing.document(facts | asdict(expected))
        return
    beside = "in each process" if expected.method == "sketch" else "in addition to the data"
    lines = {
        "problem": facts["problem"],
        "data": f"{'about ' if source and not exact else ''}{several(rows, 'row')},"
        f" {several(columns, 'column')}",
        "rows made" if synthetic else "rows kept": f"{expected.rows:,}, as a rule"
        if synthetic
        else f"at most {expected.rows:,}",
        "memory": f"about {printing.amount(expected.memory)} {beside}",
        "passes": f"{expected.passes}, by {expected.method}",
        "work": f"about {expected.operations:.0e} floating-point operations",
        "why": expected.why,
    }
    if left_out:
        lines["left out"] = (
            f"{', '.join(left_out)}: not numeric; build with --drop-columns, or encode first"
        )
    if expected.travels:
        lines["network"] = printing.amount(expected.travels)
    printing.key_values("Estimate", lines)
