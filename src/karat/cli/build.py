"""karat build: make a coreset of files."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import karat
from karat.cli import printing
from karat.cli.options import (
    Common,
    Database,
    Roles,
    check_output,
    column_option,
    named,
    size,
)
from karat.cli.problems import Name, ProblemOptions
from karat.errors import InputError, several

if TYPE_CHECKING:
    from karat.io.source import Source

OnMissing = StrEnum("OnMissing", ["ERROR", "DROP", "MEAN"])
RowKind = StrEnum("RowKind", ["REAL", "SYNTHETIC"])
Verbatim = StrEnum("Verbatim", ["KEEP", "ERROR"])
Algorithm = StrEnum("Algorithm", ["SHA256"])  # cryptographic digests of the rows


def build(
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The coreset to write: .parquet or .npz."
        ),
    ],
    roles: Roles,
    problem: ProblemOptions,
    stored: Database,
    shown: Common,
    context: typer.Context,
    source: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DATA", help="Parquet, CSV (also .gz) or Arrow files, folders or globs."
        ),
    ] = None,
    on_missing: Annotated[
        OnMissing,
        typer.Option(
            help=(
                "For missing values: raise an error, drop their rows, or fill features with means."
            )
        ),
    ] = OnMissing.ERROR,
    one_hot: Annotated[
        list[str] | None,
        column_option(
            metavar="COLUMN",
            help="Features that are categories: a 0/1 column per level; auto: those of text.",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help="Memory to use, such as 500MB (1GB)."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .npz file from which a killed run resumes."),
    ] = None,
    rows: Annotated[
        RowKind,
        typer.Option(
            help=(
                "Keep rows of the data, or make rows with the same second moments (squared losses)."
            )
        ),
    ] = RowKind.REAL,
    verbatim: Annotated[
        Verbatim,
        typer.Option(
            help=(
                "Synthetic rows: keep rows that are far from all others as they are, or raise an"
                " error."
            )
        ),
    ] = Verbatim.KEEP,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for the choice of rows; the coreset is exact with any.")
    ] = 0,
    no_hashes: Annotated[
        bool,
        typer.Option(
            "--no-hashes", help="Do not hash the rows; verify then cannot see changed rows."
        ),
    ] = False,
    digest: Annotated[
        Algorithm | None,
        typer.Option(help="Also store a cryptographic digest of the used columns, in order."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an output that is not a coreset.")
    ] = False,
) -> None:
    """Make a coreset: a few rows, with weights, on which a model trains to exactly the same answer
    as on all rows.

    Example:  karat build data.parquet --target y --problem ridge --alpha 10 -o core.parquet
    """
    chosen = problem.chosen(bool(roles.target))
    if roles.view is not None and problem.problem is not Name.MULTI_VIEW:
        raise InputError("--view is only for multi-view; name the features with --columns.")
    check_output(output, [*(source or ()), *stored.files], force)
    if checkpoint is not None and checkpoint.resolve() == output.resolve():
        raise InputError(
            "--checkpoint and --output are the same file; choose another name for the checkpoint."
        )
    resumed = checkpoint is not None and checkpoint.exists()  # of another call: an error
    start = time.perf_counter()
    opened = stored.source(source)
    available = opened.schema().names
    options = roles.arguments(opened, available) | {
        "one_hot": (
            "auto"
            if one_hot == ["auto"] and "auto" not in available
            else named("--one-hot", one_hot, available)
        ),
        "on_missing": on_missing.value,
    }
    options |= {"rows": rows.value, "verbatim": verbatim.value} | (
        {} if memory is None else {"memory": memory}
    )
    with printing.progress(not shown.as_json, lambda: _row_estimate(opened)) as advance:
        core = karat.coreset_files(
            opened, problem=chosen, checkpoint=checkpoint, progress=advance, random_state=seed,
            content=not no_hashes, digest=None if digest is None else "sha256", **options,
        )  # fmt: skip
    seconds = time.perf_counter() - start
    core = replace(
        core, provenance=(core.provenance or {}) | {"command": shlex.join(["karat", *context.obj])}
    )
    core.save(output)
    if shown.as_json:
        facts = {
            "output": str(output),
            "bytes": output.stat().st_size,
            "seconds": seconds,
            "resumed": resumed,
        }
        printing.document(printing.json_summary(core) | facts)
        return
    speed = {"time": f"{printing.seconds(seconds)} ({core.n_rows / seconds:,.0f} rows/s)"}
    if checkpoint is not None:
        speed["checkpoint"] = (
            f"{'resumed from ' if resumed else ''}{checkpoint}, which can be deleted now"
        )
    used = core.n_represented
    before = f"{used:,} of " * (used < core.n_rows) + several(core.n_rows, "row")
    made = " made rows" if rows is RowKind.SYNTHETIC else ""
    printing.key_values(
        f"{before} became {len(core):,}{made} in {output}",
        printing.summary_lines(core) | speed,
        printing.GOLD,
    )


def _row_estimate(source: Source) -> int | None:
    """The approximate number of rows, if local files tell it at once."""
    remote = any("://" in path for path in source.given)
    return None if remote or not source.given else source.row_count()[0]
