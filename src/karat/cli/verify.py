"""karat verify: read the data again and prove or refute a coreset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.options import FAILED, Common, Database, named, size
from karat.core import wording
from karat.errors import InputError

BLOCKS = 3  # changed blocks that are named


def verify(
    core: Annotated[Path, typer.Argument(metavar="CORESET", help="A coreset file.")],
    stored: Database,
    shown: Common,
    source: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Its data; by default the files it was made from."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target", "-t", metavar="COLUMN", help="Target, if the coreset does not say."
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Features, if the coreset does not say."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Weights, if the coreset does not say.")
    ] = None,
    groups: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Groups, if the coreset does not say.")
    ] = None,
    locate: Annotated[
        bool,
        typer.Option("--locate", help="Read the changed rows again, and print what they hold now."),
    ] = False,
    memory: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help="Memory to use, such as 500MB (1GB)."),
    ] = None,
) -> None:
    """Prove or refute a coreset: are its moments those of the data, and is the data what it was
    made from?

    The data is read once. Exit code 1 if a moment differs or a row has changed.

    Example:  karat verify core.parquet data.parquet
    """
    start = time.perf_counter()
    opened = stored.source_if_given(source)
    available: list[str] = (
        opened.schema().names if opened is not None and (target or columns) else []
    )
    options: dict[str, Any] = {
        "target": named("--target", target, available) or None,
        "columns": named("--columns", columns, available) or None,
    }
    options |= {} if memory is None else {"memory": memory}
    options |= {"sample_weight": weight, "groups": groups, "locate": locate}
    loaded = karat.Coreset.load(core)
    with printing.progress(not shown.as_json, lambda: loaded.n_rows) as advance:
        if loaded.regression is None:
            verification = karat.verify_files(loaded, opened, progress=advance, **options)
        else:
            verification = _of_formula(loaded, opened, advance, options)
    seconds = time.perf_counter() - start
    if shown.as_json:
        printing.document(verification.to_dict() | {"seconds": seconds})
    else:
        tone = printing.GOOD if verification.ok else printing.BAD
        printing.key_values(
            f"{core}: {wording.check_verdict(verification.ok)}",
            _verdict_lines(verification) | {"time": printing.seconds(seconds)},
            tone,
        )
    if not verification.ok:
        raise typer.Exit(FAILED)


def _of_formula(core: Any, source: Any, progress: Any, options: dict[str, Any]) -> Any:
    """The verification of a coreset whose formula says which columns are what."""
    unused = next((name for name, value in options.items() if value), None)
    if unused is not None:
        option = "--" + unused.removeprefix("sample_")
        raise InputError(f"{option} is not for the coreset of a formula; leave it out.")
    from karat.inference import verify as verify_table

    return verify_table(core, source, progress=progress)


def _verdict_lines(verification: Any) -> dict[str, str]:
    certificate = verification.certificate
    worst = wording.worst_error(certificate.to_dict(), wording.TERMINAL)
    lines = {
        "worst error": (
            worst
            if certificate.ok and not verification.ok
            else f"{worst}: {wording.verdict(certificate.ok)}"
        ),
        "data": wording.data_verdict(verification.data, len(verification.columns)),
        "rows": (
            f"{certificate.n_rows:,} read{wording.of_which(certificate.left_out)},"
            f" {certificate.size:,} {'kept' if certificate.rows == 'real' else 'made'}"
        ),
    }
    if verification.changed:
        more = (
            f"\nand {len(verification.changed) - BLOCKS:,} more blocks"
            if len(verification.changed) > BLOCKS
            else ""
        )
        lines["where"] = (
            "\n".join(map(str, verification.changed[:BLOCKS]))
            + more
            + "\n(rows are counted from 0, without a header)"
        )
    if certificate.notes:
        lines["note"] = " ".join(certificate.notes)
    return lines
