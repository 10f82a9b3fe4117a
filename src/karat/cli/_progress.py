"""A progress bar on standard error (a terminal): bytes read, bytes per second and the time left of work that takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 0.5  # seconds of work before a bar is worth drawing


@contextmanager
def progress(what: str, shown: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A callback for (bytes done, bytes in all), None where nobody would see the bar."""
    if not shown or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from karat.cli._show import console

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    start = time.monotonic()
    with Progress(*columns, console=console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task(what, total=None, visible=False)

        def advance(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, visible=time.monotonic() - start > PATIENCE)

        yield advance
