"""A table for each level of a column, and one of all rows, from the same passes.

Every sample is estimated by itself (:mod:`.estimate`); a pass over the data gives each of its rows
to the consumer that its sample asked for, so the data is read as often as for one table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from karat.data.batch import Batch
from karat.data.labels import encode
from karat.errors import InputError, NotExactError, UnknownLabelError
from karat.inference import habits
from karat.io.scan import Consumer
from karat.io.source import Chunk
from karat.panels.estimate import Estimation, Passes
from karat.panels.levels import Coded
from karat.panels.model import PanelModel
from karat.panels.pairs import check_budget
from karat.panels.results import PanelResults
from karat.panels.rows import BLOCK_ROWS, PanelPass

MOST_SAMPLES = 1_000
WHOLE = None  # the label of all rows; no row has it, since missing labels are errors or left out
FULL = "Full sample"
SHOWN = 5  # samples that a message names


@dataclass
class SplitPass(Consumer):
    """A consumer for each sample.

    Parameters
    ----------
    column : str
    place : int
        Of the column among the labels of a batch.
    consumers : dict
        By label.
    empty : PanelPass or None
        What rows of other samples are given to; None, to pass over them.
    """

    column: str
    place: int
    consumers: dict[Any, PanelPass]
    empty: PanelPass | None = None
    background = True
    held: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.consumers = {label: replace(each) for label, each in self.consumers.items()}

    def add(self, chunk: Chunk, batch: Batch) -> None:
        assert batch.keys is not None
        labels = batch.keys.columns[self.place]
        coded = isinstance(labels, Coded)
        distinct, codes = (labels.distinct, labels.places) if coded else encode(labels)
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(distinct))).tolist()
        for label, start, end in zip(distinct.tolist(), [0, *ends], ends, strict=False):
            consumer = self._consumer(label) if end > start else None
            if consumer is not None:
                consumer.add_batch(batch.take(order[start:end]))
        if WHOLE in self.consumers:
            self.consumers[WHOLE].add(chunk, batch)
        self.held += len(batch)
        if self.held > BLOCK_ROWS:  # so many rows wait in all samples together
            self._release()

    def _consumer(self, label: Any) -> PanelPass | None:
        if label not in self.consumers and self.empty is not None:
            if len(self.consumers) >= MOST_SAMPLES:
                raise InputError(
                    f"The column {self.column!r} has more than {MOST_SAMPLES:,} levels, and each"
                    " would have a table of its own; join levels.",
                    column=self.column,
                )
            self.consumers[label] = replace(self.empty)
        return self.consumers.get(label)

    def _release(self) -> None:
        for consumer in self.consumers.values():
            consumer.release()
        self.held = 0
        self.check()

    def check(self) -> None:
        """Raise if the pairs of all samples take more memory than they may."""
        check_budget([pairs for each in self.consumers.values() for pairs in each.counted()])

    def merge(self, other: SplitPass) -> None:
        """Add the samples of other rows."""
        for label, theirs in other.consumers.items():
            mine = self._consumer(label)
            assert mine is not None
            mine.merge(theirs)


@dataclass
class SampleModels:
    """The models of all samples, and the errors of those that have none."""

    column: str
    models: dict[Any, PanelModel] = field(default_factory=dict)
    errors: dict[Any, InputError | NotExactError] = field(default_factory=dict)
    running: dict[Any, tuple[Passes[PanelModel], PanelPass]] = field(default_factory=dict)

    def advance(self, label: Any, steps: Passes[PanelModel], filled: PanelPass) -> None:
        """Go on with a sample until it needs another pass."""
        try:
            self.running[label] = steps, steps.send(filled)
        except StopIteration as end:
            self.models[label] = end.value
        except (InputError, NotExactError) as error:
            self.errors[label] = type(error)(f"{sample_name(self.column, label)}: {error}")


def sample_name(column: str, label: Any) -> str:
    """What messages call a sample."""
    return FULL if label is WHOLE else f"{column} = {label!r}"


def split_models(
    panel: Any, column: str, whole: bool, options: tuple[Sequence[str], bool, bool]
) -> SampleModels:
    """Estimate all samples of an opened panel; ``whole`` is whether all rows are one, too."""
    samples, place = SampleModels(column), panel.plan.columns.index(column)
    first = Estimation(panel.plan, panel.design, panel.text).passes(*options)
    empty = next(first)
    passed = panel.rows.scan(
        panel.layout, SplitPass(column, place, {WHOLE: empty} if whole else {}, empty)
    )
    for consumer in passed.consumers.values():
        consumer.finish()
    passed.check()
    for label in sorted(passed.consumers, key=_label_order):
        name = f"{sample_name(column, label)}: "
        steps = Estimation(panel.plan, panel.design, panel.text, name).passes(*options)
        next(steps)  # the sums, which are there
        samples.advance(label, steps, passed.consumers[label])
    del passed
    while samples.running:
        asked, samples.running = samples.running, {}
        consumers = {label: consumer for label, (_, consumer) in asked.items()}
        passed = panel.rows.scan(panel.layout, SplitPass(column, place, consumers))
        for label, (steps, _) in asked.items():
            samples.advance(label, steps, passed.consumers[label])
    return samples


def _label_order(label: Any) -> tuple[bool, str, Any]:
    """All rows first; then labels of one type together, in their order."""
    return label is not WHOLE, type(label).__name__ if label is not WHOLE else "", label


class SplitResults(Mapping[Any, PanelResults]):
    """Tables by the level of a column, as ``split=`` and ``fsplit=`` of fixest give them.

    Attributes
    ----------
    column : str
    errors : dict
        Why samples have no table, by their levels.
    """

    def __init__(
        self, column: str, results: dict[Any, PanelResults], errors: Mapping[Any, Exception]
    ) -> None:
        self.column, self.errors = column, errors
        self._results = {label: results[label] for label in sorted(results, key=_label_order)}
        if not results:
            raise next(iter(errors.values()))

    def warn(self, stacklevel: int) -> None:
        """Say which samples have no table."""
        if self.errors:
            some = " ".join(str(error) for error in list(self.errors.values())[:SHOWN])
            more = len(self.errors) - SHOWN
            warnings.warn(
                f"{len(self.errors):,} of {len(self.errors) + len(self._results):,} samples have no"
                f" table. {some}" + (f" And {more:,} more." if more > 0 else ""),
                UserWarning,
                stacklevel=stacklevel + 1,
            )

    def __getitem__(self, label: Any) -> PanelResults:
        if label in self.errors:
            raise self.errors[label]
        if label not in self._results or label is WHOLE:
            levels = ", ".join(map(repr, list(self)[:20]))
            raise UnknownLabelError(f"{self.column!r} has no level {label!r}; it has {levels}.")
        return self._results[label]

    def __getattr__(self, name: str) -> Any:
        raise habits.no_attribute_of_several(self, PanelResults, "fits[level]", name)

    def __iter__(self) -> Iterator[Any]:
        return (label for label in self._results if label is not WHOLE)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def full(self) -> PanelResults:
        """The table of all rows."""
        if WHOLE in self.errors:
            raise self.errors[WHOLE]
        if WHOLE not in self._results:
            raise InputError("The table of all rows is part of fsplit=, not of split=.")
        return self._results[WHOLE]

    def samples(self) -> list[tuple[str, PanelResults]]:
        """The name and the table of every sample, all rows first."""
        return [
            (FULL if label is WHOLE else str(label), results)
            for label, results in self._results.items()
        ]

    def with_covariance(self, cov_type: str) -> SplitResults:
        """The same fits with another covariance, whose sums were computed."""
        changed = {label: fit.with_covariance(cov_type) for label, fit in self._results.items()}
        return SplitResults(self.column, changed, self.errors)

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """The coefficients of all samples as a frame, one row for each."""
        return self._stacked([(name, fit.tidy(alpha)) for name, fit in self.samples()])

    def glance(self) -> pd.DataFrame:
        """The statistics of all samples as a frame, one row for each."""
        return self._stacked([(name, fit.glance()) for name, fit in self.samples()])

    def _stacked(self, frames: list[tuple[str, pd.DataFrame]]) -> pd.DataFrame:
        for name, frame in frames:
            frame.insert(0, "sample", name)
        return pd.concat([frame for _, frame in frames], ignore_index=True)

    def summary(self, alpha: float = 0.05) -> str:
        """The tables as text."""
        tables = [
            f"Sample: {name if name == FULL else f'{self.column} = {name}'}\n{fit.summary(alpha)}"
            for name, fit in self.samples()
        ]
        return "\n\n\n".join([*tables, *(f"No table: {error}" for error in self.errors.values())])

    def __repr__(self) -> str:
        return self.summary()
