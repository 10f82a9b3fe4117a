"""The part of a formula behind the bar: the absorbed fixed effects.

y ~ x1 + x2 | firm + year       two effects
y ~ x | firm^year + product     the levels of firm^year are the combinations that occur
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from karat.errors import InputError
from karat.formulas.formula import brackets_of

QUOTED_OR_BAR = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\|")
NAME = re.compile(r"`([^`]+)`|([^\W\d][\w.]*)")
SLOPE = re.compile(r"[^\[\]]+\[.*\]")
MOST_EFFECTS = 8


@dataclass(frozen=True)
class Effect:
    """A factor whose levels are absorbed.

    Attributes
    ----------
    name : str
        As it is written.
    columns : tuple of str
        One, or those whose combinations are the levels.
    """

    name: str
    columns: tuple[str, ...]


def split_formula(text: str) -> list[str]:
    """The parts of a formula between its bars, which are no bars inside quotes."""
    bars = [found.start() for found in QUOTED_OR_BAR.finditer(text) if found[0] == "|"]
    starts, ends = [0, *(bar + 1 for bar in bars)], [*bars, len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def has_effects(text: str) -> bool:
    """Whether a formula has a part behind a bar."""
    return len(split_formula(text)) > 1


def parse_effects(text: str) -> tuple[str, tuple[Effect, ...]]:
    """The formula of the regressors, and the effects; raises if they cannot be read."""
    if "[" in text:
        brackets_of(text)  # refuses instruments beside fixed effects
    regressors, *others = split_formula(text)
    if len(others) > 1:
        raise InputError(
            f"The formula {text!r} has {len(others)} bars. One bar is for fixed effects, 'y ~ x |"
            " firm + year'; instruments cannot be combined with fixed effects, and clusters are"
            " cluster='firm'."
        )
    effects = [_effect(part.strip(), text) for part in others[0].split("+")]
    names = ["^".join(sorted(effect.columns)) for effect in effects]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise InputError(f"The formula {text!r} has the fixed effect {twice[0]!r} twice.")
    if len(effects) > MOST_EFFECTS:
        raise InputError(
            f"The formula {text!r} has {len(effects)} fixed effects; karat absorbs up to"
            f" {MOST_EFFECTS}. Join some with '^', or write small ones as C(g)."
        )
    return regressors, tuple(effects)


def _effect(text: str, formula: str) -> Effect:
    if SLOPE.fullmatch(text):
        raise InputError(
            f"The fixed effect {text!r} has slopes that vary by level, which karat does not absorb;"
            " write them as an interaction C(g):x where the levels are few."
        )
    columns = []
    for part in text.split("^"):
        name = NAME.fullmatch(part.strip())
        if name is None:
            raise InputError(
                f"The fixed effect {text!r} of the formula {formula!r} is no column. Fixed effects"
                " are columns, such as 'firm + year', or combinations of them, 'firm^year'; compute"
                " other levels as a column first."
            )
        columns.append(name[1] or name[2])
    if len(set(columns)) < len(columns):
        raise InputError(f"The fixed effect {text!r} names a column twice.")
    return Effect("^".join(columns), tuple(columns))
