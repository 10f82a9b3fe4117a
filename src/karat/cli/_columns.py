"""Options that name columns of the data; the names are checked before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from karat.errors import InputError

PANEL = "Columns (several separated by commas, or the option repeated)"
panel_option = partial(typer.Option, rich_help_panel=PANEL)


@dataclass(frozen=True)
class Roles:
    """The roles of the columns; None means that the option was not given."""

    target: Annotated[list[str] | None, panel_option("--target", "-t", metavar="COLUMN", help="The column to predict.")] = None
    columns: Annotated[list[str] | None, panel_option(metavar="COLUMN", help="Features; default: all others.")] = None
    drop_columns: Annotated[list[str] | None, panel_option(metavar="COLUMN", help="Columns that are not features.")] = None
    view: Annotated[
        list[str] | None, panel_option(metavar="COLUMN", help="Features of one view of multi-view; give it three times.")
    ] = None
    weight: Annotated[str | None, panel_option(metavar="COLUMN", help="Sample weights.")] = None
    groups: Annotated[str | None, panel_option(metavar="COLUMN", help="Groups (folds, sites): one exact coreset for each.")] = (
        None
    )
    key: Annotated[str | None, panel_option(metavar="COLUMN", help="A column that identifies rows.")] = None
    sequence: Annotated[str | None, panel_option(metavar="COLUMN", help="The sequence of each row, for hidden-markov.")] = None

    def arguments(self, known: list[str]) -> dict[str, Any]:
        """Those of :func:`karat.coreset_files`, with every name found among the ``known`` columns of the data."""
        single = {"sample_weight": self.weight, "groups": self.groups, "key": self.key, "sequence": self.sequence}
        typed = {"--weight": self.weight, "--groups": self.groups, "--key": self.key, "--sequence": self.sequence}
        for option, name in typed.items():
            named(option, None if name is None else [name], known)
        target = named("--target", self.target, known)
        return single | {"target": target or None, "columns": self._features(known, {*target, *single.values()})}

    def _features(self, known: list[str], taken: set[str | None]) -> list[Any]:
        given = [self.columns, self.drop_columns, self.view]
        if sum(one is not None for one in given) > 1:
            raise InputError("--columns, --drop-columns and --view exclude each other; use one of them.")
        if self.view is not None:
            if len(self.view) != 3:
                raise InputError(f"--view is for the three views of multi-view: give it three times, not {len(self.view)}.")
            return [named("--view", [view], known) for view in self.view]
        from karat._data.roles import other_columns

        dropped = named("--drop-columns", self.drop_columns, known)
        return named("--columns", self.columns, known) or other_columns(known, {*taken, *dropped})


def named(option: str, typed: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Split a list of columns at commas and check every name.

    A text with a comma is one name if the data has such a column.
    """
    found = []
    for text in typed or ():
        found += [text] if text in known else [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            from karat._data.advice import closest

            close = closest(name, known)
            hint = f"there are {', '.join(known)}." if close is None else f"did you mean {close}?"
            raise InputError(f"{option} {name}: the data has no such column; {hint}")
    return found
