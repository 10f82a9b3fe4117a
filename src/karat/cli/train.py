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
    core: Annotated[Path, typer.Argument(help="A coreset file.")],
    shown: Common,
    model: Annotated[Model | None, typer.Option(help="The model; by default that of the coreset's problem.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Penalty, as in scikit-learn; by default that of the problem.")] = None,
    l1_ratio: Annotated[float | None, typer.Option(min=0, max=1, help="Of elastic-net (0.5).")] = None,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="The model has no intercept.")] = False,
    check: Annotated[
        list[str] | None,
        typer.Option(help="The data itself: train on all rows too, in memory, and compare. Repeat for several."),
    ] = None,
) -> None:
    """Train a model on a coreset; its parameters are those of the full data.

    Example:  karat train core.parquet --model lasso --alpha 0.1 --check data.parquet
    """
    import karat

    loaded = karat.load(core)
    chosen, learner = trainer(loaded, model, alpha, l1_ratio, not no_intercept)
    fitted = timed(lambda: learner.on_coreset(loaded))
    found = {"model": chosen.value, "rows": len(loaded), "seconds": fitted.seconds, "parameters": _named(loaded, fitted)}
    if shown.as_json:
        _show.document(found)
        return
    _show.say(f"{chosen.value} from {len(loaded):,} rows that stand for {loaded.n_rows:,}", style="bold")
    _print(loaded, fitted)


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


def _print(core: Coreset, fitted: Fitted) -> None:
    if "coef" not in fitted.parameters:
        for name, value in fitted.parameters.items():
            _show.say(f"\n{name.rstrip('_')} {' x '.join(map(str, value.shape))}", style="bold")
            _show.matrix(value)
        return
    coef, intercept = fitted.parameters["coef"], fitted.parameters["intercept"]
    rows = [[name, *values.tolist()] for name, values in zip(_cores.feature_names(core), coef.T, strict=True)]
    _show.grid(["", *_cores.target_names(core)], [*rows, ["intercept", *intercept.tolist()]])
