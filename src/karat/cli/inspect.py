"""karat inspect: show what a coreset file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.options import Common
from karat.core import wording
from karat.errors import several

FILES = 5  # source files that are named
NAMED = 20  # hidden columns that are named
WIDTH = 12  # characters of a column in the table of rows


def inspect(
    core: Annotated[Path, typer.Argument(metavar="CORESET", help="A coreset file.")],
    shown: Common,
    rows: Annotated[int, typer.Option(min=0, help="Kept rows to show, the heaviest first.")] = 5,
) -> None:
    """Show the certificate of a coreset, where it came from, and its heaviest rows.

    Example:  karat inspect core.parquet --rows 10
    """
    loaded = karat.Coreset.load(core)
    columns = printing.ordered_columns(loaded)
    heaviest = (-loaded.weights).argsort(kind="stable")[:rows]
    if shown.as_json:
        records = [{name: values[i] for name, values in columns.items()} for i in heaviest]
        facts = {"columns": list(columns), "rows": records}
        printing.document(printing.json_summary(loaded) | facts)
        return
    printing.key_values(str(core), printing.summary_lines(loaded) | _details(loaded))
    if rows:
        _print_rows(columns, heaviest, len(loaded))


def _details(core: karat.Coreset) -> dict[str, str]:
    from karat.core.export import coreset_facts

    lines = wording.details(coreset_facts(core), wording.TERMINAL)
    if core.maps is not None:
        lines["maps"] = ", ".join(core.maps)
    return lines | _answers(core) | _origin_lines(core)


def _answers(core: karat.Coreset) -> dict[str, str]:
    """Lines about the regression tables that the coreset can answer."""
    from karat.core.regression import answers

    stored = answers(core.regression)
    if not stored and core.y is not None and core.problem.keeps_squares and core.absorbed is None:
        return {"tables": "nonrobust (karat regress)"}
    if not stored:
        return {}
    residuals = (
        {"residuals": "quartiles and extremes of all rows"} if stored["residual_quantiles"] else {}
    )
    shown = {
        "formula": stored["formula"],
        "tables": ", ".join(stored["tables"]),
        "submodels": stored["submodels"],
    }
    return shown | residuals


def _origin_lines(core: karat.Coreset) -> dict[str, str]:
    """Lines about the source files and the command; for a merged coreset, those of all its
    parts.
    """
    from karat.core.provenance import Provenance

    parts = Provenance.read(core.provenance).parts
    files = [file for part in parts for file in part.source.get("files", [])]
    if not files:
        return {}
    more = f" and {len(files) - FILES:,} more" if len(files) > FILES else ""
    lines = {
        "made from": (
            ", ".join(f"{file['name']} ({several(file['rows'], 'row')})" for file in files[:FILES])
            + more
        )
    }
    made = [
        f"karat {part.karat}, {part.created}, seed {part.seed}" for part in parts if part.created
    ]
    lines["made with"] = "; ".join(dict.fromkeys(made))
    commands = [part.command for part in parts if part.command]
    return lines | ({"command": "\n".join(commands)} if commands else {})


def _print_rows(columns: dict[str, Any], heaviest: Any, kept: int) -> None:
    fit = max(2, printing.console().width // WIDTH)
    names, hidden = list(columns)[:fit], list(columns)[fit:]
    printing.say(f"\nHeaviest rows, {len(heaviest):,} of {kept:,}")
    printing.grid(names, [[columns[name][i].item() for name in names] for i in heaviest])
    if hidden:
        rest = f" and {len(hidden) - NAMED:,} more" if len(hidden) > NAMED else ""
        printing.say(
            f"Not shown: {several(len(hidden), 'column')},"
            f" {', '.join(hidden[:NAMED])}{rest}; --json has all."
        )
