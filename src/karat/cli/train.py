"""karat train: a model from the kept rows, and, where the data is at hand, the proof that it is that of all rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from karat.cli import _cores, _show
from karat.cli._models import Fitted, Model, timed, trainer
from karat.cli._options import Common

if TYPE_CHECKING:
    from karat import Coreset


def train(
    core: Annotated[Path, typer.Argument(metavar="CORESET", help="A coreset file.")],
    shown: Common,
    model: Annotated[
        Model | None, typer.Option(metavar="NAME", help=f"One of {', '.join(Model)}. Default: that of the coreset's problem.")
    ] = None,
    alpha: Annotated[float | None, typer.Option(help="Penalty, as in scikit-learn; by default that of the problem.")] = None,
    l1_ratio: Annotated[float | None, typer.Option(min=0, max=1, help="Of elastic-net (0.5).")] = None,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="The model has no intercept.")] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DATA", help="The data itself: train on all rows too, in memory, and compare. Repeat for several."
        ),
    ] = None,
) -> None:
    """Train a model on a coreset; its parameters are those of the full data.

    Example:  karat train core.parquet --model lasso --alpha 0.1 --check data.parquet
    """
    import karat

    loaded = karat.load(core)
    chosen, learner = trainer(loaded, model, alpha, l1_ratio, not no_intercept)
    fitted = timed(lambda: learner.on_coreset(loaded))
    found: dict[str, Any] = {
        "model": chosen.value,
        "rows": len(loaded),
        "seconds": fitted.seconds,
        "parameters": _named(loaded, fitted),
    }
    full = None
    if check:
        from karat.io._whole import whole

        rows = whole(loaded, check)
        full = timed(lambda: learner.on_rows(*rows))
        found["check"] = _compared(fitted, full) | {
            "rows": len(rows.X[0] if isinstance(rows.X, tuple) else rows.X),
            "parameters": _named(loaded, full),
        }
    if shown.as_json:
        _show.document(found)
        return
    _show.say(f"{chosen.value} from {len(loaded):,} rows that stand for {loaded.n_rows:,}", style="bold")
    _print(loaded, fitted, full)
    if full is not None:
        at = found["check"]
        _show.facts(
            "\nTrained on all rows as well",
            {
                "rows": f"{at['rows']:,}, against {len(loaded):,}",
                "largest difference": f"{at['difference']:.1e} ({at['relative']:.0e} of the largest parameter)",
                "time to train": f"{_show.seconds(full.seconds)}, against {_show.seconds(fitted.seconds)}",
            },
        )


def _compared(few: Fitted, all_rows: Fitted) -> dict[str, float]:
    """The largest difference of a parameter, absolute and relative to the largest of its kind, and the time all rows took."""
    differences = {name: float(abs(value - few.parameters[name]).max()) for name, value in all_rows.parameters.items()}
    sizes = {name: float(abs(value).max()) or 1.0 for name, value in all_rows.parameters.items()}
    return {
        "difference": max(differences.values()),
        "relative": max(differences[name] / sizes[name] for name in sizes),
        "seconds": all_rows.seconds,
    }


def _named(core: Coreset, fitted: Fitted) -> dict[str, Any]:
    """Parameters by the names of columns and targets; those of latent models as they are."""
    if "coef" not in fitted.parameters:
        return dict(fitted.parameters)
    targets, features = _cores.target_names(core), _cores.feature_names(core)
    coef, intercept = fitted.parameters["coef"], fitted.parameters["intercept"]
    return {
        "coefficients": {t: dict(zip(features, row, strict=True)) for t, row in zip(targets, coef, strict=True)},
        "intercept": dict(zip(targets, intercept, strict=True)),
    }


def _print(core: Coreset, fitted: Fitted, full: Fitted | None) -> None:
    if "coef" not in fitted.parameters:
        for name, value in fitted.parameters.items():
            _show.say(f"\n{name.rstrip('_')} {' x '.join(map(str, value.shape))}", style="bold")
            _show.matrix(value)
        return
    names = [*_cores.feature_names(core), "intercept"]
    columns = dict(zip(_cores.target_names(core), _stacked(fitted), strict=True))
    if full is not None and len(columns) == 1:
        columns["all rows"] = _stacked(full)[0]
    _show.grid(["", *columns], [[name, *(float(v[i]) for v in columns.values())] for i, name in enumerate(names)])


def _stacked(fitted: Fitted) -> Any:
    """A row per target: its coefficients, then its intercept."""
    import numpy as np

    return np.column_stack([fitted.parameters["coef"], fitted.parameters["intercept"]])
