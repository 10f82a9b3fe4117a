"""karat cube: one exact coreset per cell in one file; build it, fit models by label, add rows, show
and verify its cells.
"""

from __future__ import annotations

import time
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.models import LINEAR, Model, linear_estimator
from karat.cli.options import (
    FAILED,
    Common,
    Database,
    OutputKind,
    Roles,
    check_output,
    loads,
    named,
    size,
)
from karat.cli.problems import ProblemOptions
from karat.core import wording
from karat.errors import InputError, several

File = Annotated[Path, typer.Argument(metavar="CUBE", help="A cube file.")]
Data = Annotated[
    list[str] | None,
    typer.Argument(metavar="DATA", help="Parquet, CSV or Arrow files, folders or globs."),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL=VALUE",
        help="Only some cells: region=EU, or day=2026-01-01..2026-06-30. Repeat for several.",
    ),
]
Missing = StrEnum("Missing", ["ERROR", "DROP"])
RowKind = StrEnum("RowKind", ["SYNTHETIC", "REAL"])
Robust = StrEnum("Robust", {"HC0": "HC0", "HC1": "HC1"})
CUBE = OutputKind("a cube", (".parquet",), lambda path: loads(karat.Cube.load, path))


def build(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The cube to write: .parquet.")
    ],
    by: Annotated[
        list[str],
        typer.Option(metavar="COLUMN", help="The columns that label cells, separated by commas."),
    ],
    roles: Roles,
    problem: ProblemOptions,
    stored: Database,
    shown: Common,
    source: Data = None,
    on_missing: Annotated[
        Missing, typer.Option(help="Raise an error for missing values, or drop their rows.")
    ] = Missing.ERROR,
    memory: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help="Memory to use, such as 500MB (1GB)."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed for the choice of rows; the cube is exact with any.")
    ] = 0,
    rows: Annotated[
        RowKind | None,
        typer.Option(help="Keep synthetic rows (the default for squared losses) or real ones."),
    ] = None,
    cov: Annotated[
        Robust | None,
        typer.Option(help="Keep what tables of all slices need for HC0 and HC1."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that exists.")] = False,
) -> None:
    """Make a cube: a few rows, with weights, for every label, on which models are those of all
    rows.

    Example:  karat cube build data/ --by region,day --target y -o cube.parquet
    """
    for option, value in {
        "--view": roles.view,
        "--sequence": roles.sequence,
        "--groups": roles.groups,
    }.items():
        if value is not None:
            raise InputError(f"{option} does not apply to cubes.")
    chosen = problem.chosen(bool(roles.target))
    check_output(output, [*(source or ()), *stored.files], force, CUBE)
    if output.exists() and not force:
        raise InputError(
            f"{output} is a cube already: add rows to it with 'karat cube update', choose another"
            " name, or replace it with --force."
        )
    start = time.perf_counter()
    opened = stored.source(source)
    available = opened.schema().names
    labels = named("--by", by, available)
    options = roles.arguments(
        opened,
        [name for name in available if name not in labels or name in (roles.columns or ())],
    )
    options = {name: value for name, value in options.items() if name not in ("groups", "sequence")}
    options |= {} if rows is None else {"rows": rows.value}
    options |= {} if cov is None else {"cov": cov.value}
    options |= {"on_missing": on_missing.value} | ({} if memory is None else {"memory": memory})
    with printing.progress(not shown.as_json) as advance:
        cube = karat.cube(
            opened,
            by=labels,
            problem=chosen,
            path=output,
            random_state=seed,
            progress=advance,
            **options,
        )
    _print_change(
        cube,
        output,
        time.perf_counter() - start,
        shown,
        f"{several(int(cube.cells.counts.sum()), 'row')} became {several(len(cube), 'cell')}",
    )


def fit(
    cube: File,
    shown: Common,
    by: Annotated[
        list[str] | None, typer.Option(metavar="LABEL", help="One model for each of these labels.")
    ] = None,
    model: Annotated[
        Model, typer.Option(metavar="NAME", help=f"One of {', '.join(LINEAR)}.")
    ] = Model.OLS,
    alpha: Annotated[float | None, typer.Option(help="Penalty, as in scikit-learn.")] = None,
    l1_ratio: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of the l1 penalty in elastic-net (0.5)."),
    ] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="The models have no intercept.")
    ] = False,
    where: Where = None,
    rolling: Annotated[
        str | None,
        typer.Option(metavar="LABEL:STEPS", help="One model per window: day:28 or day:28D."),
    ] = None,
) -> None:
    """Fit a model on the rows of every label; each is the model of all rows of that label.

    Example:  karat cube fit cube.parquet --by region --model ridge --alpha 1
    """
    loaded = karat.Cube.load(cube)
    names = named("--by", by, loaded.by)
    estimator = linear_estimator(model, alpha, l1_ratio, not no_intercept)
    start = time.perf_counter()
    if rolling is not None:
        if where:
            raise InputError("Use only one of --where and --rolling.")
        fits = loaded.rolling(*_window(rolling), by=names).fit(estimator)
    else:
        fits = loaded.fit(estimator, by=names, selection=_selection(loaded, where))
    seconds = time.perf_counter() - start
    tidy = fits.tidy()
    *_, term, coefficient = tidy  # the last two columns; labels may have any name
    if shown.as_json:
        printing.document(
            {
                "model": model.value,
                "by": list(fits.by),
                "seconds": seconds,
                "coefficients": _records(tidy),
            }
        )
        return
    printing.say(
        f"{model.value}: {several(len(fits), 'model')} of {several(int(fits.rows.sum()), 'row')} in"
        f" {printing.seconds(seconds)}",
        style="bold",
    )
    terms = list(dict.fromkeys(tidy[term].tolist()))
    values = tidy[coefficient].reshape(len(fits), -1, len(terms))
    for place, target in enumerate(fits.targets):
        if len(fits.targets) > 1:
            printing.say(f"\n{target}", style="bold")
        labels = [[str(value) for value in column] for column in fits.labels]
        table = [
            [*(column[i] for column in labels), int(fits.rows[i]), *values[i, place].tolist()]
            for i in range(len(fits))
        ]
        printing.grid([*fits.by, "rows", *terms], table)


