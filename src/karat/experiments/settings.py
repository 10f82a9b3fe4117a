"""What every experiment is handed: its data, how thorough to be, and a way to say what it is doing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from karat.experiments.data import MissingDataError, Source

Value = TypeVar("Value")


def _silent(_: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class Settings:
    """How to run an experiment.

    Attributes
    ----------
    source : Source
        Where data come from.
    quick : bool
        Fewer points, seeds and rows: a look, not a measurement.
    say : callable
        Told in a few words what is being done.
    """

    source: Source = field(default_factory=Source)
    quick: bool = False
    say: Callable[[str], None] = _silent

    def each(self, names: Sequence[str], load: Callable[[str], Value], missing: list[str]) -> Iterator[tuple[str, Value]]:
        """Name and value of everything that can be loaded; what cannot is added to ``missing``."""
        for name in names:
            self.say(name)
            try:
                value = load(name)
            except MissingDataError as error:
                missing.append(f"{name} is left out: {error}")
            else:
                yield name, value
