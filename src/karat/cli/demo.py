"""karat demo: a lasso at twenty penalties on a million rows, on the coreset, and on as many rows
drawn at random.

All solvers stop at the same tolerance and run on one BLAS thread: on a busy machine BLAS threads
wait for each other, and the fits of all rows took 24 s on two and 12 s on one.  All rows are fitted
in two ways: twenty separate fits, as in a grid search, and scikit-learn's ``lasso_path``, which is
fast because it sums X'X once.
"""

from __future__ import annotations

import warnings
from math import floor, log10
from typing import TYPE_CHECKING, Annotated, Any

import typer

import karat
from karat.cli import printing
from karat.cli.models import timed
from karat.cli.options import Common, count
from karat.core import wording
from karat.errors import MissingExtraError, NotExactError

if TYPE_CHECKING:
    import numpy as np

COLUMNS, ALPHAS = 10, 20
BAR = 24  # characters of the longest bar
TOLERANCE = 1e-12  # of every solver


def demo(
    shown: Common,
    rows: Annotated[
        int, typer.Option(parser=count, metavar="N", help="Rows of the made-up data.")
    ] = 1_000_000,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the data and of the choice of rows.")
    ] = 0,
) -> None:
    """Fit a lasso at twenty penalties on a million rows and on the few that karat keeps, and
    compare.

    It takes about ten seconds, nearly all for the million rows, and needs no network.

    Example:  karat demo
    """
    results = run_demo(rows, seed)
    if shown.as_json:
        printing.document(results)
    else:
        _print_demo(results)


def run_demo(rows: int, seed: int = 0) -> dict[str, Any]:
    """Run the demo and return its results."""
    import numpy as np

    try:
        from sklearn.linear_model import HuberRegressor
    except ImportError as error:
        raise MissingExtraError("karat demo", "sklearn") from error
    from karat.engine.linalg import one_blas_thread  # NumPy, which ``karat --help`` does without

    X, y = made_up(rows, seed)
    core, building = timed(lambda: karat.coreset(X, y, random_state=seed))
    chance = np.random.default_rng(seed + 1).choice(rows, size=len(core), replace=False)
    alphas = np.geomspace(2.0, 0.002, ALPHAS)
    with one_blas_thread():
        full, slow = timed(lambda: separate_fits(X, y, alphas))
        at_once, path_seconds = timed(lambda: whole_path(X, y, alphas))
        kept, fast = timed(lambda: separate_fits(core.X, core.y, alphas, core.weights))
        drawn, also_fast = timed(lambda: separate_fits(X[chance], y[chance], alphas))
    proof, verifying = timed(lambda: core.verify(X, y))
    variance, few = np.var(y), np.average(core.y, weights=core.weights)
    spread = np.average((core.y - few) ** 2, weights=core.weights)
    path = [
        {
            "alpha": alphas[i],
            "non_zero": int((full[i, :-1] != 0).sum()),
            "r2_all_rows": 1 - np.mean((X @ full[i, :-1] + full[i, -1] - y) ** 2) / variance,
            "r2_coreset": (
                1
                - np.average(
                    (core.X @ kept[i, :-1] + kept[i, -1] - core.y) ** 2, weights=core.weights
                )
                / spread
            ),
            "difference": np.abs(full[i] - kept[i]).max(),
        }
        for i in range(0, ALPHAS, 3)
    ]
    return printing.json_summary(core) | {
        "columns": COLUMNS,
        "alphas": ALPHAS,
        "solver_tolerance": TOLERANCE,
        "path": path,
        "ways": [
            {"name": "all rows", "seconds": slow, "error": None},
            {
                "name": "all, by lasso_path",
                "seconds": path_seconds,
                "error": _relative(at_once, full),
            },
            {
                "name": f"the {len(core)} of karat",
                "seconds": building + fast,
                "error": _relative(kept, full),
            },
            {
                "name": f"{len(core)} at random",
                "seconds": also_fast,
                "error": _relative(drawn, full),
            },
        ],
        "building_seconds": building,
        "verified": proof.ok,
        "verified_error": proof.loss_error,
        "verifying_seconds": verifying,
        "refusal": _refusal(core, HuberRegressor()),
    }


