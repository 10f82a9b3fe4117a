"""A progress bar for ``progress=True``: tqdm or rich, whichever is installed, on a terminal and in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from karat.errors import MissingExtraError

Advance = Callable[[int, int], None]


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
    if not isinstance(shown, bool):
        yield shown
    elif not shown:
        yield None
    elif find_spec("tqdm") is not None:
        with _tqdm()(unit=f" {unit}" if unit == "rows" else unit, unit_scale=True) as bar:
            yield lambda done, total: _move(bar, done, total)
    elif find_spec("rich") is not None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
        with Progress(*columns) as rich_bar:
            task = rich_bar.add_task("", total=None)
            yield lambda done, total: rich_bar.update(task, completed=done, total=total or None)
    else:
        raise MissingExtraError("progress=True (a bar by tqdm or rich)", "progress")


def _tqdm() -> Any:
    """The bar of a notebook, if it can be drawn there, else that of a terminal."""
    if "ipykernel" in sys.modules and find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm
    else:
        from tqdm import tqdm
    return tqdm


def _move(bar: Any, done: int, total: int) -> None:
    """Go to ``done``; a bar that would go back begins anew, because another pass does."""
    if done < bar.n:
        bar.reset(total or None)
    bar.total = total or None
    bar.update(done - bar.n)
