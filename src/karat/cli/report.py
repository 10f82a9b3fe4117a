"""karat report: write one HTML page about a coreset."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.options import FAILED, Common, Database, OutputKind, check_output
from karat.core import wording
from karat.errors import several


def report(
    core: Annotated[Path, typer.Argument(metavar="CORE", help="A coreset file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write: .html.")
    ],
    stored: Database,
    shown: Common,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="The data: measure the coreset on it and show both. Repeat for several.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an output that is not a report.")
    ] = False,
) -> None:
    """Write one HTML page about a coreset: certificate, weights, projection, moments, kept rows.

    It needs no network.

    Example:  karat report core.parquet --data data.parquet -o report.html
    """
    check_output(
        output,
        [str(core), *(data or ())],
        force,
        OutputKind("a report", (".html", ".htm"), _is_report),
    )
    from karat.report.page import facts, write_page

    start = time.perf_counter()
    loaded = karat.Coreset.load(core)
    with printing.progress(not shown.as_json) as advance:
        page_facts = facts(loaded, stored.source_if_given(data), progress=advance)
    write_page(page_facts, output)
    seconds, verified = time.perf_counter() - start, page_facts["verified"]
    if shown.as_json:
        selected = {name: page_facts[name] for name in ("problem", "exact", "verified", "weights")}
        sizes = {"rows_in": page_facts["rows"], "rows_kept": page_facts["kept"]}
        printing.document(
            sizes
            | selected
            | {
                "output": str(output),
                "bytes": output.stat().st_size,
                "seconds": seconds,
            }
        )
    else:
        left = page_facts["left_out"]
        lines = {"report": f"{output} ({printing.amount(output.stat().st_size)})"} | _measured(
            verified
        )
        printing.key_values(
            f"{several(page_facts['rows'] + left, 'row')}{wording.of_which(left)},"
            f" {page_facts['kept']:,}"
            f" {'made' if page_facts['made'] else 'kept'}",
            lines | {"time": printing.seconds(seconds)},
        )
    if verified is not None and not verified["ok"]:
        raise typer.Exit(FAILED)


def _measured(verified: dict[str, Any] | None) -> dict[str, str]:
    """Lines about the measurement on the data."""
    if verified is None:
        return {"data": "not given, so nothing was measured; name it with --data"}
    worst = (
        f"{wording.worst_error(verified, wording.TERMINAL)}, measured on the data:"
        f" {wording.check_verdict(verified['ok'])}"
    )
    data = verified["data"]
    return {"worst error": worst} | (
        {} if data is None else {"data": wording.data_verdict(data, verified["columns"])}
    )


def _is_report(path: Path) -> bool:
    """Whether karat wrote this page."""
    with path.open("rb") as file:
        return b'name="generator" content="karat' in file.read(4096)
