"""The regression table of all rows, from a formula or a coreset.

levels     one pass, if the formula has categories or transforms of all rows, or there are weights
           (:mod:`karat.formulas.learn`)
moments    one pass: the coreset of the design (:mod:`karat.stream`)
scores     one pass at the solution, for robust covariances (:mod:`.scores`)
residuals  one or two passes at the solution, for quantiles of all residuals (:mod:`.residuals`)

The coreset keeps the coefficients, the residual and the total sum of squares, so standard errors,
t, F, R2, log-likelihood, AIC and BIC follow from it and the number of observations.  Plain
``WLS(weights=core.weights)`` gets the coefficients and R2 right and the rest wrong: it treats
weights as precisions and counts kept rows as observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from karat.core.coreset import Coreset
from karat.core.provenance import Provenance
from karat.core.regression import Regression, answers
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.data.arguments import progress_bar
from karat.engine.least_squares import dependent_columns
from karat.engine.rows import Progress
from karat.errors import InputError, NotExactError
from karat.formulas.cells import FREQUENCY, RESPONSE, as_cells
from karat.formulas.design import INTERCEPT, make_design, restored_design
from karat.formulas.formula import parse
from karat.formulas.layout import formula_columns
from karat.formulas.learn import Learn
from karat.formulas.passes import needed_columns, open_rows
from karat.formulas.transforms import transforms_of
from karat.inference.covariance import WHITENING, FullData, turned
from karat.inference.new_rows import Encoder
from karat.inference.options import check_design, cluster_columns, covariance_kinds
from karat.inference.residuals import residual_quantiles
from karat.inference.results import FrequencyWLS
from karat.inference.scores import FullDataSolution, Scores, check_clusters, wanted_sums
from karat.inference.ssc import PYFIXEST, STATSMODELS, SmallSample, small_sample
from karat.panels.effects import has_effects
from karat.panels.fit import panel_table

JOINT = " + "  # between the names of cluster columns


def ols(
    formula: str | Coreset,
    data: Any = None,
    *,
    cov_type: str | Sequence[str] = "nonrobust",
    cluster: str | Sequence[str] | None = None,
    weights: str | None = None,
    frequencies: str | None = None,
    ssc: Any = None,
    use_t: bool | None = None,
    on_missing: str = "error",
    on_collinear: str = "error",
    residual_quantiles: bool = False,
    memory: int | None = None,
    progress: Progress | bool | None = None,
) -> Any:
    """The regression table of all rows, as statsmodels would give it, in bounded memory.

    Parameters
    ----------
    formula : str or Coreset
        Such as ``"price ~ carat + C(cut) + carat:C(color)"``, or ``"y ~ x | firm + year"`` with
        fixed effects, which are absorbed; or the coreset of a table.
    data : optional
        Rows: a pandas or polars frame, an Arrow table, a path, list, folder or pattern of Parquet,
        CSV or Arrow files, a DuckDB relation, a Dask or Spark data frame.  Or, with a formula, the
        coreset of a larger one.
    cov_type : str, or a list of them
        nonrobust, HC0, HC1, HC2, HC3 or cluster.  With several, the table shows the first, and the
        sums of all are stored.
    cluster : str or list of str, optional
        The column that labels the clusters; several for errors that are clustered in several ways
        (Cameron, Gelbach and Miller), as in statsmodels.
    weights : str, optional
        The column of the weights: inverse variances, as in statsmodels' WLS (``weights`` of lm,
        analytic weights of Stata).
    frequencies : str, optional
        A column of integers: how many equal observations each row stands for.
    ssc : str or dict, optional
        Small-sample corrections: ``"statsmodels"`` (default), ``"pyfixest"``, ``"none"``, or
        switches such as ``{"g_adj": False}``; the table says which.  With fixed effects the
        default is ``"pyfixest"``.
    use_t : bool, optional
        Use the t distribution with robust covariances; the default is the normal distribution, as
        in statsmodels, and t with fixed effects, as in pyfixest.
    on_missing : {"error", "drop"}
        What to do with rows in which a value of the formula is missing.
    on_collinear : {"error", "drop"}
        What to do with a column that is a linear combination of columns before it, or zero, such as
        that of an empty cell of two factors.  ``"drop"`` leaves it out and names it in the table,
        as R, Stata and fixest do.
    residual_quantiles : bool, default False
        Also compute the exact quartiles and extremes of all residuals, in one more pass (two from
        four million rows on).
    memory : int, optional
        With fixed effects: the bytes that the pairs of levels of two effects may take (default
        4 GiB).
    progress : True or callable, optional
        True shows a bar.  A callable is called with (bytes done, bytes in all) in every pass.

    Returns
    -------
    results
        statsmodels' results of all rows, with labels; also ``tidy()``, ``glance()``,
        ``submodel(...)``, ``predict(frame, interval=0.95)``, and ``coreset``, which you can save
        and query again later: ``ols(karat.load(path))``.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from karat.inference import ols
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"x": rng.standard_normal(50_000), "g": rng.integers(0, 3, 50_000)})
    >>> frame["y"] = 2 * frame["x"] + frame["g"] + rng.standard_normal(50_000)
    >>> fit = ols("y ~ x + C(g)", frame, cov_type="HC1")
    >>> list(fit.params.index), int(fit.nobs)
    (['Intercept', 'C(g)[T.1]', 'C(g)[T.2]', 'x'], 50000)
    """
    clusters = cluster_columns(cluster)
    kinds, corrections = covariance_kinds(cov_type, clusters), small_sample(ssc)
    for name, switch in (("use_t", use_t), ("residual_quantiles", residual_quantiles)):
        if switch not in (None, True, False):
            raise InputError(f"{name} must be True or False, not {switch!r}.", argument=name)
    if on_collinear not in ("error", "drop"):
        raise InputError(
            f"on_collinear must be 'error' or 'drop', not {on_collinear!r}.",
            argument="on_collinear",
        )
    drop = on_collinear == "drop"
    if isinstance(formula, str) and "|" in formula and has_effects(formula):
        if isinstance(data, Coreset) or data is None:
            raise InputError(
                "Fixed effects behind '|' need the data: ols('y ~ x | firm', frame_or_path).",
                argument="data",
            )
        if frequencies is not None or residual_quantiles:
            raise InputError(
                "frequencies= and residual_quantiles= cannot be combined with fixed effects behind"
                " '|'; leave them out.",
                argument="frequencies",
            )
        with progress_bar(progress, "B") as advance:
            return panel_table(
                formula, data, kinds=kinds, clusters=clusters, weights=weights,
                ssc=small_sample(ssc, PYFIXEST), use_t=use_t, on_missing=on_missing, drop=drop,
                memory=memory, progress=advance,
            )  # fmt: skip
    if memory is not None:
        raise InputError(
            "memory= is for the pairs of levels of fixed effects, as in 'y ~ x | firm + year'.",
            argument="memory",
        )
    if isinstance(formula, Coreset):
        if weights is not None or frequencies is not None:
            raise InputError(
                "Remove weights= and frequencies=: a coreset has its own weights.",
                argument="weights",
            )
        core = _dropping(formula) if drop else formula
        if data is not None:
            with progress_bar(progress, "B") as advance:
                core = _with_scores(
                    core, data, kinds, clusters, on_missing, residual_quantiles, advance
                )
        _check_cluster(core, kinds, clusters)
        fit = _shown(core, kinds[0], use_t, drop, corrections)
        if residual_quantiles:
            fit.residual_quantiles  # noqa: B018 - raises if they are not stored
        return fit
    if not isinstance(formula, str):
        raise InputError(
            f"The first argument must be a formula or a coreset, not {type(formula).__name__}.",
            argument="formula",
        )
    if data is None:
        raise InputError("A formula needs data: ols('y ~ x', frame_or_path).", argument="data")
    if isinstance(data, Coreset):
        given = (weights, frequencies) != (None, None)
        if kinds != ("nonrobust",) or given or residual_quantiles:
            raise NotExactError(
                "A submodel of a coreset has only the classical covariance; robust sums and"
                " quantiles of residuals belong to one formula."
            )
        return _shown(data, "nonrobust", use_t, drop, corrections).submodel(formula)
    with progress_bar(progress, "B") as advance:
        core = formula_coreset(
            formula, data, weights, on_missing, advance, kinds, clusters, residual_quantiles, drop,
            frequencies,
        )  # fmt: skip
    return _shown(core, kinds[0], use_t, ssc=corrections)


def _check_cluster(core: Coreset, kinds: Sequence[str], clusters: Sequence[str]) -> None:
    """Raise if the stored sums are of the clusters of another column."""
    stored = (
        {} if core.regression is None else core.regression.facts["covariances"].get("cluster", {})
    )
    cluster = JOINT.join(clusters)
    if "cluster" in kinds and clusters and stored and stored["column"] != cluster:
        raise NotExactError(
            f"This coreset stores the sums of the clusters {stored['column']!r}, not {cluster!r};"
            " pass the data."
        )


def _shown(
    core: Coreset, kind: str, use_t: bool | None, drop: bool = False,
    ssc: SmallSample = STATSMODELS,
) -> Any:  # fmt: skip
    results = _table(core, kind, use_t, drop, ssc)
    if core.regression is not None:
        results.model.design = Encoder(restored_design(core.regression.facts))
    return results


def _dropping(core: Coreset) -> Coreset:
    """The coreset of a formula from whose table dependent columns are left out."""
    if core.regression is None or core.regression.facts.get("dropped") is not None:
        return core
    dropped = list(_table(core, drop=True).model.dropped)
    if dropped and core.regression.sums:
        raise NotExactError(
            "The robust sums of this coreset are those of all columns; call ols with the formula,"
            " the data and on_collinear='drop'."
        )
    return replace(
        core,
        regression=replace(core.regression, facts=core.regression.facts | {"dropped": dropped}),
    )


def _table(
    core: Coreset, cov_type: str = "nonrobust", use_t: bool | None = None, drop: bool = False,
    ssc: SmallSample = STATSMODELS,
) -> Any:  # fmt: skip
    """Ordinary least squares on the full data from a coreset of LeastSquares() with one target.

    Input weights count as frequencies, unless the coreset was made by :func:`ols` with weights.
    """
    # synthetic rows keep all second moments
    keeps_squares = core.problem.keeps_squares and core.problem.keeps_total
    sufficient = core.rows == SYNTHETIC or keeps_squares
    if core.y is None or not sufficient or core.absorbed is not None:
        raise NotExactError(
            "Inference needs a coreset of LeastSquares() with its total weight and a target."
        )
    X, y = core.arrays()
    assert y is not None
    if y.ndim == 2 and y.shape[1] > 1:
        raise NotExactError("Inference needs a single target; build a coreset for each.")
    facts = {} if core.regression is None else core.regression.facts
    intercept = facts.get("intercept", core.problem.shifts)
    names = facts.get("columns") or (
        list(containers.columns_of(core.X)) if containers.is_frame(core.X) else []
    )
    names = names if len(names) == X.shape[1] else [f"x{i + 1}" for i in range(X.shape[1])]
    design = pd.DataFrame(
        np.column_stack([np.ones(len(X)), X]) if intercept else X,
        columns=([INTERCEPT] if intercept else []) + names,
    )
    dropped = facts.get("dropped")
    if dropped is None and drop:
        places = dependent_columns(design.to_numpy(), core.weights, intercept)
        dropped = [design.columns[place] for place in places]
    design = design.drop(columns=dropped or [])
    if design.empty:
        raise InputError("Every column is always zero; there is nothing to estimate.")
    targets = Provenance.read(core.provenance).targets or [getattr(core.y, "name", None) or "y"]
    response = pd.Series(y.ravel(), name=facts.get("response", str(targets[0])))
    model = FrequencyWLS(response, design, core.weights, _full_data(core), core)
    model.dropped, model.ssc = tuple(dropped or ()), ssc
    return model.fit(cov_type=cov_type, use_t=use_t)


def _full_data(core: Coreset) -> FullData:
    """What a coreset stores about all rows, besides the kept ones."""
    if core.regression is None:
        return FullData(float(core.weights.sum()))
    facts = core.regression.facts
    cluster = facts["covariances"].get("cluster", {})
    return FullData(
        float(facts["observations"]), float(facts.get("log_weights") or 0.0), core.regression.sums,
        dict(facts.get("residual_quantiles") or {}),
        tuple(cluster.get("counts") or [cluster.get("clusters", 0)]),
        bool(facts.get("merged")),
    )  # fmt: skip


def formula_coreset(
    text: str, data: Any, weight: str | None, on_missing: str, progress: Progress | None,
    kinds: Sequence[str] = (), clusters: Sequence[str] = (), quantiles: bool = False,
    drop: bool = False, frequencies: str | None = None,
) -> Coreset:  # fmt: skip
    """The coreset of a formula, with the sums of the covariances and the quantiles of the
    residuals.
    """
    for name, given in (("weights", weight), ("frequencies", frequencies)):
        if given is not None and not isinstance(given, str):
            raise InputError(f"{name} must be the name of a column of the data.", argument=name)
    if frequencies is not None and (weight is not None or quantiles):
        raise InputError(
            "frequencies= cannot be combined with weights= or residual_quantiles=; repeat the rows,"
            " or leave one of them out.",
            argument="frequencies",
        )
    weight = weight or frequencies
    others = (weight, *clusters)
    rows = open_rows(needed_columns(data, text, others), progress)
    schema = rows.schema()
    formula = parse(text, [name for name in schema.names if name not in others])
    columns = formula_columns(formula, schema, weight, on_missing, clusters)
    columns = replace(columns, frequencies=frequencies is not None)
    rows.as_codes(columns.coded())
    if (
        weight is None
        and not quantiles
        and not list(transforms_of((*formula.factors, formula.response)))
    ):
        cells = as_cells(rows, columns, tuple(dict.fromkeys([*formula.regressors, *clusters])))
        if cells is not None:
            roles = replace(columns.roles, weight=FREQUENCY)
            rows, columns = cells, replace(columns, roles=roles, frequencies=True, joined=RESPONSE)
    learn = Learn(columns, rows.declared, rows.all_doubles)
    if learn.needed:
        learn = rows.scan(learn.reading(), learn)
    design = make_design(formula, learn.learned())
    if not design.names:
        raise InputError(f"The formula {text!r} has no term; add one, or the intercept.")
    check_design(design)
    layout = columns.of_design(design)
    core = rows.coreset(layout)
    facts = (
        design.facts()
        | {
            "response": formula.response.text,
            "columns": design.names,
            "intercept": design.intercept,
            "observations": round(learn.total_weight)
            if columns.frequencies
            else int(core.n_represented),
            "weights": weight,
            "log_weights": learn.log_weights if weight is not None and not frequencies else None,
            "covariances": {},
        }
        | ({"frequencies": True} if frequencies else {})
    )
    core = replace(core, regression=Regression(facts))
    core = _dropping(core) if drop else core
    return _scored(core, rows, layout, kinds, clusters, quantiles)


def _scored(
    core: Coreset,
    rows: Any,
    layout: Any,
    kinds: Sequence[str],
    clusters: Sequence[str],
    quantiles: bool,
) -> Coreset:
    """The coreset with the results of passes at the solution: sums of robust covariances, quantiles
    of the residuals.
    """
    regression, wanted = core.regression, wanted_sums(kinds)
    assert regression is not None
    if "cluster" in wanted and not clusters:
        raise InputError(
            "cov_type='cluster' needs cluster=, the column that labels the clusters.",
            argument="cluster",
        )
    if not wanted and not quantiles:
        return core
    solution = FullDataSolution(
        _table(core).solution, regression.facts["intercept"], regression.facts["observations"]
    )
    layout = replace(layout, dropped=tuple(regression.facts.get("dropped") or ()))
    if wanted:
        scores = rows.scan(
            replace(layout, labelled="cluster" in wanted),
            Scores(solution, wanted, len(clusters), layout.frequencies),
        )
        regression = _with_sums(regression, scores, clusters)
    if quantiles:
        quantile_facts = {"residual_quantiles": residual_quantiles(rows, layout, solution)}
        regression = replace(regression, facts=regression.facts | quantile_facts)
    return replace(core, regression=regression)


def _with_sums(regression: Regression, scores: Any, columns: Sequence[str]) -> Regression:
    """The regression with new sums of robust covariances; sums of other kinds stay."""
    sums = scores.covariances()
    covariances: dict[str, Any] = {kind: {} for kind in sums}
    if scores.clusters:
        for name, count in zip(columns, scores.counts, strict=True):
            if count < 2:
                raise InputError(
                    f"The column {name!r} has a single cluster; a clustered covariance needs two or"
                    " more.",
                    column=name,
                )
        fewest = min(scores.counts)
        described = {"column": JOINT.join(columns), "clusters": fewest, "counts": scores.counts}
        covariances["cluster"] = described
        names = answers(regression)["columns"]
        check_clusters(scores.solution, names, sums["cluster"], fewest, columns)
    estimate = scores.solution.estimate
    covariances = regression.facts["covariances"] | covariances
    sums = turned(regression.sums, estimate) | sums | {WHITENING: estimate.whitening}
    return Regression(regression.facts | {"covariances": covariances}, sums)


def _with_scores(
    core: Coreset,
    data: Any,
    kinds: Sequence[str],
    clusters: Sequence[str],
    on_missing: str,
    quantiles: bool,
    progress: Any,
) -> Coreset:
    """The coreset of a formula with sums over its data, which are computed now."""
    if core.regression is None:
        raise NotExactError(
            "This coreset was not made from a formula; call ols(formula, data, cov_type=...)."
        )
    design = restored_design(core.regression.facts)
    others = (core.regression.facts["weights"], *clusters)
    rows = open_rows(needed_columns(data, design.formula.text, others), progress)
    columns = formula_columns(
        design.formula, rows.schema(), core.regression.facts["weights"], on_missing, clusters
    )
    columns = replace(columns, frequencies=bool(core.regression.facts.get("frequencies")))
    if columns.frequencies and quantiles:
        raise InputError(
            "Quantiles of residuals are not available with frequencies; repeat the rows.",
            argument="residual_quantiles",
        )
    rows.as_codes(columns.coded())
    return _scored(core, rows, columns.of_design(design), kinds, clusters, quantiles)
