"""A progress bar for ``progress=True`` and for the command line: tqdm's.

It is text in a notebook too.  A bar that is a widget is lost when a notebook is saved as a page: a reader would see its first
state, 0 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from karat.engine.rows import Progress
from karat.errors import InputError, MissingExtraError


@contextmanager
def progress_bar(shown: Progress | bool | None, unit: str, **options: Any) -> Iterator[Progress | None]:
    """Show a bar while the block runs, if ``shown`` is True; it yields a callback for (done, in all), or None.

    Parameters
    ----------
    shown : bool, callable or None
        A callable is yielded as it is.
    unit : {"rows", "B"}
        What is counted.
    **options
        For tqdm.
    """
    if not isinstance(shown, bool):
        if shown is not None and not callable(shown):
            raise InputError(
                f"progress is {shown!r}; it must be True, False or a function of (done, in all).", argument="progress"
            )
        yield shown
    elif not shown:
        yield None
    elif find_spec("tqdm") is None:
        raise MissingExtraError("progress=True (a bar by tqdm)", "progress")
    else:
        from tqdm import tqdm

        with tqdm(unit=f" {unit}" if unit == "rows" else unit, unit_scale=True, **options) as bar:
            yield lambda done, total: _move(bar, done, total)


def _move(bar: Any, done: int, total: int) -> None:
    """Go to ``done``; a bar that would go back begins anew, because another pass does."""
    if done < bar.n:
        bar.reset(total or None)
    bar.total = total or None
    bar.update(done - bar.n)
