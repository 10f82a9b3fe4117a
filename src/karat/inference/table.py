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
from pathlib import Path
from typing import Any, Never

import numpy as np
import pandas as pd

from karat.core.coreset import Coreset
from karat.core.provenance import Provenance
from karat.core.regression import Regression
from karat.core.synthetic import SYNTHETIC
from karat.data import containers
from karat.data.arguments import progress_bar
from karat.engine.least_squares import dependent_columns
from karat.engine.rows import Progress
from karat.errors import InputError, NotExactError
from karat.formulas.cells import FREQUENCY, RESPONSE, as_cells
from karat.formulas.design import INTERCEPT, make_design, restored_design
from karat.formulas.formula import parse
from karat.formulas.kept import kept_rows
from karat.formulas.layout import DesignLayout, FormulaLayout, formula_columns
from karat.formulas.learn import Learn, transforms_of
from karat.formulas.passes import is_kept, needed_columns, open_rows, rows_again
from karat.inference import habits, options
from karat.inference.cells import add_robust_sums
from karat.inference.covariance import check_stored, full_data
from karat.inference.instruments import (
    InstrumentalVariables,
    Stage,
    StageScores,
    check_instruments,
    responses,
)
from karat.inference.new_rows import Encoder
from karat.inference.options import PYFIXEST, STATSMODELS, SmallSample, small_sample
from karat.inference.residuals import residual_quantiles
from karat.inference.results import FrequencyWLS
from karat.inference.scores import FullDataSolution, Scores, wanted_sums, with_sums
from karat.inference.several import Tables, by_response
from karat.panels.effects import has_effects
from karat.panels.fit import panel_table


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
    submodels: bool = False,
    memory: int | None = None,
    checkpoint: str | Path | None = None,
    split: str | None = None,
    fsplit: str | None = None,
    progress: Progress | bool | None = None,
    **unknown: Never,
) -> Any:
    """The regression table of all rows, as statsmodels would give it, in bounded memory.

    Parameters
    ----------
    formula : str or Coreset
        Such as ``"price ~ carat + C(cut) + carat:C(color)"``; ``"y ~ x | firm + year"`` with fixed
        effects, which are absorbed; ``"y ~ w + [endogenous ~ instruments]"`` with instruments;
        ``"y1 + y2 ~ x"`` or ``"c(y1, y2) ~ x"`` for several responses; or the coreset of a table.
    data : optional
        Rows: a pandas or polars frame, an Arrow table, a path, list, folder or pattern of Parquet,
        CSV or Arrow files, a DuckDB relation, a Dask or Spark data frame.  Or, with a formula, a
        cube, a slice of it or a coreset, by the names of columns; or the table of a larger formula.
    cov_type : str, or a list of them
        nonrobust, HC0, HC1, HC2, HC3, cluster, CR2 or CR3.  With several, the table shows the
        first, and the sums of all are stored.  CR3, the jackknife of clusters, and CR2 are for few
        clusters; they also store the sums of each cluster, for ``wild_bootstrap()``.
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
    submodels : bool, default False
        Also store what HC0, HC1 and clustered errors of any choice of the columns follow from:
        ``fit.submodel(terms, cov_type="cluster")``.
    memory : int, optional
        With fixed effects: the bytes that the pairs of levels of two or more effects may take
        (default 4 GiB); a warning before the first pass says if that may be too little.
    checkpoint : path, optional
        With fixed effects and files: an ``.npz`` file from which a run that was killed resumes, to
        the same bits; files beside it (``name.pass-1.npz``) hold finished passes.
    split, fsplit : str, optional
        With fixed effects: a column; there is a table for each of its levels, from the same passes.
        ``fsplit`` has that of all rows, too, as in fixest.
    progress : True or callable, optional
        True shows a bar.  A callable is called with (bytes done, bytes in all) in every pass.
    **unknown
        Raises an error that says how karat does what was meant.

    Returns
    -------
    results
        statsmodels' results of all rows, with labels; also ``tidy()``, ``glance()``,
        ``submodel(...)``, ``wild_bootstrap(...)``, ``predict(frame, interval=0.95)``, and
        ``coreset``, which you can save and query again later: ``ols(karat.load(path))``.  For
        several responses, and with ``split``, a mapping of them, with ``tidy()``, ``glance()`` and
        ``summary()``; the data is read as often as for one.

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
    if unknown:
        raise habits.no_argument(ols, unknown)
    clusters = options.cluster_columns(cluster)
    kinds, corrections = options.covariance_kinds(cov_type, clusters, submodels), small_sample(ssc)
    options.check_switches(use_t=use_t, residual_quantiles=residual_quantiles, submodels=submodels)
    drop = options.drops_collinear(on_collinear)
    for_effects: Any = {"memory": memory, "checkpoint": checkpoint}
    for_effects |= {"split": split, "fsplit": fsplit}
    if isinstance(formula, str) and "|" in formula and has_effects(formula):
        options.check_effects(
            data is None or is_kept(data), frequencies, residual_quantiles, submodels
        )
        with progress_bar(progress, "B") as advance:
            return panel_table(
                formula, data, kinds=kinds, clusters=clusters, weights=weights,
                ssc=small_sample(ssc, PYFIXEST), use_t=use_t, on_missing=on_missing, drop=drop,
                progress=advance, **for_effects,
            )  # fmt: skip
    options.refuse_without_effects(**for_effects)
    if isinstance(formula, Coreset):
        if weights is not None or frequencies is not None:
            raise InputError(
                "Remove weights= and frequencies=: a coreset has its own weights.",
                argument="weights",
            )
        core = _dropping(formula) if drop else formula
        if submodels and data is None and not (core.regression and core.regression.products):
            raise InputError(
                "submodels=True sums products of the columns of all rows; pass the data, too.",
                argument="data",
            )
        if data is not None:
            with progress_bar(progress, "B") as advance:
                core = _with_scores(
                    core, data, kinds, clusters, on_missing, residual_quantiles, advance, submodels
                )
        check_stored(core, clusters)
        fit = _shown(core, kinds[0], use_t, drop, corrections)
        if residual_quantiles:
            fit.residual_quantiles  # noqa: B018 - raises if they are not stored
        return fit
    options.check_formula(formula, data)
    if isinstance(data, Coreset) and data.regression is not None:
        if (weights, frequencies) != (None, None) or residual_quantiles or submodels:
            raise NotExactError(
                "A submodel of a coreset has the weights of the coreset, and no quantiles of"
                " residuals: these belong to one formula. Leave out these arguments."
            )
        check_stored(data, clusters)
        whole = _shown(data, "nonrobust", None, drop, corrections)
        return whole.submodel(formula, cov_type=kinds[0], use_t=use_t)
    with progress_bar(progress, "B") as advance:
        cores = formula_coresets(
            formula, data, weights, on_missing, advance, kinds, clusters, residual_quantiles, drop,
            frequencies, submodels,
        )  # fmt: skip
    tables = [_shown(core, kinds[0], use_t, ssc=corrections) for core in cores]
    if len(tables) == 1:
        return tables[0]
    return Tables({table.model.endog_names: table for table in tables})


def _shown(
    core: Coreset, kind: str, use_t: bool | None, drop: bool = False,
    ssc: SmallSample = STATSMODELS,
) -> Any:  # fmt: skip
    results = _table(core, kind, use_t, drop, ssc)
    if core.regression is not None:
        results.model.design = Encoder(restored_design(core.regression.facts).structural)
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
        given = design.drop(columns=facts.get("endogenous") or [])
        places = dependent_columns(given.to_numpy(), core.weights, intercept)
        dropped = [given.columns[place] for place in places]
    design = design.drop(columns=dropped or [])
    if design.empty:
        raise InputError("Every column is always zero; there is nothing to estimate.")
    targets = Provenance.read(core.provenance).targets or [getattr(core.y, "name", None) or "y"]
    response = pd.Series(y.ravel(), name=facts.get("response", str(targets[0])))
    kind = InstrumentalVariables if facts.get("instruments") else FrequencyWLS
    model = kind(response, design, core.weights, full_data(core), core)
    model.dropped, model.ssc = tuple(dropped or ()), ssc
    return model.fit(cov_type=cov_type, use_t=use_t)


def formula_coresets(
    text: str, data: Any, weight: str | None, on_missing: str, progress: Progress | None,
    kinds: Sequence[str] = (), clusters: Sequence[str] = (), quantiles: bool = False,
    drop: bool = False, frequencies: str | None = None, submodels: bool = False,
) -> list[Coreset]:  # fmt: skip
    """The coreset of every response of a formula, with the sums of the covariances and the
    quantiles of the residuals.
    """
    weight = options.weight_column(weight, frequencies, quantiles)
    others = (weight, *clusters)
    rows: Any
    if is_kept(data):
        rows = kept_rows(data, weight, quantiles, progress)
    else:
        rows = open_rows(needed_columns(data, text, others), progress)
    schema = rows.schema()
    formula = parse(text, [name for name in schema.names if name not in others], several=True)
    options.check_responses(formula, on_missing)
    columns = formula_columns(formula, schema, weight, on_missing, clusters)
    columns = replace(columns, frequencies=frequencies is not None)
    rows.as_codes(columns.coded())
    parts: list[tuple[Any, Any]] = [(rows, columns)]
    if is_kept(data):
        each = [(kept_rows(data, weight, quantiles, progress), one) for one in columns.each()]
        parts = [(kept, kept.columns(one.formula, one, kinds, clusters)) for kept, one in each]
    elif (
        weight is None
        and not quantiles
        and not list(transforms_of((*formula.factors, *formula.responses)))
    ):
        keys = tuple(dict.fromkeys([*formula.regressors, *clusters]))
        cells = as_cells(rows, columns, keys)
        if cells is not None:
            joined = [one.as_joined(RESPONSE, FREQUENCY) for one in columns.each()]
            parts = list(zip(cells, joined, strict=True))
    return [
        core
        for part in parts
        for core in _made(*part, weight, frequencies, kinds, clusters, quantiles, drop, submodels)
    ]


def _made(
    rows: Any, columns: FormulaLayout, weight: str | None, frequencies: str | None,
    kinds: Sequence[str], clusters: Sequence[str], quantiles: bool, drop: bool, submodels: bool,
) -> list[Coreset]:  # fmt: skip
    """The coresets of the responses of a layout."""
    formula = columns.formula
    learn = Learn(columns, rows.declared, rows.all_doubles)
    if learn.needed:
        learn = rows.scan(learn.reading(), learn)
    design = make_design(formula, learn.learned())
    if not design.names:
        raise InputError(f"The formula {formula.text!r} has no term; add one, or the intercept.")
    options.check_design(design)
    if design.instruments:
        check_instruments(design, kinds, submodels)
    layout = columns.of_design(design)
    core = rows.coreset(layout)
    facts = {
        "columns": design.names,
        "intercept": design.intercept,
        "observations": round(learn.total_weight)
        if columns.frequencies
        else int(core.n_represented),
        "weights": weight,
        "log_weights": learn.log_weights if weight is not None and not frequencies else None,
        "covariances": {},
    } | ({"frequencies": True} if frequencies else {})
    cores, several = [], len(formula.responses) > 1
    parts = by_response(core, formula) if several else [core]
    for each, one in zip(parts, formula.each(), strict=True):
        named = replace(design, formula=one).facts() | {"response": one.response.text}
        made = replace(each, regression=Regression(named | facts))
        cores.append(_dropping(made) if drop else made)
    return _scored(cores, rows, layout, kinds, clusters, quantiles, submodels)


def _scored(
    cores: list[Coreset], rows: Any, layout: DesignLayout, kinds: Sequence[str],
    clusters: Sequence[str], quantiles: bool, submodels: bool,
) -> list[Coreset]:  # fmt: skip
    """The coresets of the responses with the results of passes at their solutions: sums of robust
    covariances, quantiles of the residuals.
    """
    regressions: list[Any] = [core.regression for core in cores]
    wanted = wanted_sums(kinds)
    options.check_labels(wanted, clusters)
    if not wanted and not quantiles:
        return cores
    facts, models = regressions[0].facts, [_table(core).model for core in cores]
    stages = [Stage(model.solution, model.solution) for model in models]
    if facts.get("instruments"):
        (stages,) = (model.stages for model in models)
    solutions = tuple(
        FullDataSolution(stage.passed, facts["intercept"], facts["observations"])
        for stage in stages
    )
    layout = replace(layout, dropped=tuple(facts.get("dropped") or ()))
    if wanted:
        summed = tuple(kind for kind in wanted if kind not in rows.robust)
        given = summed, len(clusters), layout.frequencies, submodels
        scores = rows.scan(
            replace(layout, labelled=bool(clusters)),
            Scores(solutions[0], *given)
            if len(solutions) == 1
            else StageScores(solutions, responses(facts), *given),
        )
        if len(summed) < len(wanted):
            add_robust_sums(scores, rows, layout, responses(facts))
        solved = [stage.solution for stage in stages]
        parts = [(scores, solved)]
        if len(cores) > 1:
            parts = [(part, [own]) for part, own in zip(scores.stages, solved, strict=True)]
        both = zip(regressions, parts, strict=True)
        regressions = [with_sums(stored, *part, clusters) for stored, part in both]
    if quantiles:
        for place, one in enumerate(layout.each()):
            found = {"residual_quantiles": residual_quantiles(rows, one, solutions[place])}
            stored = regressions[place]
            regressions[place] = replace(stored, facts=stored.facts | found)
    return [
        replace(core, regression=regression)
        for core, regression in zip(cores, regressions, strict=True)
    ]


def _with_scores(
    core: Coreset,
    data: Any,
    kinds: Sequence[str],
    clusters: Sequence[str],
    on_missing: str,
    quantiles: bool,
    progress: Any,
    submodels: bool,
) -> Coreset:
    """The coreset of a formula with sums over its data, which are computed now."""
    if core.regression is None:
        raise NotExactError(
            "This coreset was not made from a formula; call ols(formula, data, cov_type=...)."
        )
    rows, layout = rows_again(core.regression.facts, data, on_missing, clusters, progress)
    if layout.frequencies and quantiles:
        raise InputError(
            "Quantiles of residuals are not available with frequencies; repeat the rows.",
            argument="residual_quantiles",
        )
    (scored,) = _scored([core], rows, layout, kinds, clusters, quantiles, submodels)
    return scored
