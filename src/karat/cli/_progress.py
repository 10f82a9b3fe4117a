"""A progress bar on standard error, if that is a terminal: rows or bytes, the speed, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from karat._core.wording import short

if TYPE_CHECKING:
    from rich.progress import Progress, Task

PATIENCE = 0.5  # seconds before the bar is drawn
NARROW = 60  # terminal columns below which only the bar and the time left are shown


@contextmanager
def progress(
    what: str, shown: bool, rows: Callable[[], int | None] = lambda: None
) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar and yield a callback for (bytes done, bytes in all), or None without a terminal.

    ``rows`` returns about how many rows there are; it is called only if there is a bar.
    """
    if not shown or not sys.stderr.isatty():
        yield None
        return
    start = time.monotonic()
    with _bar(rows()) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, visible=time.monotonic() - start > PATIENCE)

        yield advance


def _bar(rows: int | None) -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    from karat.cli._show import console

    class RowsColumn(ProgressColumn):
        """Rows done and rows per second, estimated from the bytes."""

        def render(self, task: Task) -> Text:
            each = (rows or 0) / task.total if task.total else 0.0
            speed = f", {short(task.speed * each)} rows/s" if task.speed else ""
            return Text(f"{short(task.completed * each)} of {short(rows or 0)} rows{speed}", style="progress.download")

    err = console(stderr=True)
    amounts = (RowsColumn(),) if rows else (DownloadColumn(), TransferSpeedColumn())
    columns = (TextColumn("{task.description}"), BarColumn(), *(amounts if err.width >= NARROW else ()), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True)
