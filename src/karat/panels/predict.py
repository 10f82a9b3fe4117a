"""The effects of the levels, and predictions for new rows.

    z = (X, y) less a shift, with effects a of every level (:mod:`.solve`);  t = (-b, 1)

The effect of a level is a t, and shift t is the constant.  Only the sums of the effects of a row
are determined.  In each connected component of the graph of pairs of two effects, one level of the
second is the reference: its effect is zero, and the first effect has the constant.  A row whose
levels lie in different components has no prediction.
"""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from karat.data.arguments import ColumnRoles
from karat.engine.linalg import Array, Flags, Indices
from karat.engine.stream import FOLD
from karat.errors import NotExactError, several
from karat.formulas.layout import typed_row
from karat.formulas.passes import only_columns, open_table
from karat.inference.new_rows import FILL_FIRST, Encoder, check_rows
from karat.io.source import ResumePoint, text_columns
from karat.panels.levels import Coded
from karat.panels.model import PanelModel
from karat.panels.read import PanelLayout

SEVERAL = 3  # effects, from which on constants are not all that may be undetermined


def level_effects(model: PanelModel) -> dict[str, pd.DataFrame]:
    """A frame for each effect: the effect of every level, its rows, and which are references."""
    parameters = model.parameters
    if len(model.levels) >= SEVERAL and parameters.rank is None:
        _caution(
            "Whether the effects are determined, up to a constant for each fixed effect, was not"
            " checked; pass ssc={'k_fixef_exact': True} to find out."
        )
    elif len(model.levels) >= SEVERAL and not _only_constants(model):
        raise NotExactError(
            f"The effects are not determined: {sum(parameters.levels):,} levels have the rank"
            f" {parameters.rank:,}. Their sum in each row is: use predict."
        )
    first, *others = frames = [_frame(model, place) for place in range(len(model.levels))]
    for frame in others:
        frame["reference"] = ~frame["component"].duplicated()
        zero = frame.loc[frame["reference"]].set_index("component")["effect"]
        for moved, sign in ((frame, -1.0), (first, 1.0)):
            moved["effect"] += sign * zero.loc[moved["component"]].to_numpy()
    first["effect"] += _constant(model)
    return {effect.name: frame for effect, frame in zip(model.plan.effects, frames, strict=True)}


def _only_constants(model: PanelModel) -> bool:
    """Whether it is known that the effects are determined up to constants."""
    return model.parameters.rank == model.parameters.absorbed(False)


def _caution(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=4)


def _frame(model: PanelModel, place: int) -> pd.DataFrame:
    """The effects of the levels that have rows, sorted by their labels."""
    effect, counts = model.plan.effects[place], model.counts[place]
    labels, joint = model.levels[place].labels(), len(effect.columns) > 1
    digits = [model.plan.decimals.get(name) for name in effect.columns]
    if not all(count is None for count in digits):
        labels = [
            tuple(map(_as_written, label, digits)) for label in (labels if joint else zip(labels))
        ]
        labels = labels if joint else [label for (label,) in labels]
    frame = pd.DataFrame(
        {
            "effect": model.absorbed.values[place] @ _combination(model),
            "rows": counts,
            "component": _connected(model, place),
            "reference": False,
        },
        index=pd.MultiIndex.from_tuples(labels, names=effect.columns)
        if joint
        else pd.Index(labels, name=effect.name),
    )
    return frame[counts > 0].sort_index()


def _as_written(label: Any, digits: int | None) -> Any:
    """The label as it is in the data: decimals are held as numbers."""
    return label if digits is None else Decimal(repr(label)).quantize(Decimal(1).scaleb(-digits))


def _connected(model: PanelModel, place: int) -> Indices:
    """The connected component of each level; one for all, unless there are two effects."""
    size = len(model.counts[place])
    if model.components is None:
        return np.zeros(size, dtype=np.intp)
    start = place * len(model.counts[0])
    return model.components[start : start + size]


def _combination(model: PanelModel) -> Array:
    """t: minus the coefficients, and 1 for the response."""
    t = np.zeros(len(model.chosen))
    t[model.chosen] = [*-model.solution.params, 1.0]
    return t


def _constant(model: PanelModel) -> float:
    return float(model.shift @ _combination(model))


def predicted(model: PanelModel, frame: Any) -> pd.Series:
    """The response of new rows; NaN, with a warning, where it is not determined."""
    check_rows(frame)
    design = model.design
    means = Encoder(design).matrix(frame, model.names) @ model.solution.params + _constant(model)
    labels, homes, t = _labels(model, frame), [], _combination(model)
    for place, effect in enumerate(model.plan.effects):
        codes = model.levels[place].find([labels[name] for name in effect.columns])
        known = codes >= 0
        known[known] = model.counts[place][codes[known]] > 0
        reason = f"a level of {effect.name!r} that the fit did not use"
        _leave_out(means, ~known, f"{reason} (it had no row, or only rows that were left out)")
        codes = np.where(known, codes, 0)
        means += (model.absorbed.values[place] @ t)[codes]
        homes.append(np.where(known, _connected(model, place)[codes], -1))
    if model.components is not None:
        apart = (homes[0] != homes[1]) & ~np.isnan(means)
        _leave_out(means, apart, "levels that no chain of rows connects")
    if len(homes) >= SEVERAL and not _only_constants(model):
        _caution(
            "Predictions are determined for combinations of levels that some row of the fit had,"
            " and perhaps not for others: the rank of the fixed effects is lower, or was not found"
            " (ssc={'k_fixef_exact': True})."
        )
    index = frame.index if hasattr(frame, "iloc") else None
    return pd.Series(means, index=index, name=design.formula.response.text)


def _leave_out(means: Array, rows: Flags, reason: str) -> None:
    """Make the predictions of rows NaN, and say so."""
    count = int(rows.sum())
    if count:
        means[rows] = np.nan
        has = "has" if count == 1 else "have"
        warnings.warn(
            f"{count:,} of {several(len(rows), 'row')} {has} {reason}; their predictions are NaN.",
            UserWarning,
            stacklevel=4,
        )


def _labels(model: PanelModel, frame: Any) -> dict[str, np.ndarray]:
    """The labels of new rows, by the columns of the effects."""
    names = tuple(dict.fromkeys(name for effect in model.plan.effects for name in effect.columns))
    source = open_table(only_columns(frame, names))
    schema = source.schema()
    ColumnRoles(names).among(schema.names)
    layout = PanelLayout(
        ColumnRoles(), formula=model.design.formula, text=tuple(text_columns(schema)), only=names,
        row=typed_row(schema), design=model.design, clusters=names, labelled=True,
        about_missing=FILL_FIRST,
    )  # fmt: skip
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for chunk in source.chunks(names, layout.numeric, FOLD, ResumePoint(), strict=True):
        for name in names:
            labels = layout.labels(chunk.table, name, chunk.where)
            parts[name].append(
                labels.distinct[labels.places] if isinstance(labels, Coded) else labels
            )
    return {name: np.concatenate(found) for name, found in parts.items()}
