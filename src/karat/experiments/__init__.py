"""The tables and figures of the paper, made again: ``karat reproduce``.

One experiment a file, each a function ``run(settings)`` that returns an :class:`Experiment` of plain tables and figures.
``run.py`` lists them and runs them, ``page.py`` makes the page, ``data.py`` finds the data, ``literal.py`` holds the paper's
algorithms as they are printed, and ``samplers.py`` and ``tasks.py`` are what the comparison compares.
"""

from karat.experiments.data import MissingDataError, Source
from karat.experiments.result import Experiment, Figure, Table
from karat.experiments.run import EXPERIMENTS, Outcome, reproduce
from karat.experiments.settings import Settings

__all__ = ["EXPERIMENTS", "Experiment", "Figure", "MissingDataError", "Outcome", "Settings", "Source", "Table", "reproduce"]
