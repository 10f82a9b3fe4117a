"""Printing: tables for people, one JSON document for scripts.

Tables have no frames and fold at any width.  They have colours on a terminal only, and none with NO_COLOR.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from karat._core.wording import TERMINAL, amount

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["BAD", "GOLD", "GOOD", "amount", "console", "document", "facts", "grid", "matrix", "say", "seconds"]

GOOD, BAD, GOLD = "green", "red", "yellow"
seconds = TERMINAL.duration


def console(stderr: bool = False) -> Console:
    """Make a console that prints text as it is, without reading markup in it (a file name may look like markup)."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def document(values: Mapping[str, Any]) -> None:
    """Print one JSON document on standard output; NaN and infinity become null."""
    print(json.dumps(_plain(values), allow_nan=False))


def say(text: str, style: str = "") -> None:
    """Print a line or a paragraph."""
    console().print(text, style=style)


def facts(title: str, values: Mapping[str, Any], tone: str = "") -> None:
    """Print names and values in two columns, under a title in the colour ``tone``."""
    from rich.table import Table

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

    Numbers are aligned to the right, text that is too wide is cut, and ``tones`` gives a colour to each column.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(names):
        numeric = all(isinstance(row[i], int | float) for row in rows)
        tone = tones[i] if tones else ""
        table.add_column(name, justify="right" if numeric else "left", overflow="ellipsis", no_wrap=True, style=tone)
    for row in rows:
        table.add_row(*(TERMINAL.number(v, 6) if isinstance(v, float) else str(v) for v in row))
    console().print(table)


def matrix(values: Any, most: int = 10) -> None:
    """Print an array of one or two dimensions; of a large one, its first rows and columns."""
    rows = values if values.ndim > 1 else values[None]
    fit = max(1, console().width // 13)
    grid([str(i) for i in range(min(fit, rows.shape[1]))], [row[:fit].tolist() for row in rows[:most]])
    if rows.shape[0] > most or rows.shape[1] > fit:
        say(f"(the first {min(most, rows.shape[0])} x {min(fit, rows.shape[1])}; --json prints all)")


def _plain(value: Any) -> Any:
    """Convert NumPy's numbers and arrays to what the json module takes."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
