"""Which columns are what, for latent-variable problems: one table or three views, and the sequence of every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from karat._data.batch import Piece
from karat._stream.latent import FirstPass, SecondPass
from karat.errors import InputError
from karat.io.layout import Layout
from karat.problems.base import Problem
from karat.problems.latent import HiddenMarkov, Latent, MultiView


@dataclass(frozen=True)
class LatentRoles:
    """The roles of the columns.

    Attributes
    ----------
    layout : Layout
        Its group is the column that names sequences; no features: all columns without another role, once they are known.
    widths : tuple of int or None
        Columns of each view, where there are several.
    """

    layout: Layout
    widths: tuple[int, ...] | None

    def among(self, names: Sequence[str]) -> LatentRoles:
        """The same, with the features that these columns leave."""
        layout = self.layout
        if not layout.features:
            layout = replace(layout, features=tuple(c for c in names if c not in layout.columns))
        if not layout.features:
            raise InputError("No columns are left for the features; keep at least one.")
        return replace(self, layout=layout)

    def feed(self, step: FirstPass | SecondPass, table: Any, where: Callable[[int], str]) -> int:
        """Let a pass take the rows of a table; return how many were left out."""
        piece, dropped = self.layout.piece(table, step.samples.rows, where)
        names = self.layout.feature_names(sum(part.shape[1] for part in piece.parts))
        take(step, piece, table.num_rows, names, where)
        return dropped


def take(step: FirstPass | SecondPass, piece: Piece, count: int, names: list[str] | None, where: Callable[[int], str]) -> None:
    """Let a pass take a piece; what is wrong with it is said with its place."""
    try:
        step.take(piece, count, names)
    except InputError as error:
        raise InputError(f"Counting from {where(0)}: {error}") from error


def latent_roles(
    problem: Latent, columns: Any, sequence: str | None, sample_weight: str | None, key: str | None, pipeline: Any,
    on_missing: str,
) -> LatentRoles:  # fmt: skip
    """Checked roles."""
    refuse_sequence(problem, sequence)
    if isinstance(problem, HiddenMarkov) and on_missing == "drop":
        raise InputError(
            "on_missing='drop' would join steps of a sequence that are not neighbours; fill the missing values, or name a "
            "new sequence after each of them."
        )
    widths = None
    features = () if columns is None else tuple(columns)
    if isinstance(problem, MultiView):
        if pipeline is not None:
            raise InputError("MultiView does not take a pipeline, whose output does not say which view a column belongs to.")
        if len(features) != 3 or any(isinstance(view, str) for view in features):
            raise InputError(
                "MultiView needs the columns of each of its three views.",
                "Pass columns as three lists of names, one per view.",
                argument="columns",
            )
        widths = tuple(len(view) for view in features)
        features = tuple(name for view in features for name in view)
    elif any(not isinstance(name, str) for name in features):
        raise InputError(f"{problem.describe()} takes columns as one list of names.")
    twice = [name for i, name in enumerate(features) if name in features[:i]]
    if twice or (widths is not None and not all(widths)):
        raise InputError(f"Column {twice[0]!r} is named twice." if twice else "Each of the three views needs a column.")
    return LatentRoles(Layout(features, (), sample_weight, sequence, key, pipeline, on_missing == "drop"), widths)


def refuse_sequence(problem: Problem | None, sequence: Any) -> None:
    if sequence is not None and not isinstance(problem, HiddenMarkov):
        name = "This problem" if problem is None else problem.describe()
        remedy = "The argument sequence is for HiddenMarkov only."
        raise InputError(f"{name} does not look at sequences.", remedy, argument="sequence")
