"""What is shown of a coreset, and its rows as one table of another library.

The facts are one dictionary of plain values that can be written as JSON.  The notebook's box, the
HTML page and ``--json`` read this dictionary and not the coreset.

Columns keep their names and types.  A column that karat adds gets an underscore if the data already
uses its name: ``weight_`` if there is a feature ``weight``.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from importlib import import_module
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from karat.core import wording
from karat.core.provenance import Provenance
from karat.core.synthetic import SYNTHETIC
from karat.data.containers import as_numpy, columns_of, dimensions, is_frame
from karat.errors import MissingExtraError

if TYPE_CHECKING:
    from karat.core.coreset import Coreset

# columns that karat adds to those of the data
OWN = ("index", "weight", "group", "key")

LINE = 88  # characters of a printed line


def coreset_facts(core: Coreset) -> dict[str, Any]:
    """What a coreset is, what it keeps and does not keep, and where it comes from."""
    certificate = core.certificate
    return {
        "rows": int(core.n_represented),
        "left_out": int(core.n_rows - core.n_represented),
        "kept": len(core),
        "made": core.rows == SYNTHETIC,
        "problem": core.problem.describe(),
        "exact": certificate.ok,
        "certificate": certificate.to_dict(),
        "weights": weight_facts(core.weights),
        "groups": None if core.groups is None else len(np.unique(core.groups)),
        "absorbed": core.absorbed is not None,
        "keeps": certificate.keeps,
        "excludes": list(certificate.excludes),
        "notes": list(certificate.notes),
        "provenance": dict(core.provenance or {}),
    }


def weight_facts(weights: np.ndarray) -> dict[str, float]:
    """Extremes, quartiles and sum of the weights, and Kish's effective sample size ``(sum w)^2 /
    sum w^2``.
    """
    low, median, high = np.quantile(weights, [0.25, 0.5, 0.75])
    unit = float(weights.max())  # squares of weights of 1e200 would overflow
    scaled = weights / unit
    return {
        "min": float(weights.min()),
        "lower": float(low),
        "median": float(median),
        "upper": float(high),
        "max": unit,
        "sum": float(weights.sum()),
        "effective": float(scaled.sum() ** 2 / np.square(scaled).sum()),
    }


class Column(NamedTuple):
    """A column of the kept rows: its name, role and values."""

    name: str
    role: str  # index, weight, key, group, feature or target
    values: np.ndarray


def kept_columns(core: Coreset) -> list[Column]:
    """The columns of the kept rows; features and targets without names are x0, x1, ... and y."""
    columns = [] if core.indices is None else [Column("row", "index", core.indices)]
    columns += [Column("weight", "weight", core.weights)]
    columns += [
        Column(role, role, values)
        for role, values in (("key", core.keys), ("group", core.groups))
        if values is not None
    ]
    views = core.X if isinstance(core.X, tuple) else (core.X,)
    for i, view in enumerate(views):
        prefix = f"view{i}." if len(views) > 1 else ""
        columns += [
            Column(prefix + name, "feature", values)
            for name, values in _columns_by_name(view, "x").items()
        ]
    if core.y is not None:
        targets = _columns_by_name(core.y, "y")
        names = Provenance.read(core.provenance).targets or list(targets)
        columns += [
            Column(name, "target", values)
            for name, values in zip(names, targets.values(), strict=True)
        ]
    return columns


def _columns_by_name(table: Any, letter: str) -> dict[str, np.ndarray]:
    """The columns of any table by name; without names, a letter and a number (or the letter)."""
    if is_frame(table) and (dimensions(table) == 2 or getattr(table, "name", None) is not None):
        return columns_of(table)
    values = as_numpy(table)
    if values.ndim == 1:
        return {letter: values}
    return {f"{letter}{i}": column for i, column in enumerate(values.T)}


def to_pandas(core: Coreset) -> Any:
    """See :meth:`karat.Coreset.to_pandas`."""
    pandas = _library("pandas")
    columns = _columns_by_unique_name(core)
    row = None if core.indices is None else next(iter(columns))
    labels = pandas.RangeIndex(len(core)) if row is None else pandas.Index(columns[row], name=row)
    labels = core.X.index if hasattr(core.X, "iloc") else labels
    rest = {name: values for name, values in columns.items() if name != row}
    types = {
        name: None if values.dtype.kind in "OUS" else values.dtype for name, values in rest.items()
    }
    return pandas.DataFrame(
        {name: pandas.Series(rest[name], index=labels, dtype=kind) for name, kind in types.items()}
    )


def to_polars(core: Coreset) -> Any:
    """See :meth:`karat.Coreset.to_polars`."""
    return _library("polars").DataFrame(_columns_by_unique_name(core))


def to_arrow(core: Coreset) -> Any:
    """See :meth:`karat.Coreset.to_arrow`."""
    return _library("pyarrow").table(_columns_by_unique_name(core))


def _columns_by_unique_name(core: Coreset) -> dict[str, np.ndarray]:
    """The columns of the kept rows by unique names: first the row number, last the weight."""
    columns = kept_columns(core)
    of_data = [column for column in columns if column.role not in OWN]
    data = dict(zip(distinct([column.name for column in of_data]), of_data, strict=True))
    names = {role: free_name("row" if role == "index" else role, data) for role in OWN}
    added = {names[column.role]: column for column in columns if column.role in OWN}
    row = {} if core.indices is None else {names["index"]: added.pop(names["index"])}
    return {name: np.asarray(column.values) for name, column in (row | data | added).items()}


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with underscores if it is taken."""
    while name in taken:
        name += "_"
    return name


