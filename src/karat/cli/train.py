"""karat train: train a model on the kept rows and, with ``--check``, compare it with the model of
all rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.models import Fitted, Model, Trainer, trainer
from karat.cli.options import FAILED, Common
from karat.errors import several

# relative to the largest parameter; converged solvers differ by far less on the same data
SAME = 1e-6


def train(
    core: Annotated[Path, typer.Argument(metavar="CORESET", help="A coreset file.")],
    shown: Common,
    model: Annotated[
        Model | None,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(Model)}. Default: that of the coreset's problem.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(help="Penalty, as in scikit-learn. Default: that of the problem."),
    ] = None,
    l1_ratio: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of the l1 penalty in elastic-net (0.5)."),
    ] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="The model has no intercept.")
    ] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA",
            help="The data: train on all rows too, in memory, and compare. Repeat for several.",
        ),
    ] = None,
) -> None:
    """Train a model on a coreset; its parameters are those of the full data.

    With --check, the exit code is 1 if they are not.

    Example:  karat train core.parquet --model lasso --alpha 0.1 --check data.parquet
    """
    loaded = karat.Coreset.load(core)
    chosen, learner = trainer(loaded, model, alpha, l1_ratio, not no_intercept)
    fitted = Fitted(learner.on_coreset(loaded), learner.seconds_on_coreset(loaded))
    results: dict[str, Any] = {
        "model": chosen.value,
        "rows": len(loaded),
        "seconds": fitted.seconds,
        "parameters": _parameters_by_name(loaded, fitted),
    }
    full, at = None, {}
    if check:
        from karat.io.read_all import read_all

        rows = read_all(loaded, check)
        full = learner.on_all_rows(rows)
        at = results["check"] = _compared(fitted, full) | {
            "rows": len(rows.X[0] if isinstance(rows.X, tuple) else rows.X),
            "rows_expected": loaded.n_represented,
            "parameters": _parameters_by_name(loaded, full),
            "solver_tolerance": {
                "compared": learner.tolerance,
                "timed": learner.usual.tolerance if learner.usual else None,
            },
        }
    if shown.as_json:
        printing.document(results)
    else:
        printing.say(
            f"{chosen.value} from {several(len(loaded), 'row')} in place of"
            f" {loaded.n_represented:,}",
            style="bold",
        )
        _print_parameters(loaded, fitted, full)
        if full is not None:
            verdict, tone = (
                ("the same", printing.GOOD) if at["same"] else ("NOT the same", printing.BAD)
            )
            printing.key_values(
                f"\nTrained on all rows too: {verdict}",
                _comparison_lines(at, loaded, fitted, learner),
                tone,
            )
    if full is not None and not at["same"]:
        raise typer.Exit(FAILED)


def _compared(few: Fitted, all_rows: Fitted) -> dict[str, Any]:
    """Compare parameters: whether they agree, their largest difference, absolute and relative, and
    the time of all rows.

    A difference is relative to the largest parameter of its kind.  For the intercept that includes
    the coefficients, whose errors it inherits.
    """
    # some parameters exist only for all rows
    both = {name: value for name, value in all_rows.parameters.items() if name in few.parameters}
    differences = {
        name: float(abs(value - few.parameters[name]).max()) for name, value in both.items()
    }
    sizes = {name: float(abs(value).max()) for name, value in both.items()}
    if "intercept" in sizes:
        sizes["intercept"] = max(sizes["intercept"], sizes["coef"])
    relative = max(differences[name] / (sizes[name] or 1.0) for name in sizes)
    return {
        "same": relative <= SAME,
        "difference": max(differences.values()),
        "relative": relative,
        "tolerance": SAME,
        "seconds": all_rows.seconds,
    }


def _comparison_lines(
    check: dict[str, Any], core: karat.Coreset, fitted: Fitted, learner: Trainer
) -> dict[str, str]:
    rows = f"{check['rows']:,}, against {len(core):,}"
    if check["rows"] != check["rows_expected"]:
        rows += f"; the data has changed: the coreset represents {check['rows_expected']:,}"
    lines = {
        "rows": rows,
        "largest difference": (
            f"{check['difference']:.1e}, {check['relative']:.0e} of the largest parameter (limit"
            f" {SAME:.0e})"
        ),
        "time to train": (
            f"all rows {printing.seconds(check['seconds'])}, coreset"
            f" {printing.seconds(fitted.seconds)}"
        ),
    }
    if learner.usual is not None:
        lines["solver tolerance"] = (
            f"{learner.tolerance:.0e} for the comparison; the times are at scikit-learn's default, "
            f"{learner.usual.tolerance:.0e}"
        )
    return lines


def _parameters_by_name(core: karat.Coreset, fitted: Fitted) -> dict[str, Any]:
    """Label the parameters of linear models with columns and targets."""
    if "coef" not in fitted.parameters:
        return dict(fitted.parameters)
    targets, features = (
        printing.names_of_role(core, "target"),
        printing.names_of_role(core, "feature"),
    )
    coef, intercept = fitted.parameters["coef"], fitted.parameters["intercept"]
    return {
        "coefficients": {
            t: dict(zip(features, row, strict=True)) for t, row in zip(targets, coef, strict=True)
        },
        "intercept": dict(zip(targets, intercept, strict=True)),
    }


def _print_parameters(core: karat.Coreset, fitted: Fitted, full: Fitted | None) -> None:
    if "coef" not in fitted.parameters:
        for name, value in fitted.parameters.items():
            printing.say(f"\n{name.rstrip('_')} {' x '.join(map(str, value.shape))}", style="bold")
            printing.matrix(value)
        return
    names = [*printing.names_of_role(core, "feature"), "intercept"]
    columns = dict(
        zip(printing.names_of_role(core, "target"), _coefficient_rows(fitted), strict=True)
    )
    if full is not None and len(columns) == 1:
        columns["all rows"] = _coefficient_rows(full)[0]
    printing.grid(
        ["", *columns],
        [[name, *(float(v[i]) for v in columns.values())] for i, name in enumerate(names)],
    )


def _coefficient_rows(fitted: Fitted) -> Any:
    """Stack a row per target: its coefficients, then its intercept."""
    import numpy as np

    return np.column_stack([fitted.parameters["coef"], fitted.parameters["intercept"]])