def made_up(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw correlated, skewed, shifted columns, and a target that depends on half of them, with
    heavy-tailed noise.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    mixing = np.eye(COLUMNS) + 0.3 * rng.standard_normal((COLUMNS, COLUMNS))
    X = np.exp(0.5 * rng.standard_normal((rows, COLUMNS))) @ mixing + rng.uniform(-5, 5, COLUMNS)
    truth = np.where(np.arange(COLUMNS) % 2, rng.standard_normal(COLUMNS), 0.0)
    return X, X @ truth + 3.0 + rng.standard_t(5, rows)


def separate_fits(X: Any, y: Any, alphas: Any, weights: Any = None) -> np.ndarray:
    """Fit a lasso at each alpha; rows of coefficients, the intercept last."""
    import numpy as np
    from sklearn.linear_model import Lasso

    model = Lasso(warm_start=True, tol=TOLERANCE, max_iter=100_000)
    path = []
    for alpha in alphas:
        model.set_params(alpha=alpha).fit(X, y, sample_weight=weights)
        path.append(np.append(model.coef_, model.intercept_))
    return np.array(path)


def whole_path(X: Any, y: Any, alphas: Any) -> np.ndarray:
    """The same fits by scikit-learn's ``lasso_path``, on centred columns since it has no
    intercept.
    """
    import numpy as np
    from sklearn.linear_model import lasso_path

    centre, level = X.mean(axis=0), y.mean()
    _, coefficients, _ = lasso_path(
        X - centre, y - level, alphas=alphas, tol=TOLERANCE, max_iter=100_000
    )
    return np.column_stack([coefficients.T, level - centre @ coefficients])


def _relative(path: np.ndarray, truth: np.ndarray) -> float:
    return float(abs(path - truth).max() / abs(truth).max())


def _refusal(core: karat.Coreset, estimator: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            core.fit(estimator)
        except NotExactError as refusal:
            return str(refusal)
    raise AssertionError("a Huber loss is not a polynomial of the data")


def _print_demo(results: dict[str, Any]) -> None:
    rows = wording.summary_rows(
        results | {"rows": results["rows_in"], "kept": results["rows_kept"]}, wording.TERMINAL
    )
    printing.key_values(
        f"{results['rows_in']:,} rows x {results['columns']} columns and a target became"
        f" {results['rows_kept']:,} rows",
        {name: rows[name] for name in ("worst error", "kept", "not kept")}
        | {"time": printing.seconds(results["building_seconds"])},
        printing.GOLD,
    )
    printing.say(
        f"\nA lasso at {results['alphas']} alphas on all rows and on the {results['rows_kept']}"
        " kept rows",
        style="bold",
    )
    names = ["alpha", "non-zero", "R2, all rows", "R2, coreset", "difference"]
    printing.grid(
        names,
        [
            [
                f"{at['alpha']:.4f}",
                at["non_zero"],
                f"{round(at['r2_all_rows'], 12) + 0.0:.12f}",  # no minus sign before zero
                f"{round(at['r2_coreset'], 12) + 0.0:.12f}",
                f"{at['difference']:.0e}",
            ]
            for at in results["path"]
        ],
        ["", "", "", "", printing.GOOD],
    )
    printing.say(
        "\nTime, with the construction, and digits of the coefficients that agree", style="bold"
    )
    printing.say(
        f"Every solver runs on one thread, to a tolerance of {results['solver_tolerance']:.0e};"
        " scikit-learn's default, 1e-04, is faster and less exact."
    )
    longest = max(way["seconds"] for way in results["ways"])
    lines = []
    for way in results["ways"]:
        bar = "█" * max(1, round(BAR * way["seconds"] / longest))
        agree = (
            ""
            if way["error"] is None
            else f"{max(0, floor(-log10(max(way['error'], 1e-16))))} digits"
        )
        lines.append([way["name"], printing.seconds(way["seconds"]), agree, bar])
    printing.grid(["", "time", "agree to", ""], lines, ["", "", "", printing.GOLD])
    printing.say(
        "lasso_path is fast because it sums X'X once. So does karat, and keeps rows: they also"
        " serve cross-validation, and any tool that takes rows with weights."
    )
    verdict, took = (
        wording.check_verdict(results["verified"]),
        printing.seconds(results["verifying_seconds"]),
    )
    printing.say(
        f"\nVerified on all rows in {took}: {verdict}, worst relative loss error"
        f" {results['verified_error']:.1e}",
        style=printing.GOOD if results["verified"] else printing.BAD,
    )
    printing.say(
        "\nAn estimator that needs more than the coreset keeps raises an error", style="bold"
    )
    printing.say(results["refusal"])