def distinct(names: Sequence[str], taken: Sequence[str] = ()) -> list[str]:
    """The names with underscores that make them unique: a target may share a feature's name."""
    unique: list[str] = []
    for name in names:
        unique.append(free_name(name, (*taken, *unique)))
    return unique


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(f"A table of {name} (pip install {name} is enough)", "io") from None


def coreset_line(core: Coreset) -> str:
    """Describe a coreset in one line."""
    certificate = core.certificate
    extra = f", {len(np.unique(core.groups))} groups" if core.groups is not None else ""
    made = core.rows == SYNTHETIC
    if certificate.verbatim:
        extra += f", {certificate.verbatim:,} of them rows of the data as they are"
    if core.absorbed:
        extra += ", with correction"
    rows = wording.rows_for(len(core), core.n_rows, core.n_rows - core.n_represented, made)
    return (
        f"Coreset({rows}{extra}, {core.problem.describe()}, "
        f"loss_error={certificate.loss_error:.1e}, {certificate.method})"
    )


class CoresetSummary:
    """The facts about a coreset as text (``print``), and as a table in a notebook."""

    def __init__(self, core: Coreset) -> None:
        self.core = core

    def __str__(self) -> str:
        facts = coreset_facts(self.core)
        rows = wording.summary_rows(facts, wording.TERMINAL) | wording.details(
            facts, wording.TERMINAL
        )
        indent = max(map(len, rows)) + 2
        lines = (
            fill(value, LINE - indent, break_long_words=False, break_on_hyphens=False)
            for value in rows.values()
        )
        return "\n".join(
            f"{name:<{indent}}" + text.replace("\n", "\n" + " " * indent)
            for name, text in zip(rows, lines, strict=True)
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return coreset_html(self.core)


def coreset_html(core: Coreset) -> str:
    """The headline and the summary of a coreset for a notebook."""
    facts, page = coreset_facts(core), wording.PAGE
    kind = "made rows" if facts["made"] else "rows"
    return wording.notebook_box(
        f"{page.count(facts['rows'])} \N{RIGHTWARDS ARROW} {page.count(facts['kept'])} {kind}",
        wording.summary_rows(facts, page) | wording.details(facts, page),
        ok=facts["exact"],
    )
