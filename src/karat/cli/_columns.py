"""Which columns of the data are what, as it is typed; names are checked before any row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from karat.errors import InputError

PANEL = "What the columns are (several with commas between, or the option repeated)"


@dataclass(frozen=True)
class Roles:
    """The roles of the columns; None is "not given"."""

    target: Annotated[
        list[str] | None, typer.Option("--target", "-t", metavar="COLUMN", help="What is predicted.", rich_help_panel=PANEL)
    ] = None
    columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Features; default: all others.", rich_help_panel=PANEL)
    ] = None
    drop_columns: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Left out of the features.", rich_help_panel=PANEL)
    ] = None
    view: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Features of one view of multi-view; give it three times.", rich_help_panel=PANEL),
    ] = None
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Sample weights.", rich_help_panel=PANEL)] = None
    groups: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Groups (folds, sites): one exact coreset each.", rich_help_panel=PANEL),
    ] = None
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="Identifies rows.", rich_help_panel=PANEL)] = None
    sequence: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Names the sequence of a row, for hidden-markov.", rich_help_panel=PANEL),
    ] = None

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
            raise InputError("--columns, --drop-columns and --view do not go together; name the features one way.")
        if self.view is not None:
            if len(self.view) != 3:
                raise InputError(f"--view is for the three views of multi-view: give it three times, not {len(self.view)}.")
            return [named("--view", [view], known) for view in self.view]
        from karat._data.roles import other_columns

        dropped = named("--drop-columns", self.drop_columns, known)
        return named("--columns", self.columns, known) or other_columns(known, {*taken, *dropped})


def named(option: str, typed: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The columns that were typed; a name with a comma in it is one column if there is such a column."""
    found = []
    for text in typed or ():
        found += [text] if text in known else [part.strip() for part in text.split(",")]
    for name in found:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}."
            raise InputError(f"{option} {name}: the data has no such column; {hint}")
    return found
