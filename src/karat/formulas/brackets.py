"""The brackets of a formula with instruments, ``y ~ w + [endogenous ~ instruments]``, as in
linearmodels.

The brackets are cut out before the formula is parsed; a name stands in their place, so that
the parser says where they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from karat.errors import InputError

PLACE = "brackets_"  # stands for the brackets in the formula
EXAMPLE = "y ~ w + [endogenous ~ instruments]"
CLOSING = {"(": ")", "[": "]", "{": "}"}
QUOTES = "`'\""


@dataclass(frozen=True)
class Brackets:
    """A formula with instruments, taken apart.

    Attributes
    ----------
    formula : str
        The formula, with :data:`PLACE` for the brackets.
    endogenous, instruments : str
        What is on the left and on the right of ``~`` in the brackets.
    """

    formula: str
    endogenous: str
    instruments: str


def brackets_of(text: str) -> Brackets | None:
    """The brackets of a formula; None if it has none."""
    spans, bars, tildes = outside(text)
    # behind a bar, brackets without '~' are slopes of effects
    spans = [(a, b) for a, b in spans if not bars or a < bars[0] or "~" in text[a:b]]
    if not spans:
        return None
    if len(spans) > 1:
        raise InputError(
            f"The formula {text!r} has {len(spans)} pairs of brackets; write all endogenous"
            f" regressors and all instruments in one: {EXAMPLE}."
        )
    start, end = spans[0]
    if bars:
        raise InputError(
            f"The formula {text!r} has instruments and, after '|', fixed effects; karat has no"
            " instrumental variables with absorbed effects. Write effects with few levels as"
            " C(g), or remove one of the two."
        )
    inside = text[start + 1 : end]
    _, bars, middle = outside(inside)
    if len(middle) != 1 or bars or not any(place < start for place in tildes):
        raise InputError(
            f"The brackets of the formula {text!r} cannot be read; write them after '~', as"
            f" in {EXAMPLE}."
        )
    return Brackets(
        f"{text[:start]}{PLACE}{text[end + 1 :]}",
        inside[: middle[0]].strip(),
        inside[middle[0] + 1 :].strip(),
    )


def outside(text: str) -> tuple[list[tuple[int, int]], list[int], list[int]]:
    """The brackets, the bars and the tildes that are not inside parentheses or quotes."""
    spans, bars, tildes = [], [], []
    waiting: list[tuple[str, int]] = []  # what closes what is open, and where it was opened
    quote = ""
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in QUOTES:
            quote = sign
        elif sign in CLOSING:
            waiting.append((CLOSING[sign], place))
        elif waiting and sign == waiting[-1][0]:
            _, start = waiting.pop()
            if sign == "]" and not waiting:
                spans.append((start, place))
        elif not waiting and sign == "|":
            bars.append(place)
        elif not waiting and sign == "~":
            tildes.append(place)
    return spans, bars, tildes
