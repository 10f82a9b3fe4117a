"""The regression of a formula with fixed effects: ``karat.ols("y ~ x | firm + year", data)``.

levels      one pass, if regressors have categories or transforms of all rows
estimates   two passes or more, each of which gives what the next one needs (:mod:`.estimate`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from karat.core.regression import BY_CLUSTER
from karat.engine.rows import Progress
from karat.errors import InputError, NotExactError
from karat.formulas.design import INTERCEPT, Design, make_design, restored_design
from karat.formulas.formula import parse
from karat.formulas.layout import formula_columns
from karat.formulas.learn import Learn
from karat.formulas.passes import needed_columns, open_rows
from karat.inference.options import SmallSample, check_design, check_labels
from karat.panels.effects import Effect, parse_effects
from karat.panels.estimate import Estimation
from karat.panels.model import PanelModel
from karat.panels.pairs import announce
from karat.panels.read import PanelLayout
from karat.panels.results import PanelResults
from karat.panels.rows import PanelPlan
from karat.panels.split import SplitResults, split_models

KINDS = ("nonrobust", "HC0", "HC1", "HC2", "HC3", *BY_CLUSTER)
MEMORY = 2**32  # bytes of pairs of levels, unless memory= says otherwise


def panel_table(
    text: str, data: Any, *, kinds: Sequence[str], clusters: Sequence[str], weights: str | None,
    ssc: SmallSample, use_t: bool | None, on_missing: str, drop: bool, memory: int | None,
    progress: Progress | None, checkpoint: str | Path | None, split: str | None,
    fsplit: str | None,
) -> PanelResults | SplitResults:  # fmt: skip
    """The table of a formula with fixed effects; see :func:`karat.inference.ols`."""
    regressors, effects = parse_effects(text)
    _check_kinds(kinds, clusters, effects)
    if weights is not None and not isinstance(weights, str):
        raise InputError("weights must be the name of a column of the data.", argument="weights")
    column = _split_column(split, fsplit, checkpoint)
    others = dict.fromkeys([weights, *(c for e in effects for c in e.columns), *clusters, column])
    rows = open_rows(needed_columns(data, regressors, list(others)), progress)
    call = {
        "formula": text, "cov_type": list(kinds), "cluster": list(clusters), "weights": weights,
        "on_missing": on_missing, "on_collinear": drop, "exact": ssc.k_fixef_exact,
    }  # fmt: skip
    options = kinds, drop, ssc.k_fixef_exact
    with rows.resumable(checkpoint, call):
        panel = Panel.opened(
            text, regressors, effects, clusters, weights, rows, on_missing, memory, column
        )
        if column is None:
            return PanelResults(panel.model(*options), kinds[0], ssc, use_t)
    samples = split_models(panel, column, fsplit is not None, options)
    tables = {
        label: PanelResults(model, kinds[0], ssc, use_t) for label, model in samples.models.items()
    }
    results = SplitResults(column, tables, samples.errors)
    results.warn(stacklevel=3)
    return results


def _split_column(split: Any, fsplit: Any, checkpoint: Any) -> str | None:
    """The column of the samples; None for one table."""
    if split is not None and fsplit is not None:
        raise InputError(
            "Pass split= for a table of each level, or fsplit= to have that of all rows, too; not"
            " both.",
            argument="split",
        )
    column = fsplit if split is None else split
    if not isinstance(column, str | None):
        raise InputError(
            f"split= and fsplit= take the name of a column, not {column!r}.", argument="split"
        )
    if column is not None and checkpoint is not None:
        raise InputError(
            "A table for each level cannot be resumed; leave out checkpoint=, or split=.",
            argument="checkpoint",
        )
    return column


def _check_kinds(kinds: Sequence[str], clusters: Sequence[str], effects: Sequence[Effect]) -> None:
    check_labels(kinds, clusters)
    other = [kind for kind in kinds if kind not in KINDS]
    if other:
        raise NotExactError(
            f"The covariance {other[0]} is not available with fixed effects behind '|'; use one of"
            f" {', '.join(KINDS)}."
        )
    unknown = [kind for kind in kinds if kind in ("HC2", "HC3")]
    if unknown and len(effects) > 1:
        raise NotExactError(
            f"{unknown[0]} needs the leverage of every row, which has no closed form with"
            f" {len(effects)} fixed effects; use HC1, or cluster the errors."
        )


@dataclass(frozen=True)
class Panel:
    """The rows of a panel, and how they are read.

    Attributes
    ----------
    rows : SourceRows or ClusterRows
    layout : PanelLayout
    plan : PanelPlan
    design : Design
    text : str
        The formula.
    """

    rows: Any
    layout: PanelLayout
    plan: PanelPlan
    design: Design
    text: str

    @staticmethod
    def opened(
        text: str, regressors: str, effects: tuple[Effect, ...], clusters: Sequence[str],
        weights: str | None, rows: Any, on_missing: str, memory: int | None,
        split: str | None = None,
    ) -> Panel:  # fmt: skip
        """Find the columns, and learn the levels of categories among the regressors."""
        columns_of_effects = (name for effect in effects for name in effect.columns)
        given = [*columns_of_effects, *clusters, *([] if split is None else [split])]
        labels = tuple(dict.fromkeys(given))
        others = [name for name in (weights, *labels) if name is not None]
        schema = rows.schema()
        formula = parse(regressors, [name for name in schema.names if name not in others])
        columns = formula_columns(formula, schema, weights, on_missing, labels)
        text_labels = [name for name in labels if name in columns.text]
        rows.as_codes(list(dict.fromkeys([*columns.coded(), *text_labels])))

        def design_facts() -> dict[str, Any]:
            learn = Learn(columns, rows.declared, rows.all_doubles)
            if split is not None and learn.transforms:
                raise InputError(
                    f"The term {learn.transforms[0].key!r} depends on all rows of a sample, and the"
                    f" samples of {split!r} are not known before the data is read; fit them one by"
                    " one, or make a column of it.",
                    argument="split",
                )
            if learn.categories or learn.transforms:
                learn = rows.scan(learn.reading(), learn)
            else:
                learn.layout = replace(columns, roles=replace(columns.roles, weight=None))
            return make_design(formula, learn.learned()).facts()

        design = restored_design(rows.remembered("design", design_facts))
        if design.names in ([], [INTERCEPT]):
            raise InputError(
                f"The formula {text!r} has no regressor besides the fixed effects; add one."
            )
        check_design(design)
        base = replace(columns.of_design(design), labelled=True)
        layout = PanelLayout(**{field.name: getattr(base, field.name) for field in fields(base)})
        plan = PanelPlan(
            effects, tuple(clusters), labels, len(design.names) + 1, weights is not None,
            MEMORY if memory is None else memory, _decimals(schema, labels),
        )  # fmt: skip
        announce(plan, rows.row_count() if plan.pairs else None)
        return Panel(rows, layout, plan, design, text)

    def model(self, kinds: Sequence[str], drop: bool, exact: bool) -> PanelModel:
        """The estimates of all rows, and sums for covariances."""
        steps = Estimation(self.plan, self.design, self.text).passes(kinds, drop, exact)
        asked = next(steps)
        while True:
            try:
                asked = steps.send(self.rows.scan(self.layout, asked))
            except StopIteration as end:
                model: PanelModel = end.value
                return model


def _decimals(schema: pa.Schema, labels: Sequence[str]) -> dict[str, int]:
    """The digits behind the point of the labels that are decimals."""
    kinds = {name: schema.field(name).type for name in labels}
    return {name: kind.scale for name, kind in kinds.items() if pa.types.is_decimal(kind)}
