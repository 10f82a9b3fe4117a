"""Experiments that compute the tables and figures of the paper:

``make reproduce``, which is ``python -m paper``.

Each experiment is a file with a function ``run(settings)`` that returns an :class:`Experiment` of
tables and figures. ``run.py`` lists and runs them, ``page.py`` writes the page, ``data.py`` finds
the data, ``literal.py`` has the paper's algorithms as printed, and ``samplers.py`` and ``tasks.py``
define the comparison.
"""

from paper.data import MissingDataError, Source
from paper.result import Experiment, Figure, Table
from paper.run import EXPERIMENTS, Outcome, reproduce
from paper.settings import Settings

__all__ = [
    "EXPERIMENTS",
    "Experiment",
    "Figure",
    "MissingDataError",
    "Outcome",
    "Settings",
    "Source",
    "Table",
    "reproduce",
]
