"""karat regress: the regression table of all rows, from a formula."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.options import Common, check_output
from karat.errors import InputError, StorageError

OnMissing = StrEnum("OnMissing", ["ERROR", "DROP"])
OnCollinear = StrEnum("OnCollinear", ["ERROR", "DROP"])


def regress(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA... FORMULA",
            help="Parquet, CSV or Arrow files, folders or globs, and the formula, first or last.",
        ),
    ],
    shown: Common,
    cov: Annotated[
        list[str] | None,
        typer.Option(
            "--cov",
            metavar="KIND",
            help=(
                "nonrobust, HC0, HC1, HC2, HC3, cluster:COLUMN[,COLUMN], CR2:COLUMN or"
                " CR3:COLUMN. Repeat it to store several; the first is shown."
            ),
        ),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Weights: inverse variances of the rows.")
    ] = None,
    use_t: Annotated[
        bool,
        typer.Option(
            "--use-t", help="Use the t distribution for robust errors, as in R and Stata."
        ),
    ] = False,
    ssc: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=(
                "Small-sample corrections: statsmodels (default), pyfixest (default with fixed"
                " effects) or none."
            ),
        ),
    ] = None,
    on_missing: Annotated[
        OnMissing, typer.Option(help="Raise an error for missing values, or drop their rows.")
    ] = OnMissing.ERROR,
    on_collinear: Annotated[
        OnCollinear,
        typer.Option(
            help="Raise an error for a column that others determine, or drop and name it."
        ),
    ] = OnCollinear.ERROR,
    residuals: Annotated[
        bool,
        typer.Option(
            "--residuals",
            help="Also the quartiles and extremes of all residuals, by one or two more passes.",
        ),
    ] = False,
    submodels: Annotated[
        bool,
        typer.Option(
            "--submodels", help="Store what robust errors of any smaller formula follow from."
        ),
    ] = False,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="With fixed effects: a table for each level of a column."
        ),
    ] = None,
    fsplit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="As --split, and the table of all rows."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With fixed effects: an .npz file from which a run that was killed resumes.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Save the coreset with its sums: .parquet or .npz.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an output that is not a coreset.")
    ] = False,
) -> None:
    """Print the regression table of all rows: coefficients, errors, tests, R2, AIC and BIC, as
    statsmodels gives them.

    One file may be a coreset that an earlier run saved; then the formula may be left out, or be a
    smaller one.

    Fixed effects are written behind a bar and absorbed: "y ~ a | firm + year".  Several responses
    have a table each, from the same passes: "y1 + y2 ~ a".

    Example:  karat regress data.parquet "y ~ a + C(b)" --cov cluster:user_id
    """
    paths, formula = _split(source)
    kinds, cluster = _covariances(cov or ["nonrobust"])
    if output is not None:
        check_output(output, paths, force)
    stored = _coreset(paths)
    from karat.inference import ols
    from karat.panels.effects import has_effects

    absorbed = formula is not None and has_effects(formula)
    if absorbed and output is not None:
        raise InputError(
            "--output saves the coreset of a table, and a table with fixed effects has none; leave"
            " it out, or use --json."
        )
    options: dict[str, Any] = {
        "cov_type": kinds,
        "cluster": cluster,
        "weights": weight,
        "use_t": use_t or None,
        "ssc": ssc,
        "on_collinear": on_collinear.value,
    }
    options |= {"residual_quantiles": residuals, "submodels": submodels}
    options |= {"split": split, "fsplit": fsplit, "checkpoint": checkpoint}
    if stored is None and formula is None:
        odd = next((path for path in paths if " " in path and not Path(path).exists()), None)
        fault = "The formula is missing" if odd is None else f"{odd!r} is no file and no formula"
        raise InputError(f'{fault}: karat regress data.parquet "y ~ a + C(b)".')
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        if stored is not None:
            fit = ols(stored, **options) if formula is None else ols(formula, stored, **options)
        else:
            assert formula is not None
            with printing.progress(not shown.as_json) as advance:
                fit = ols(formula, paths, on_missing=on_missing.value, progress=advance, **options)
        document: dict[str, Any]
        if split or fsplit:
            samples = {name: _panel_document(each) for name, each in fit.samples()}
            document = {"samples": samples, "errors": list(map(str, fit.errors.values()))}
        elif isinstance(fit, Mapping):
            if output is not None:
                raise InputError(
                    "--output saves the coreset of one table, and this formula has several"
                    " responses; leave it out, or save a table for each."
                )
            document = {"tables": [_document(one) for one in fit.values()]}
        else:
            document = _panel_document(fit) if absorbed else _document(fit)
        table = str(fit.summary())
    warned = list(dict.fromkeys(str(warning.message) for warning in caught))
    if output is not None:
        fit.coreset.save(output)
    if shown.as_json:
        document |= {"warnings": warned} | ({} if output is None else {"output": str(output)})
        printing.document(document)
        return
    print(table)
    for text in warned:
        printing.say(f"Warning: {text}", "yellow")
    if output is not None:
        printing.say(f"\nSaved to {output}; karat inspect {output} shows what it can answer.")


def _split(words: list[str]) -> tuple[list[str], str | None]:
    """Split the paths from the formula, the first or last word, which contains a tilde."""
    for place in (len(words) - 1, 0):
        if "~" in words[place] and not Path(words[place]).exists():
            if len(words) == 1:
                raise InputError("Name the data, too: karat regress data.parquet 'y ~ a'.")
            return words[:place] + words[place + 1 :], words[place]
    return words, None


def _covariances(typed: list[str]) -> tuple[list[str], list[str] | None]:
    kinds, columns = [], []
    for text in typed:
        kind, colon, column = text.partition(":")
        if colon and kind not in ("cluster", "CR2", "CR3"):
            raise InputError(
                f"--cov {text}: only cluster, CR2 and CR3 take a column, as in cluster:user_id."
            )
        if column:
            columns.append(column)
        kinds.append(kind)
    if len(set(columns)) > 1:
        raise InputError("Name the columns of several ways in one option: --cov cluster:A,B.")
    return kinds, columns[0].split(",") if columns else None


def _coreset(paths: list[str]) -> Any:
    """The coreset in a file; None if the paths are data."""
    if (
        len(paths) != 1
        or Path(paths[0]).suffix not in (".npz", ".parquet")
        or not Path(paths[0]).is_file()
    ):
        return None
    try:
        return karat.Coreset.load(paths[0])
    except (InputError, StorageError):
        if Path(paths[0]).suffix == ".npz":
            raise
        return None


def _panel_document(fit: Any) -> dict[str, Any]:
    model = fit.model
    names = [effect.name for effect in model.plan.effects]
    ways = zip(model.plan.clusters, model.clusters.ways, strict=True)
    return {
        "model": fit.glance().iloc[0].to_dict(),
        "coefficients": fit.tidy().to_dict("records"),
        "response": model.design.formula.response.text,
        "fixed_effects": dict(zip(names, model.parameters.levels, strict=True)),
        "clusters": dict(ways) if fit.clustered else None,
        "parameters": fit.df_k,
        "largest_level_mean": fit.level_mean,
        "notes": fit.notes,
    }


def _document(fit: Any) -> dict[str, Any]:
    return {
        "model": fit.glance().iloc[0].to_dict(),
        "coefficients": fit.tidy().to_dict("records"),
        "response": fit.model.endog_names,
        "clusters": getattr(fit, "n_groups", None),
        "residual_quantiles": fit.model.full.residuals or None,
    }
