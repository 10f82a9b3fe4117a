"""What is printed: a table of facts for people, one JSON document for scripts.

Tables have no frames, fold at any width, and carry colour on a terminal only (and not with NO_COLOR).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


GOOD, BAD, GOLD = "green", "red", "yellow"


def console(stderr: bool = False) -> Console:
    """A console that prints text as it is: what looks like markup in a file name is not."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def document(values: Mapping[str, Any]) -> None:
    """One JSON document on standard output; what JSON cannot say (nan, infinity) is null."""
    print(json.dumps(_plain(values), allow_nan=False))


def say(text: str, style: str = "") -> None:
    """A line or a paragraph."""
    console().print(text, style=style)


def facts(title: str, values: Mapping[str, Any], tone: str = "") -> None:
    """Names and values in two columns under a title, in the colour of its tone."""
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
    """A table with a header; numbers are aligned to the right, what is too wide is cut, and each column may have a colour."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(names):
        numeric = all(isinstance(row[i], int | float) for row in rows)
        tone = tones[i] if tones else ""
        table.add_column(name, justify="right" if numeric else "left", overflow="ellipsis", no_wrap=True, style=tone)
    for row in rows:
        table.add_row(*(number(v) if isinstance(v, float) else str(v) for v in row))
    console().print(table)


def matrix(values: Any, most: int = 10) -> None:
    """An array of one or two dimensions, its corner if it is large."""
    rows = values if values.ndim > 1 else values[None]
    fit = max(1, console().width // 13)
    grid([str(i) for i in range(min(fit, rows.shape[1]))], [row[:fit].tolist() for row in rows[:most]])
    if rows.shape[0] > most or rows.shape[1] > fit:
        say(f"(the first {min(most, rows.shape[0])} x {min(fit, rows.shape[1])}; --json prints all)")


def number(value: float) -> str:
    """Six digits, enough to compare by eye."""
    return f"{value:.6g}"


def seconds(value: float) -> str:
    """A time in words of the right size."""
    if value < 1:
        return f"{value * 1e3:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    from karat._core.wording import clock

    return clock(value)


def amount(value: float) -> str:
    """Bytes in words of the right size."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"


def _plain(value: Any) -> Any:
    """What the json module takes: NumPy's numbers and arrays as Python's."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
