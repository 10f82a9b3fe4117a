"""What commands print: tables for people, one JSON document for scripts, and a bar while they read.

Tables have no frames and fold at any width.  They have colours on a terminal only, and none with
NO_COLOR.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from karat.core import wording
from karat.core.wording import TERMINAL

if TYPE_CHECKING:
    import numpy as np

    from karat import Coreset
    from karat.engine.rows import Progress

GOOD, BAD, GOLD = "green", "red", "yellow"
PATIENCE = 0.5  # seconds before the bar is drawn
# roles of the columns that come first, so that a narrow terminal shows them
FIRST = ("index", "weight", "target")
amount, seconds = wording.amount, TERMINAL.duration


def console() -> Console:
    """Make a console that prints text as it is, without reading markup in it (a file name may look
    like markup).
    """
    # rich takes NO_COLOR at its word, and writes bold
    colors: Any = None if os.environ.get("NO_COLOR") else "auto"
    return Console(highlight=False, markup=False, emoji=False, color_system=colors)


def document(values: Mapping[str, Any]) -> None:
    """Print one JSON document on standard output; NaN and infinity become null."""
    print(json.dumps(_json_value(values), allow_nan=False))


def say(text: str, style: str = "") -> None:
    """Print a line or a paragraph."""
    console().print(text, style=style)


def key_values(title: str, values: Mapping[str, Any], tone: str = "") -> None:
    """Print names and values in two columns, under a title in the colour ``tone``."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, str(value))
    out = console()
    out.print(title, style=f"bold {tone}")
    out.print(table)


def grid(names: Sequence[str], rows: Sequence[Sequence[Any]], tones: Sequence[str] = ()) -> None:
    """Print a table with a header.

    Numbers are aligned to the right, text that is too wide is cut, and ``tones`` gives a colour to
    each column.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(names):
        numeric = all(isinstance(row[i], int | float) for row in rows)
        tone = tones[i] if tones else ""
        table.add_column(
            name,
            justify="right" if numeric else "left",
            overflow="ellipsis",
            no_wrap=True,
            style=tone,
        )
    for row in rows:
        table.add_row(*(TERMINAL.number(v, 6) if isinstance(v, float) else str(v) for v in row))
    console().print(table)


def matrix(values: Any, most: int = 10) -> None:
    """Print an array of one or two dimensions; of a large one, its first rows and columns."""
    rows = values if values.ndim > 1 else values[None]
    fit = max(1, console().width // 13)
    grid(
        [str(i) for i in range(min(fit, rows.shape[1]))],
        [row[:fit].tolist() for row in rows[:most]],
    )
    if rows.shape[0] > most or rows.shape[1] > fit:
        say(
            f"(the first {min(most, rows.shape[0])} x {min(fit, rows.shape[1])}; --json prints all)"
        )


def _json_value(value: Any) -> Any:
    """Convert NumPy's numbers and arrays to what the json module takes."""
    if isinstance(value, Mapping):
        return {str(k): _json_value(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [_json_value(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_summary(core: Coreset) -> dict[str, Any]:
    """The facts about a coreset, for ``--json``."""
    from karat.core.export import coreset_facts
    from karat.core.regression import answers

    facts = coreset_facts(core)
    facts |= {"regression": answers(core.regression)} if core.regression is not None else {}
    return {"rows_in": facts.pop("rows"), "rows_kept": facts.pop("kept")} | facts


def summary_lines(core: Coreset) -> dict[str, str]:
    """The summary of a coreset, as rows of a table."""
    from karat.core.export import coreset_facts

    return wording.summary_rows(coreset_facts(core), TERMINAL)


def ordered_columns(core: Coreset) -> dict[str, np.ndarray]:
    """The kept rows by column: row number, weight and target first, then the others."""
    from karat.core.export import free_name, kept_columns

    columns: dict[str, np.ndarray] = {}
    for column in sorted(kept_columns(core), key=lambda column: column.role not in FIRST):
        # a column of the data may be called "weight" or "row", too
        columns[free_name(column.name, columns)] = column.values
    return columns


def names_of_role(core: Coreset, role: str) -> list[str]:
    """Names of the columns of a role; columns without names are called x0, x1, ... and y."""
    from karat.core.export import kept_columns

    return [column.name for column in kept_columns(core) if column.role == role]


@contextmanager
def progress(
    shown: bool, rows: Callable[[], int | None] = lambda: None
) -> Iterator[Progress | None]:
    """Show a bar if standard error is a terminal; yield a callback for (bytes done, total), or
    None.

    ``rows`` estimates the number of rows, which the bar counts; it is called only for a bar.
    """
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from karat.data.arguments import progress_bar

    count = rows()
    look = {"desc": "Reading", "leave": False, "delay": PATIENCE, "dynamic_ncols": True}
    with progress_bar(True, "rows" if count else "B", **look) as advance:
        if advance is None or not count:
            yield advance
        else:
            yield lambda done, total: advance(count * done // max(total, 1), count)
