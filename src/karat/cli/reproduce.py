"""karat reproduce: compute the tables and figures of the paper."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from karat._core.wording import several
from karat.cli import _show
from karat.cli._errors import FAILED
from karat.cli._options import Common
from karat.errors import StorageError

if TYPE_CHECKING:
    from karat.experiments import Outcome


def reproduce(
    shown: Common,
    only: Annotated[
        str | None,
        typer.Option(
            help="Some of: table1, figure1, table2, table3, lp, hmm, lda, ica, times, comparison; separated by commas."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for index.html, CSV and PNG files.")] = Path(
        "reproduction"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points, seeds and rows; faster and less precise.")] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Download nothing; experiments without data are left out, and the output says so.")
    ] = False,
) -> None:
    """Compute the paper's tables and figures, and experiments it does not have, and write one page with its numbers and ours.

    Data is read from the folder in KARAT_DATA, or downloaded. Exit code 1 if an experiment failed.

    Example:  karat reproduce --only table1,figure1 -o reproduction
    """
    from karat.experiments import Settings, Source
    from karat.experiments import reproduce as run

    if output.exists() and not output.is_dir():
        raise StorageError(f"{output} is a file; --output names a folder.")
    names = [name.strip() for name in only.split(",") if name.strip()] if only else None
    settings = Settings(Source(network=not offline), quick)
    with _progress() as progress:
        outcomes = run(output, names, settings=settings, progress=progress)
    page = output / "index.html"
    if shown.as_json:
        _show.document({"page": str(page), "experiments": [_plain(outcome) for outcome in outcomes]})
    else:
        _show.grid(
            ["experiment", "time", "outcome"],
            [[o.name, _show.seconds(o.seconds), "failed: " + o.error if o.error else "done" + _missing(o)] for o in outcomes],
        )
        for message in dict.fromkeys(message for outcome in outcomes for message in _left_out(outcome)):
            _show.say(message)
        _show.say(f"The page: {page}")
    if any(outcome.error for outcome in outcomes):
        raise typer.Exit(FAILED)


def _left_out(outcome: Outcome) -> list[str]:
    return list(outcome.experiment.missing) if outcome.experiment else []


def _missing(outcome: Outcome) -> str:
    parts = len(_left_out(outcome))
    return f", {several(parts, 'part')} left out" if parts else ""


def _plain(outcome: Outcome) -> dict[str, object]:
    experiment = outcome.experiment
    return {
        "name": outcome.name,
        "seconds": outcome.seconds,
        "error": outcome.error or None,
        "left_out": _left_out(outcome),
        "tables": [f"{table.name}.csv" for table in experiment.tables] if experiment else [],
        "figures": [f"{figure.name}.png" for figure in experiment.figures] if experiment else [],
    }


@contextmanager
def _progress() -> Iterator[Callable[[str, str, int, int], None]]:
    """A bar on a terminal, else a line for each experiment; both on standard error."""
    if not sys.stderr.isatty():
        yield (
            lambda name, what, done, total: (
                None if what else print(f"{name} ({done + 1} of {total})", file=sys.stderr, flush=True)
            )
        )
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=_show.console(stderr=True), transient=True) as bar:
        task = bar.add_task("experiments", total=None)
        yield lambda name, what, done, total: bar.update(
            task, completed=done, total=total, description=f"{name}: {what}" if what else name
        )
