"""What every cluster does: a sketch per partition, where it lies; messages of O(m) rows, merged in a tree.

    message  = bytes of a sketch: at most rank rows per group, and peeled ones  # all that ever travels
    join     = FAN messages become one, in the order of their partitions
    finish   = the coreset of all

Rows are numbered through the partitions in order; unless a key column identifies them, their keys are ``partition:offset``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from karat._core.coreset import Coreset
from karat._data.checks import chosen_problem
from karat._stream import state as sketch_state
from karat._stream.sketch import Sketch
from karat.errors import InputError
from karat.io.layout import Layout
from karat.problems import Problem


@dataclass(frozen=True)
class Task:
    """What a worker must know.

    Attributes
    ----------
    problem : Problem
    layout : Layout or None
        The roles of the columns; None where rows come as arrays.
    seed : int
    before : int
        Bytes that travelled before.
    """

    problem: Problem
    layout: Layout | None
    seed: int
    before: int = 0

    def sketch(self) -> Sketch:
        """An empty one, with keys in any case; offsets cannot come twice, so they need no fingerprint."""
        sketch = Sketch(self.problem, "key", random_state=self.seed)
        sketch._watches_keys = self.layout is not None and self.layout.key is not None
        return sketch

    def part(self, number: int, tables: Iterable[Any]) -> bytes:
        """The message of one partition, given as Arrow tables or batches."""
        assert self.layout is not None
        sketch = self.sketch()
        dropped = 0
        for layout, table, where in keyed(self.layout, number, tables):
            dropped += layout.feed(sketch, table, where)
        return sketch_state.dump(sketch, {"dropped": dropped, "travelled": 0, "parts": 1})

    def part_of_arrays(self, number: int, X: Any, y: Any, weights: Any, groups: Any) -> bytes:
        """The message of one partition, given as arrays."""
        sketch = self.sketch()
        if len(X):
            try:
                sketch._update(X, y, weights, groups, offsets(number, 0, len(X)))
            except InputError as error:
                raise InputError(f"Partition {number}: {error}") from error
        return sketch_state.dump(sketch, {"dropped": 0, "travelled": 0, "parts": 1})

    def join(self, messages: Sequence[bytes]) -> bytes:
        """One message from several."""
        return sketch_state.dump(*self._merged(messages))

    def finish(self, messages: Sequence[bytes], way: str) -> Coreset:
        """The coreset, from the messages that are left."""
        sketch, state = self._merged(messages)
        core = sketch.coreset()
        if self.layout is None or self.layout.key is None:
            core = replace(core, keys=np.array([f"{k >> SHIFT}:{k % 2**SHIFT}" for k in core.keys.tolist()]))  # type: ignore[union-attr]
        notes = [*core.certificate.notes, f"{state['parts']} partitions sent {self.before + state['travelled']:,} bytes."]
        if state["dropped"]:
            notes.append(f"{state['dropped']:,} rows with missing values were left out.")
        method = f"{core.certificate.method}, {way}"
        return replace(core, certificate=replace(core.certificate, method=method, notes=tuple(notes)))

    def _merged(self, messages: Sequence[bytes]) -> tuple[Sketch, dict[str, Any]]:
        opened = [sketch_state.parse(m, self.problem) for m in messages]
        sketch = self.sketch().merge(*(s for s, _ in opened))
        state = {name: sum(e[name] for _, e in opened) for name in ("dropped", "travelled", "parts")}
        state["travelled"] += sum(map(len, messages))
        return sketch, state


OFFSET = "partition:offset"
SHIFT = 40  # a partition and an offset in one number, while they travel


def keyed(layout: Layout, number: int, tables: Iterable[Any]) -> Iterator[tuple[Layout, Any, Callable[[int], str]]]:
    """The tables of a partition with a key column in any case, the layout that says so, and rows in words."""
    done = 0
    own = layout if layout.key is not None else replace(layout, key=OFFSET)
    for table in tables:
        whole = table
        if layout.key is None:
            column = pa.array(offsets(number, done, table.num_rows))
            whole = table.append_column(OFFSET, column if isinstance(table, pa.RecordBatch) else [column])
        yield own, whole, place(number, done)
        done += table.num_rows


def offsets(number: int, start: int, count: int) -> np.ndarray:
    return (number << SHIFT) + np.arange(start, start + count)


def place(number: int, start: int) -> Callable[[int], str]:
    return lambda row: f"Partition {number}, row {start + row:,}"


def task(
    problem: Problem | None, targets: tuple[str, ...], columns: Sequence[str], sample_weight: str | None, groups: str | None,
    key: str | None, on_missing: str, random_state: int, pipeline: Any = None,
) -> Task:  # fmt: skip
    """A checked task for rows with named columns."""
    if on_missing not in ("error", "drop"):
        raise InputError(f"on_missing must be 'error' or 'drop', not {on_missing!r}.")
    problem = chosen_problem(problem, bool(targets))
    if problem.needs_target and not targets:
        raise InputError(f"{problem.describe()} needs a target: name its column.")
    Sketch(problem, random_state=random_state)  # refuses, with a sentence, what cannot be merged
    if not columns:
        raise InputError("No columns are left for the features; keep at least one.")
    layout = Layout(tuple(columns), targets, sample_weight, groups, key, pipeline, on_missing == "drop")
    return Task(problem, layout, int(random_state))


def roles(
    available: Sequence[str], target: str | Sequence[str] | None, columns: Sequence[str] | None, *others: str | None
) -> tuple[tuple[str, ...], list[str]]:
    """Targets and features; every named column must be there."""
    targets = () if target is None else (target,) if isinstance(target, str) else tuple(target)
    taken = [*targets, *(c for c in others if c is not None)]
    features = [c for c in available if c not in taken] if columns is None else list(columns)
    expect_columns([*taken, *features], available)
    return targets, features


def expect_columns(names: Sequence[str], available: Sequence[str]) -> None:
    """Every named column must be there."""
    for name in names:
        if name not in available:
            raise InputError(f"There is no column {name!r}; there are {', '.join(map(str, available))}.")