def update(
    cube: File,
    stored: Database,
    shown: Common,
    source: Data = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Rebuild the cells that occur in the data, which has all their rows."
        ),
    ] = False,
) -> None:
    """Add rows to their cells; new cells appear. The file is replaced in one step.

    Example:  karat cube update cube.parquet today.parquet
    """
    start = time.perf_counter()
    loaded = karat.Cube.load(cube)
    opened = stored.source(source)
    before = len(loaded)
    changed = loaded.replace(opened) if replace else loaded.update(opened)
    rows = changed.history[-1]["rows"]
    title = (
        f"{several(rows, 'row')} {'rebuilt their cells' if replace else 'added'},"
        f" {several(len(changed) - before, 'new cell')}"
    )
    _print_change(changed, cube, time.perf_counter() - start, shown, title)


def show(
    cube: File,
    shown: Common,
    where: Where = None,
    cells: Annotated[
        int, typer.Option(min=0, help="Cells to show, the largest errors first.")
    ] = 20,
) -> None:
    """Show the cells of a cube: rows, kept rows, weight, error.

    Example:  karat cube show cube.parquet --where region=EU
    """
    from karat.cubes.select import matching

    loaded = karat.Cube.load(cube)
    table, facts = loaded.table(), loaded.facts()
    matches = matching(loaded.cells, loaded.by, _selection(loaded, where))
    worst = matches[(-facts["loss_error"][matches]).argsort(kind="stable")][:cells]
    lines = _records({name: values[worst] for name, values in table.items()})
    if shown.as_json:
        printing.document(_facts(loaded, cube) | {"history": list(loaded.history), "table": lines})
        return
    printing.key_values(str(cube), _cube_lines(loaded, cube), printing.GOLD)
    if cells:
        names = list(table)[: len(loaded.by) + 4]  # labels, rows, kept, synthetic, weight
        errors = facts["loss_error"][worst].tolist()
        shown_lines = [
            [*(_yes_or_no(line[name]) for name in names), f"{e:.1e}"]
            for line, e in zip(lines, errors, strict=True)
        ]
        printing.grid([*names, "error"], shown_lines)
    if len(matches) > cells:
        printing.say(f"({cells:,} of {len(matches):,} cells)")


