"""Run all experiments and write one page, CSV and PNG files.  If one fails, the others still
run.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from karat.errors import InputError, MissingExtraError
from paper.result import Experiment
from paper.settings import Settings

# Name on the command line, and the module.
EXPERIMENTS = {
    "printed": "printed",
    "table1": "ridge",
    "figure1": "size_and_lambda",
    "table2": "mixtures",
    "table3": "topics",
    "lp": "powers",
    "hmm": "hmm",
    "lda": "dirichlet",
    "ica": "ica",
    "times": "times",
    "comparison": "comparison",
}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one experiment."""

    name: str
    experiment: Experiment | None  # None if it failed
    seconds: float
    error: str = ""  # the error in one line; empty if there was none


Progress = Callable[[str, str, int, int], None]


def chosen(only: Sequence[str] | None, experiments: Mapping[str, str] = EXPERIMENTS) -> list[str]:
    """The experiments asked for, in the order of the paper."""
    unknown = [name for name in only or () if name not in experiments]
    if unknown:
        raise InputError(
            f"There is no experiment {', '.join(unknown)}; choose from {', '.join(experiments)}."
        )
    return [name for name in experiments if not only or name in only]


def reproduce(
    folder: str | Path,
    only: Sequence[str] | None = None,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
    experiments: Mapping[str, str] = EXPERIMENTS,
) -> list[Outcome]:
    """Run the experiments of the names ``only``, by default all, and write the page, CSV and PNG
    files to a folder.

    ``progress`` is called with (experiment, what it is doing, experiments done, experiments in
    all).
    """
    try:
        import matplotlib  # noqa: F401  (before experiments run for hours)

        from paper.page import write_page
    except ImportError as error:
        raise MissingExtraError("python -m paper", "models,report") from error
    folder, settings, names = Path(folder), settings or Settings(), chosen(only, experiments)
    folder.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for done, name in enumerate(names):

        def say(what: str, name: str = name, done: int = done) -> None:
            if progress is not None:
                progress(name, what, done, len(names))

        say("")
        outcome = _attempt(name, experiments[name], Settings(settings.source, settings.quick, say))
        outcomes.append(outcome)
        if outcome.experiment is not None:
            for part in outcome.experiment.tables:
                part.write(folder / f"{part.name}.csv")
            for figure in outcome.experiment.figures:
                figure.write(folder / f"{figure.name}.png")
        # after each one, so that an interrupted run leaves a page
        write_page(folder, outcomes, settings)
    return outcomes


def _attempt(name: str, module: str, settings: Settings) -> Outcome:
    begin = time.perf_counter()
    try:
        experiment = import_module(f"paper.{module}").run(settings)
    except Exception as error:  # the other experiments must run
        where = traceback.extract_tb(error.__traceback__)[-1]
        line = f"{type(error).__name__}: {error} ({Path(where.filename).name}, line {where.lineno})"
        return Outcome(name, None, time.perf_counter() - begin, line)
    return Outcome(name, experiment, time.perf_counter() - begin)
