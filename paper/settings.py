"""Settings of the experiments: data source, size, and a callback for progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from paper.data import MissingDataError, Source

Value = TypeVar("Value")


@dataclass(frozen=True)
class Settings:
    """How to run an experiment."""

    source: Source = field(default_factory=Source)
    quick: bool = False  # fewer points, seeds and rows; faster and less precise
    say: Callable[[str], None] = lambda _: None  # called with a few words about the current step

    def each(
        self, names: Sequence[str], load: Callable[[str], Value], missing: list[str]
    ) -> Iterator[tuple[str, Value]]:
        """Load data sets by name; for those that are missing, a message is added to ``missing``."""
        for name in names:
            self.say(name)
            try:
                value = load(name)
            except MissingDataError as error:
                missing.append(f"{name} is left out: {error}")
            else:
                yield name, value