def verify(
    cube: File,
    stored: Database,
    shown: Common,
    source: Data = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the cube with its fresh certificates, if all are proven.",
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help="Memory to use, such as 500MB (1GB)."),
    ] = None,
) -> None:
    """Prove or refute every cell of a cube: are its moments those of the data, and are its rows and
    cells there?

    The data is read once. Exit code 1 if a cell does not agree, is missing, or has no rows in the
    data.

    Example:  karat cube verify cube.parquet data/
    """
    if output is not None:
        check_output(output, [*(source or ()), *stored.files], False, CUBE)
    start = time.perf_counter()
    loaded = karat.Cube.load(cube)
    with printing.progress(not shown.as_json) as advance:
        verification = loaded.verify(
            stored.source(source),
            progress=advance,
            **({} if memory is None else {"memory": memory}),
        )
    if output is not None and verification.ok:
        verification.cube.save(output)
    seconds = time.perf_counter() - start
    if shown.as_json:
        printing.document(verification.to_dict() | {"seconds": seconds})
    else:
        worst = wording.worst_error(verification.certificate.to_dict(), wording.TERMINAL)
        lines = {
            "worst error": f"{worst}: {wording.verdict(verification.ok)}",
            "cells": f"{len(loaded):,} by {', '.join(loaded.by)}",
            "rows": f"{verification.n_rows:,} read{wording.of_which(verification.left_out)}",
        }
        lines |= {"where": "\n".join(verification.reasons())} if not verification.ok else {}
        lines |= {"output": str(output)} if output is not None and verification.ok else {}
        tone = printing.GOOD if verification.ok else printing.BAD
        printing.key_values(
            f"{cube}: {wording.check_verdict(verification.ok)}",
            lines | {"time": printing.seconds(seconds)},
            tone,
        )
    if not verification.ok:
        raise typer.Exit(FAILED)


COMMANDS = (build, fit, update, show, verify)


def _facts(cube: karat.Cube, path: Path) -> dict[str, Any]:
    kept, rows = int(cube.cells.starts[-1]), int(cube.cells.counts.sum())
    facts = {
        "cells": len(cube),
        "by": list(cube.by),
        "rows_in": rows,
        "left_out": cube.left_out,
        "rows_kept": kept,
        "kind": cube.rows,
        "cells_of_real_rows": len(cube) - int(cube.cells.made.sum()),
        "problem": cube.problem.describe(),
        "cov": cube.cov,
    }
    errors = {
        "worst_error": float(max(certificate.loss_error for certificate in cube.cells.certificates))
    }
    exact = {
        "exact": all(certificate.ok for certificate in cube.cells.certificates),
        "changes": len(cube.history),
    }
    return facts | errors | exact | {"bytes": path.stat().st_size}


def _cube_lines(cube: karat.Cube, path: Path) -> dict[str, str]:
    facts = _facts(cube, path)
    return {
        "cells": f"{facts['cells']:,} by {', '.join(cube.by)}",
        "rows": cube.describe(),
        "problem": facts["problem"],
        "worst error": f"{facts['worst_error']:.1e}: {'exact' if facts['exact'] else 'NOT exact'}",
        "changes": f"{facts['changes']:,}, the last of {cube.history[-1]['time']}",
        "file": f"{path} ({printing.amount(facts['bytes'])})",
    }


def _print_change(cube: karat.Cube, path: Path, seconds: float, shown: Common, title: str) -> None:
    if shown.as_json:
        printing.document(_facts(cube, path) | {"output": str(path), "seconds": seconds})
    else:
        printing.key_values(
            title, _cube_lines(cube, path) | {"time": printing.seconds(seconds)}, printing.GOLD
        )


def _yes_or_no(value: Any) -> Any:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def _records(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as a list of records, with dates as text."""
    plain = [
        values.astype(str).tolist() if values.dtype.kind == "M" else values.tolist()
        for values in columns.values()
    ]
    return [dict(zip(columns, line, strict=True)) for line in zip(*plain, strict=True)]


def _selection(cube: karat.Cube, where: list[str] | None) -> dict[str, Any]:
    """The labels of ``--where`` by name; a range FIRST..LAST becomes a slice."""
    selection: dict[str, Any] = {}
    for text in where or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"--where {text}: write it as LABEL=VALUE, such as region=EU.")
        read = partial(_parse_label, cube.labels(name).dtype.kind, name)
        first, dots, last = value.partition("..")
        if dots and name not in selection:
            selection[name] = slice(read(first) if first else None, read(last) if last else None)
        elif dots or isinstance(selection.get(name), slice):
            raise InputError(f"--where {text}: a range of {name} excludes other values of it.")
        else:
            selection[name] = [*selection.get(name, ()), read(value)]
    return selection


def _parse_label(kind: str, name: str, text: str) -> Any:
    """Parse a label, as a number if the labels are numbers."""
    if kind in "USM":
        return text
    if kind == "b":
        return {"true": True, "false": False}.get(text.lower(), text)
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    raise InputError(f"--where {name}={text}: the value must be a number, as the labels are.")


def _window(text: str) -> tuple[str, int | str]:
    name, colon, window = text.rpartition(":")
    if not colon or not window[:1].isdigit():
        raise InputError(
            f"--rolling {text}: write it as LABEL:STEPS, such as day:28, or as day:28D for 28 days."
        )
    return name, int(window) if window.isdigit() else window
