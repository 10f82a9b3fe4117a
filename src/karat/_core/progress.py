"""A progress bar for ``progress=True``: in a notebook our own, on a terminal that of tqdm or rich, whichever is installed.

Bars of a notebook that are widgets are lost when it is saved as a page: the first state, 0 rows, is what a reader sees.  Ours
is an output of the cell that is replaced as the work goes on, so the last state is saved.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from karat._core.wording import amount
from karat.errors import InputError, MissingExtraError

Advance = Callable[[int, int], None]
OFTEN = 0.1  # seconds between two states of a bar


@contextmanager
def progress_bar(shown: Advance | bool | None, unit: str) -> Iterator[Advance | None]:
    """Show a bar while the block runs, if ``shown`` is True; it yields a callback for (done, in all), or None.

    Parameters
    ----------
    shown : bool, callable or None
        A callable is yielded as it is.
    unit : {"rows", "B"}
        What is counted.
    """
    if shown is not None and not isinstance(shown, bool) and not callable(shown):
        raise InputError(f"progress is {shown!r}; it must be True, False or a function of (done, in all).", argument="progress")
    if not isinstance(shown, bool):
        yield shown
    elif not shown:
        yield None
    elif _in_notebook():
        cell = NotebookBar(unit)
        try:
            yield cell.move
        finally:
            cell.show()
    elif find_spec("tqdm") is not None:
        from tqdm import tqdm

        with tqdm(unit=f" {unit}" if unit == "rows" else unit, unit_scale=True) as bar:
            yield lambda done, total: _move(bar, done, total)
    elif find_spec("rich") is not None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
        with Progress(*columns) as rich_bar:
            task = rich_bar.add_task("", total=None)
            yield lambda done, total: rich_bar.update(task, completed=done, total=total or None)
    else:
        raise MissingExtraError("progress=True (a bar by tqdm or rich)", "progress")


class NotebookBar:
    """A bar that is an output of the cell, replaced as the work goes on."""

    def __init__(self, unit: str) -> None:
        from IPython.display import display

        self.unit, self.done, self.total = unit, 0, 0
        self.start = self.shown = time.monotonic()
        self.output: Any = display(self, display_id=True)

    def move(self, done: int, total: int) -> None:
        """Go to ``done``; the output changes ten times a second at most."""
        self.done, self.total = done, total
        if time.monotonic() - self.shown > OFTEN:
            self.show()

    def show(self) -> None:
        """Replace the output."""
        self.shown = time.monotonic()
        if self.output is not None:
            self.output.update(self)

    def __repr__(self) -> str:
        write = amount if self.unit == "B" else "{:,}".format
        known = f" of {write(self.total)}" if self.total else ""
        return f"{write(self.done)}{known}{' rows' if self.unit == 'rows' else ''}, {self.shown - self.start:.1f} s"

    def _repr_html_(self) -> str:
        value = f'value="{self.done}" max="{self.total}"' if self.total else ""
        return f'<progress {value} style="vertical-align: middle; accent-color: #c98a00"></progress> {self!r}'


def _in_notebook() -> bool:
    """Whether a kernel runs this, whose outputs are shown by a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def _move(bar: Any, done: int, total: int) -> None:
    """Go to ``done``; a bar that would go back begins anew, because another pass does."""
    if done < bar.n:
        bar.reset(total or None)
    bar.total = total or None
    bar.update(done - bar.n)
