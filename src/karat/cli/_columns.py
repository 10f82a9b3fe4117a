"""Options that name columns of the data; the names are checked before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from karat.errors import InputError

PANEL = "Columns (several separated by commas, or the option repeated)"


@dataclass(frozen=True)
class Roles:
    """The roles of the columns; None means that the option was not given."""

    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="COLUMN", help="The column to predict.", rich_help_panel=PANEL)
    ] = None
    columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Features; default: all others.", rich_help_panel=PANEL)
    ] = None
    drop_columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Columns that are not features.", rich_help_panel=PANEL)
    ] = None
    view: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Features of one view of multi-view; give it three times.", rich_help_panel=PANEL),
    ] = None
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Sample weights.", rich_help_panel=PANEL)] = None
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Groups (folds, sites): one exact coreset for each.", rich_help_panel=PANEL),
    ] = None
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column that identifies rows.", rich_help_panel=PANEL)] = (
        None
    )
    sequence: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The sequence of each row, for hidden-markov.", rich_help_panel=PANEL),
    ] = None

    def arguments(self, source: Sequence[str]) -> dict[str, Any]:
        """Arguments for :func:`karat.coreset_files`; every name is looked up in the data."""
        known = known_columns(source)
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
        dropped = named("--drop-columns", self.drop_columns, known)
        rest = [name for name in known if name not in taken and name not in dropped]
        return named("--columns", self.columns, known) or rest


def known_columns(source: Sequence[str]) -> list[str]:
    """Read the names of the columns from the files."""
    from karat.io.source import open_source

    return list(open_source(list(source), 1).schema().names)


def named(option: str, typed: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Split a list of columns at commas and check every name.

    A text with a comma is one name if the data has such a column.
    """
    found = []
    for text in typed or ():
        found += [text] if text in known else [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
            raise InputError(f"{option} {name}: the data has no such column; {hint}")
    return found
