"""How Arrow rows become batches of numbers: the roles of the columns, and what is done about
missing values.

Categories and means are the :class:`~karat.io.encoding.Encoding` of a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from karat import __version__
from karat.core.provenance import Provenance
from karat.data import containers
from karat.data.advice import FILL, IMPUTE, OR_MEAN, about_time, leave_or_encode
from karat.data.arguments import ColumnRoles
from karat.data.batch import Batch
from karat.data.labels import as_keys
from karat.errors import InputError, check_choice, several
from karat.io.encoding import Encoding, level_text
from karat.io.source import (
    DROP_ROWS,
    NOT_A_NUMBER,
    decimals_as_doubles,
    decoded,
    is_number,
    pandas_index,
    sort_of,
)
from karat.io.written_labels import Reading, require_no_commas, without_bytes
from karat.problems import Problem
from karat.problems.latent import HiddenMarkov, MultiView


@dataclass(frozen=True)
class Layout:
    """How Arrow rows are read.

    Attributes
    ----------
    roles : ColumnRoles
    pipeline : object or None
        A fitted transformer: features go through its ``transform`` first.
    drop : bool
        Leave rows with missing values out, instead of refusing them.
    encoding : Encoding or None
        Features that are one-hot encoded, or whose missing values become the mean.
    reading : str or mapping of column to str
        How columns of labels are read (:mod:`karat.io.written_labels`).
    learns : bool
        Whether there may be a pass for an encoding, so that messages advise it.
    """

    roles: ColumnRoles
    pipeline: Any = None
    drop: bool = False
    encoding: Encoding | None = field(default=None, kw_only=True)
    reading: Reading | Mapping[str, Reading] = field(default="checked", kw_only=True)
    learns: bool = field(default=False, kw_only=True)

    @staticmethod
    def encoded(
        problem: Problem, roles: ColumnRoles, pipeline: Any, on_missing: str, one_hot: Sequence[str]
    ) -> Layout:
        """A layout whose encoding is to be learned in a pass of its own, if it has one."""
        check_choice("on_missing", on_missing, "error", "drop", "mean")
        fill = on_missing == "mean"
        known = "error" if fill else on_missing
        layout = replace(Layout.of(problem, roles, pipeline, known), learns=True)
        if not fill and not one_hot:
            return layout
        if pipeline is not None:
            raise InputError(
                "one_hot and on_missing='mean' cannot be combined with a pipeline; let the pipeline"
                " encode and impute."
            )
        if isinstance(problem, MultiView | HiddenMarkov):
            raise InputError(
                f"{problem.describe()} does not support one_hot and on_missing='mean'; encode and"
                " impute the columns first."
            )
        return replace(layout, encoding=Encoding(tuple(one_hot), fill))

    @staticmethod
    def of(problem: Problem | None, roles: ColumnRoles, pipeline: Any, on_missing: str) -> Layout:
        """A layout from arguments; an error if they cannot be combined."""
        check_choice("on_missing", on_missing, "error", "drop")
        if pipeline is not None and not hasattr(pipeline, "transform"):
            raise InputError("pipeline must be a fitted transformer with a transform method.")
        if isinstance(problem, HiddenMarkov) and on_missing == "drop":
            raise InputError(
                "on_missing='drop' would join steps of a sequence that are not neighbours; fill the"
                " missing values, or name a new sequence after each of them."
            )
        if isinstance(problem, MultiView) and pipeline is not None:
            raise InputError(
                "MultiView does not support a pipeline, because its output does not show which view"
                " a column belongs to."
            )
        return Layout(roles, pipeline, on_missing == "drop")

    def among(self, schema: pa.Schema) -> Layout:
        """The layout with its columns found in a schema; an error if one must be numeric and is
        not.
        """
        # By default, an index that pandas stored with the rows is not a feature.
        unnamed = [] if self.roles.features else pandas_index(schema)
        layout = replace(
            self,
            roles=self.roles.among(
                [name for name in schema.names if name not in unnamed] or schema.names
            ),
        )
        for name in self._categories:
            if name not in layout.roles.features:
                there = "is not a feature" if name in schema.names else "is not in the data"
                raise InputError(
                    f"The column {name!r} of one_hot {there}; list features only.",
                    argument="one_hot",
                )
        layout.check_numbers(schema)
        return layout

    def provenance(
        self,
        problem: Problem,
        seed: int,
        source: dict[str, Any],
        dropped: dict[str, int],
        content: Any,
        digest: Any = None,
        text_labels: list[str] | None = None,
    ) -> dict[str, Any]:
        """The provenance, as JSON, of a coreset that is made from these columns now."""
        roles, targets = self.roles, list(self.roles.targets)
        edges = np.cumsum([0, *(roles.widths or ())]).tolist()
        named = {"weight": roles.weight, "group": roles.group, "key": roles.key}
        return Provenance(
            karat=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            source=source,
            target=None if not targets else targets[0] if len(targets) == 1 else targets,
            columns=[list(roles.features[a:b]) for a, b in pairwise(edges)] or list(roles.features),
            roles=named | ({"sequence": roles.sequence} if problem.needs_sums else {}),
            pipeline=None if self.pipeline is None else type(self.pipeline).__name__,
            on_missing="drop" if self.drop else "mean" if self._fills else "error",
            encoding=None if self.encoding is None else self.encoding.to_dict(),
            dropped=dropped,
            problem=problem.describe(),
            seed=seed,
            content=content,
            digest=digest,
            text_labels=text_labels,
        ).to_dict()

    @property
    def columns(self) -> list[str]:
        """All columns to read, each once."""
        return self.roles.columns

    @property
    def numeric(self) -> list[str]:
        """Columns that must hold numbers."""
        features = () if self.pipeline is not None else self.roles.features
        names = [*(name for name in features if name not in self._categories), *self.roles.targets]
        return names if self.roles.weight is None else [*names, self.roles.weight]

    @property
    def label_readings(self) -> dict[str, Reading]:
        """The columns of labels, and how each is read; the features of a pipeline are no labels."""
        others = {*self.numeric, *(() if self.pipeline is None else self.roles.features)}
        names, reading = [c for c in self.columns if c not in others], self.reading
        return {n: reading if isinstance(reading, str) else reading[n] for n in names}

    @property
    def gaps(self) -> bool:
        """Whether missing numbers are allowed."""
        return self.drop or self.pipeline is not None or self._fills

    @property
    def _categories(self) -> tuple[str, ...]:
        return () if self.encoding is None else self.encoding.columns

    @property
    def _fills(self) -> bool:
        return self.encoding is not None and self.encoding.fill

    @property
    def width(self) -> int:
        """Number of features before a pipeline."""
        return len(
            self.roles.features
            if self.encoding is None
            else self.encoding.names(self.roles.features)
        )

    def check_numbers(self, schema: pa.Schema) -> None:
        """Raise if a column that must be numeric is not."""
        require_no_commas(schema, self.numeric)
        for name in self.numeric:
            field = schema.field(name)
            culprit = (field.metadata or {}).get(NOT_A_NUMBER)
            if culprit is not None and not self.drop:  # else rows without a number are left out
                raise InputError(culprit.decode(), DROP_ROWS, argument="on_missing", column=name)
        others = [name for name in self.numeric if not is_number(schema.field(name))]
        if others:
            raise self._not_numeric(others[0], schema.field(others[0]).type, others)

    def _not_numeric(self, name: str, kind: pa.DataType, others: Sequence[str]) -> InputError:
        if name in self.roles.targets:
            problem = "is text" if sort_of(kind) == "text" else f"has type {kind}"
            return InputError(
                f"The target {name!r} {problem}; karat needs a numeric target: encode it as"
                " numbers, or choose another."
            )
        problem, advice = f"Column {name!r} has type {kind}, which is not numeric", about_time(kind)
        if advice is not None:
            return InputError(f"{problem}; {advice}. Or leave the column out.", column=name)
        left = [n for n in self.roles.features if n not in others]
        remedy = leave_or_encode([n for n in others if n in self.roles.features], left, self.learns)
        return InputError(f"{problem}.", remedy, argument="pipeline", column=name)

    def like(self, batch: Batch) -> dict[str, Any]:
        """The container in which rows are returned (:func:`karat.data.containers.describe`)."""
        targets = self.roles.targets
        single = len(targets) == 1
        kind = "sparse" if sparse.issparse(batch.parts[0]) else "pyarrow"
        names = self.feature_names(sum(part.shape[1] for part in batch.parts) - len(targets))
        parts = batch.parts[: len(batch.parts) - len(targets)]
        types = (
            [containers.integer_type(part.dtype) for part in parts for _ in range(part.shape[1])]
            if kind == "pyarrow"
            else None
        )
        return {
            "container": kind, "columns": names, "types": types,
            "target": targets[0] if single else None, "flat": single
        }  # fmt: skip

    def feature_names(self, count: int) -> list[str]:
        if self.encoding is not None:
            return self.encoding.names(self.roles.features)
        if self.pipeline is None:
            return list(self.roles.features)
        given = getattr(self.pipeline, "get_feature_names_out", lambda: range(count))
        return [str(name) for name in given()]

    def batch(self, table: Any, number: int, where: Callable[[int], str]) -> tuple[Batch, int]:
        """The used rows, numbered from ``number`` on, and how many were dropped.

        ``where`` describes the place of a row, for error messages.
        """
        keep = np.ones(table.num_rows, dtype=bool)
        parts = self.parts(table, keep, where)
        labels, keys = (
            None if c is None else self.labels(table, c, where)
            for c in (self.roles.label, self.roles.key)
        )
        weights = self.weights(table, keep, where)
        batch = Batch(parts, np.arange(number, number + table.num_rows), weights, labels, keys)
        dropped = int(len(keep) - keep.sum())
        return (batch.take(keep) if dropped else batch), dropped

    def parts(self, table: Any, keep: np.ndarray, where: Callable[[int], str]) -> list[Any]:
        """The columns of features, then of targets; dropped rows become False in ``keep``."""
        features = self.roles.features
        targets = [self._numbers(table, name, keep, where) for name in self.roles.targets]
        if self.pipeline is not None:
            return [self._transformed(table, keep, where), *targets]
        parts = [self._feature(table, name, keep, where) for name in features]
        if self.encoding is not None:
            self.encoding.check_known(dict(zip(features, parts, strict=True)), keep, where)
        return parts + targets

    def weights(
        self, table: Any, keep: np.ndarray, where: Callable[[int], str]
    ) -> np.ndarray | None:
        """The weights of the rows, none of them negative."""
        if self.roles.weight is None:
            return None
        weights = self._numbers(table, self.roles.weight, keep, where)[:, 0].astype(float)
        if (weights[keep] < 0).any():
            row = int(np.flatnonzero((weights < 0) & keep)[0])
            raise InputError(
                f"{where(row)}: the weight in column {self.roles.weight!r} is negative; weights"
                " must be at least 0."
            )
        return weights

    def _feature(
        self, table: Any, name: str, keep: np.ndarray, where: Callable[[int], str]
    ) -> np.ndarray:
        """The columns that a feature becomes: one, or one per level."""
        encoding = self.encoding
        if encoding is None or (name not in encoding.columns and not encoding.fill):
            return self._numbers(table, name, keep, where)
        if name not in encoding.columns:
            return self._filled(table.column(name), name, keep, where)
        text = level_text(table.column(name))
        if self.drop:  # where nothing is written, nothing is known
            text = pc.if_else(pc.equal(text, ""), None, text)
        if text.null_count and not encoding.fill:
            self._missing(np.asarray(text.is_null())[:, None], [name], keep, where)
        return encoding.indicators(name, text)

    def _filled(
        self, column: Any, name: str, keep: np.ndarray, where: Callable[[int], str]
    ) -> np.ndarray:
        """A column with missing values replaced by its mean, once that is known."""
        if (
            pa.types.is_integer(column.type)
            and column.null_count
            and containers.rounds(np.asarray(column.fill_null(0)))
        ):
            raise InputError(
                f"Column {name!r} holds integers beyond 2^53 and missing values; a mean would"
                " round them all. Use on_missing='drop', or leave the column out.",
                column=name,
            )
        values = self._values(column, keep)[:, None]
        if values.dtype.kind == "f":
            assert self.encoding is not None
            self._refuse_infinite(values, [name], where)
            values = np.where(np.isnan(values), self.encoding.means.get(name, np.nan), values)
        return values

    def _numbers(
        self, table: Any, name: str, keep: np.ndarray, where: Callable[[int], str]
    ) -> np.ndarray:
        return self._checked(self._values(table.column(name), keep)[:, None], [name], keep, where)

    def _values(self, column: Any, keep: np.ndarray) -> np.ndarray:
        """The numbers of a column; NaN where one is missing."""
        if pa.types.is_decimal(column.type):
            column = decimals_as_doubles(column)
        if pa.types.is_boolean(column.type) and column.null_count:
            column = column.cast(pa.float64())
        # NaN would turn integers into doubles, which round beyond 2^53.
        if self.drop and column.null_count and pa.types.is_integer(column.type):
            keep &= np.asarray(column.is_valid())
            column = column.fill_null(0)
        # Nulls become NaN; a column of a single chunk without nulls is not copied.
        values = column.to_numpy(zero_copy_only=False)
        return (
            np.full(len(values), np.nan) if column.null_count == len(values) else np.asarray(values)
        )

    def _transformed(self, table: Any, keep: np.ndarray, where: Callable[[int], str]) -> Any:
        frame = table.select(list(self.roles.features)).to_pandas()
        block = containers.as_table(self.pipeline.transform(frame), "The pipeline's output")
        if block.shape[0] != table.num_rows:
            raise InputError(
                f"The pipeline returned {several(block.shape[0], 'row')} for {table.num_rows}; it"
                " must keep every row."
            )
        if sparse.issparse(block):
            if not np.isfinite(block.data).all():
                raise InputError(
                    f"{where(0)} or a later row of its batch: the pipeline returned values that are"
                    " not finite."
                )
            return block
        return self._checked(
            block, [f"{i} of the pipeline" for i in range(block.shape[1])], keep, where
        )

    def _checked(
        self,
        values: np.ndarray,
        names: Sequence[str],
        keep: np.ndarray,
        where: Callable[[int], str],
    ) -> np.ndarray:
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return values
        self._refuse_infinite(values, names, where)
        self._missing(np.isnan(values), names, keep, where)
        return values

    def _refuse_infinite(
        self, values: np.ndarray, names: Sequence[str], where: Callable[[int], str]
    ) -> None:
        if np.isinf(values).any():
            row, column = np.argwhere(np.isinf(values))[0]
            raise InputError(
                f"{where(int(row))}: column {names[column]!r} is infinite; drop or correct the row."
            )

    @property
    def _about_missing(self) -> tuple[str, str | None]:  # advice, and its argument
        if self._fills:
            return FILL, None
        return OR_MEAN if self.learns else f"{IMPUTE}.", "on_missing"

    def _missing(
        self,
        missing: np.ndarray,
        names: Sequence[str],
        keep: np.ndarray,
        where: Callable[[int], str],
    ) -> None:
        """Drop rows with missing values, or raise."""
        if not self.drop:
            row, column = np.argwhere(missing)[0]
            count, (advice, argument) = int(missing[:, column].sum()), self._about_missing
            raise InputError(
                f"{where(int(row))}: column {names[column]!r} has no value ({count:,} missing in"
                " this batch).",
                advice,
                argument=argument,
                column=names[column],
            )
        keep &= ~missing.any(axis=1)

    def labels(self, table: Any, name: str, where: Callable[[int], str]) -> np.ndarray:
        column = decoded(table.column(name))
        require_values(column, name, where)
        return as_keys(without_bytes(column, name, where).to_numpy(zero_copy_only=False))


def require_values(column: Any, name: str, where: Callable[[int], str]) -> None:
    """Raise if a column has a missing value."""
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise InputError(
            f"{where(row)}: column {name!r} has no value; every row needs one.", column=name
        )
