"""Latent-variable problems in memory, lowered as in files.

sample  = what the problem looks at: rows, documents, windows of three steps, triples of views
maps    = problem.maps(sample)    # one pass: whitening and what else makes the statistics linear
table   = the views of the sample, as KnownMaps(problem, maps) reads them: an ordinary problem from
        here on
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from karat.data.arguments import check_taken
from karat.data.batch import Table, check_weights, read_input
from karat.data.non_finite import explain_non_finite
from karat.engine.reduce import NonFiniteError
from karat.errors import InputError
from karat.problems.latent import KnownMaps, Latent
from karat.problems.latent.base import Maps
from karat.problems.latent.sample import Sample, sequence_steps

Result = TypeVar("Result")


def lowered_table(
    X: Any, problem: Latent, sample_weight: Any, lengths: Any, stored: Maps | None = None
) -> Table:
    """Samples for the problem lowered by stored maps, or by the maps of these rows (one pass)."""
    sample, tables = read_sample(X, problem, sample_weight, lengths)
    maps = explaining_nan(tables, lambda: problem.maps(sample))
    return Table(
        list(sample.views),
        sample.origin,
        sample.weights,
        names=[name for table in tables for name in table.names] * problem.rows_per_sample,
        n_rows=sample.n_rows,
        problem=KnownMaps(problem, maps if stored is None else stored, of_views=True),
        shape=f"{', '.join(map(str, sample.columns))} columns",
        notes=(*problem.notes(sample.inputs, sample.dropped), *problem.map_notes(maps)),
        maps=maps,
    )


def read_tables(X: Any, problem: Latent) -> tuple[Table, ...]:
    """The table or the three tables of X, checked."""
    if problem.input_tables == 1:
        if isinstance(X, tuple):
            raise InputError(f"{problem.describe()} takes one table, not a tuple of {len(X)}.")
        return (read_input(X, None, problem, None, None),)
    if not isinstance(X, tuple | list) or len(X) != problem.input_tables:
        raise InputError(
            "MultiView takes X as a tuple of three tables, one per view, with the same number of"
            " rows."
        )
    tables = tuple(read_input(view, None, problem, None, None) for view in X)
    if len({len(table) for table in tables}) > 1:
        raise InputError(
            f"The three views have {', '.join(str(len(t)) for t in tables)} rows; they must have"
            " equally many."
        )
    return tables


def read_sample(
    X: Any, problem: Latent, sample_weight: Any, lengths: Any
) -> tuple[Sample, tuple[Table, ...]]:
    """The samples of the problem in X, and its checked tables."""
    check_taken(problem, lengths=lengths)
    tables = read_tables(X, problem)
    count = len(tables[0])
    weights = check_weights(sample_weight, count)
    steps = None if lengths is None else sequence_steps(lengths, count)
    sample = problem.sample(tuple(table.parts[0] for table in tables), weights, steps)
    if not len(sample):
        raise InputError(problem.empty_message(sample.inputs, sample.dropped))
    return sample, tables


def explaining_nan(tables: tuple[Table, ...], action: Callable[[], Result]) -> Result:
    """The result of an action; if it meets NaN or infinity, raise an error that locates them."""
    try:
        return action()
    except NonFiniteError:
        names = [name for table in tables for name in table.names]
        raise explain_non_finite([table.parts[0] for table in tables], names) from None
